//! The body of a create: valid in, valid out, ours once, the rest untouched.

use bytes::Bytes;
use cubewarden::cube::api::{CreateBody, Edits, LabelNames, Lifecycle, OnTimeout, TimeoutBody};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::cases;

/// All pairs of an object, those that stand twice too: what `serde_json::Value` would hide.
fn pairs(text: &str) -> Vec<(String, Value)> {
    struct All;
    impl<'de> Visitor<'de> for All {
        type Value = Vec<(String, Value)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(pair) = map.next_entry()? {
                all.push(pair);
            }
            Ok(all)
        }
    }
    serde_json::Deserializer::from_str(text).deserialize_map(All).unwrap()
}

fn ours() -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    vec![pair("namespace", "n"), pair("env", "e"), pair("managed_by", "cubewarden"), pair("cw_marker", "m")]
}

fn edits() -> Edits {
    Edits {
        set_metadata: ours(),
        set_timeout: Some(77),
        lifecycle: Some(Lifecycle { on_timeout: Some(OnTimeout::Pause), auto_resume: Some(true) }),
        ..Edits::default()
    }
}

fn blank() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,2}"
}

/// A key in its raw form, some letters as escapes.
fn spelled(name: String) -> impl Strategy<Value = String> {
    vec(any::<bool>(), name.chars().count()).prop_map(move |escaped| {
        let letter = |(c, escape): (char, bool)| {
            if escape && c.is_ascii() { format!("\\u{:04X}", c as u32) } else { c.to_string() }
        };
        let letters: String = name.chars().zip(escaped).map(letter).collect();
        format!("\"{letters}\"")
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("1.50e+2".to_owned()),
        Just(r#""a\u0062\/,}{""#.to_owned()),
        Just(r#"{ "x" : [ 1 , {"}":"{"} ] }"#.to_owned()),
        Just("[ ]".to_owned()),
        "[a-z0-9 ü]{0,6}".prop_map(|text| format!("\"{text}\"")),
    ]
}

/// A member that nobody but the client cares about: (segment, value text).
fn foreign(n: usize) -> impl Strategy<Value = String> {
    let key = spelled(format!("k{n}ü"));
    (blank(), key, blank(), blank(), value(), blank())
        .prop_map(|(a, key, b, c, value, d)| format!("{a}{key}{b}:{c}{value}{d}"))
}

fn member(
    name: &'static str,
    values: impl Strategy<Value = String>,
) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(
        (blank(), spelled(name.to_owned()), values, blank())
            .prop_map(|(a, key, value, b)| format!("{a}{key}:{value}{b}")),
    )
}

fn object(segments: Vec<String>) -> impl Strategy<Value = String> {
    Just(segments).prop_shuffle().prop_map(|segments| format!("{{{}}}", segments.join(",")))
}

/// Segments of foreign members, and a whole object of them and of members that an edit may touch.
fn bodies() -> impl Strategy<Value = (Vec<String>, Vec<String>, String)> {
    let text = || "[a-z]{0,3}".prop_map(|text| format!("\"{text}\""));
    let inner = (
        [0, 1, 2].map(foreign_text),
        member("env", text()),
        member("managed_by", text()),
        member("CW_old", text()),
    );
    let inner = inner.prop_flat_map(|(theirs, env, managed, old)| {
        let all = theirs.iter().cloned().chain([env, managed, old].into_iter().flatten()).collect();
        (Just(theirs.to_vec()), object(all))
    });
    let metadata = prop_oneof![
        4 => inner,
        1 => Just((vec![], "null".to_owned())),
        1 => Just((vec![], "{ }".to_owned())),
    ];
    let whole = (
        [3, 4, 5].map(foreign),
        metadata,
        spelled("metadata".to_owned()),
        any::<bool>(),
        member("timeout", prop_oneof![Just("5".to_owned()), Just("-1".to_owned()), Just("null".to_owned())]),
        member(
            "lifecycle",
            prop_oneof![Just("null".to_owned()), Just(r#"{"on_timeout" : "kill"}"#.to_owned())],
        ),
    );
    whole.prop_flat_map(|(theirs, (inner, metadata), key, with, timeout, lifecycle)| {
        let metadata = with.then(|| format!("{key}:{metadata}"));
        let all =
            theirs.iter().cloned().chain([metadata, timeout, lifecycle].into_iter().flatten()).collect();
        (Just(theirs.to_vec()), Just(if with { inner } else { vec![] }), object(all))
    })
}

/// As [`foreign`], with text as its value.
fn foreign_text(n: usize) -> impl Strategy<Value = String> {
    let text = prop::sample::select(vec!["", r"a\/b", r"\u00e4\n", "é", "plain"]);
    (blank(), spelled(format!("m{n}/")), blank(), text)
        .prop_map(|(a, key, b, value)| format!("{a}{key}:{b}\"{value}\""))
}

/// Do the pieces stand in the text, one behind the other?
fn in_order(text: &str, before: &str, pieces: &[String]) -> bool {
    let mut sorted: Vec<&String> = pieces.iter().collect();
    sorted.sort_by_key(|piece| before.find(piece.as_str()).unwrap());
    let mut at = 0;
    sorted.into_iter().all(|piece| match text[at..].find(piece.as_str()) {
        Some(found) => {
            at += found + piece.len();
            true
        }
        None => false,
    })
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn an_edit_sets_ours_once_and_leaves_every_other_byte_in_its_order((theirs, inner, before) in bodies()) {
        let body = CreateBody::read(&Bytes::from(before.clone())).unwrap();
        let edited = body.edit(&edits());
        let after = std::str::from_utf8(&edited.body).unwrap();
        prop_assert!(in_order(after, &before, &theirs), "{before} -> {after}");
        prop_assert!(in_order(after, &before, &inner), "{before} -> {after}");

        let all = pairs(after);
        for name in ["metadata", "timeout", "lifecycle"] {
            prop_assert_eq!(all.iter().filter(|(key, _)| key == name).count(), 1, "{} in {}", name, after);
        }
        let find = |name: &str| all.iter().find(|(key, _)| key == name).unwrap().1.clone();
        prop_assert_eq!(find("timeout"), 77);
        prop_assert_eq!(find("lifecycle").as_object().unwrap().len(), 2);
        let metadata = find("metadata");
        let metadata = metadata.as_object().unwrap();
        for (key, value) in ours() {
            prop_assert_eq!(&metadata[&key], &value);
        }
        prop_assert_eq!(metadata.len(), ours().len() + inner.len(), "{}", after);

        let again = CreateBody::read(&edited.body).unwrap();
        prop_assert!(again.left_to_cube == body.left_to_cube && again.timeout == Some(77));
        let twice = again.edit(&edits());
        prop_assert_eq!(&twice.body, &edited.body, "an edit made twice is the edit");
        prop_assert!(twice.overwritten.is_empty());
    }

    #[test]
    fn an_edit_of_nothing_is_the_same_bytes((_, _, before) in bodies()) {
        let edits = Edits { names: LabelNames::new("nobody_has_this_prefix_"), ..Edits::default() };
        let edited = CreateBody::read(&Bytes::from(before.clone())).unwrap().edit(&edits);
        prop_assert_eq!(edited.body, before);
        prop_assert!(edited.overwritten.is_empty());
    }

    #[test]
    fn damaged_bytes_are_refused_or_edited_to_valid_json_and_never_panic(
        (_, _, before) in bodies(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = before.into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(body) = CreateBody::read(&Bytes::from(bytes)) {
            let edited = body.edit(&edits());
            prop_assert!(serde_json::from_slice::<Value>(&edited.body).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_a_body_or_a_refusal(bytes in vec(any::<u8>(), 0..64)) {
        let bytes = Bytes::from(bytes);
        let _ = CreateBody::read(&bytes).map(|body| body.edit(&edits()));
        let _ = TimeoutBody::read(&bytes).map(|body| body.with(5));
    }
}

#[test]
fn the_largest_bodies_are_read_without_recursion_and_in_time() {
    let deep = format!("{{\"templateID\":\"t\",\"x\":{}", "[".repeat(2 << 20));
    assert!(CreateBody::read(&Bytes::from(deep)).is_err());
    let closed = format!("{{\"templateID\":\"t\",\"x\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(CreateBody::read(&Bytes::from(closed)).is_err());
    let many: Vec<String> = (0..150_000).map(|n| format!("\"k{n}\":1")).collect();
    assert!(CreateBody::read(&Bytes::from(format!("{{{}}}", many.join(",")))).is_ok());
}
