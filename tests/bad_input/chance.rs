//! Bad input by chance: bodies, paths, queries and headers that nobody thought of.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Runtime;

use super::{BASE, Bench, Mode, Sent};
use crate::cube::Profile;

/// Sends what `strategy` makes to a warden in each mode; one warden for all.
fn for_any<S: Strategy>(cases: u32, strategy: S, make: impl Fn(S::Value, &str) -> Sent, strict: bool) {
    let runtime = Runtime::new().unwrap();
    let benches: Vec<Bench> =
        Mode::BOTH.map(|mode| runtime.block_on(Bench::of(mode, Profile::V070))).into_iter().collect();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let ran = TestRunner::new(config).run(&strategy, |value| {
        // One value for both modes: what it is made into differs by the sandbox's id only.
        let sent = make(value, "{sandbox}");
        for bench in &benches {
            let sent = Sent { line: sent.line.replace("{sandbox}", &bench.sandbox), ..sent.clone() };
            runtime.block_on(async {
                if strict {
                    bench.survives(&sent).await;
                } else {
                    let heard = bench.send(&sent).await;
                    assert!(heard.status < 500 || heard.reached > 0, "{}: {heard:?}", sent.shown());
                    assert!(!heard.is_own() || heard.well_said(), "{}: {heard:?}", sent.shown());
                    assert_eq!(bench.warden.held().await, 1, "{}", sent.shown());
                }
            });
        }
        Ok(())
    });
    ran.unwrap();
    benches.iter().for_each(Bench::is_sound);
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        "-?[0-9]{1,3}(\\.[0-9]{1,2})?([eE][+-]?[0-9]{1,3})?",
        ".{0,12}".prop_map(|text| serde_json::Value::from(text).to_string()),
        Just(format!("\"{BASE}\"")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec((key(), inner), 0..5).prop_map(|pairs| {
                let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}

/// A key that Cube or we know, spelled in one way or another, or any.
fn key() -> impl Strategy<Value = String> {
    let known = [
        "templateID",
        "timeout",
        "metadata",
        "lifecycle",
        "onTimeout",
        "autoPause",
        "autoResume",
        "volumeMounts",
        "network",
        "owner_id",
        "env",
        "namespace",
        "host-mount",
        "cw_marker",
        "memory",
        "duration",
        "snapshotID",
    ];
    prop_oneof![
        6 => proptest::sample::select(known.to_vec()).prop_map(|name| format!("\"{name}\"")),
        1 => proptest::sample::select(known.to_vec()).prop_map(|name| format!("\"\\u{:04x}{}\"", name.as_bytes()[0], &name[1..])),
        1 => ".{0,8}".prop_map(|text| serde_json::Value::from(text).to_string()),
    ]
}

/// A create with any members, so that some of them get past the template.
fn create() -> impl Strategy<Value = String> {
    vec((key(), json()), 0..6).prop_map(|pairs| {
        let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| format!(",{key}:{value}")).collect();
        format!("{{\"templateID\":\"{BASE}\"{}}}", pairs.concat())
    })
}

#[test]
fn any_create_is_made_or_refused_in_clear_words() {
    let any_body = prop_oneof![
        3 => create().prop_map(String::into_bytes),
        1 => json().prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..60),
    ];
    for_any(200, any_body, |body, _| Sent::create(body), true);
}

#[test]
fn any_small_body_is_answered_in_clear_words() {
    let calls =
        proptest::sample::select(vec!["timeout", "refreshes", "connect", "resume", "rollback", "snapshots"]);
    // A timeout of 0 is a delete, which is no bad input.
    let body = prop_oneof![json().prop_map(String::into_bytes), vec(any::<u8>(), 0..30)];
    let body = body.prop_filter("ends it", |body| !String::from_utf8_lossy(body).contains(":0"));
    for_any(
        120,
        (calls, body),
        |(call, body), id| Sent::new(format!("POST /sandboxes/{id}/{call}")).body(body),
        true,
    );
}

#[test]
fn any_path_and_query_is_answered() {
    let segment = prop_oneof![
        proptest::sample::select(vec![
            "sandboxes",
            "v2",
            "cubeapi",
            "v1",
            "snapshots",
            "volumes",
            "templates",
            "..",
            ".",
            "",
            "%2e%2e",
            "%2F",
            "{sandbox}",
            "health",
            "timeout",
            "snap-1",
            "sandbox%65s",
            "%00",
            "%ff",
        ])
        .prop_map(str::to_owned),
        "[!-\"$->@-~]{0,10}",
    ];
    let query = "(\\?(metadata|state|limit|nextToken|x)=[!-\"$-~]{0,20}(&[!-\"$-~]{0,12})?)?";
    let methods =
        proptest::sample::select(vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FROB"]);
    // The caller's own delete is no bad input.
    let path = vec(segment, 1..5).prop_map(|segments| format!("/{}", segments.join("/")));
    let asked = (methods, path, query)
        .prop_filter("ends it", |(method, path, _)| *method != "DELETE" || !path.contains("{sandbox}"));
    for_any(400, asked, |(method, path, query), _| Sent::new(format!("{method} {path}{query}")), false);
}

#[test]
fn any_header_is_read_or_refused_in_clear_words() {
    let names = proptest::sample::select(vec![
        "X-Cube-Namespace",
        "X-Cube-Env",
        "X-Cube-Project",
        "X-Cube-Run",
        "Idempotency-Key",
        "User-Agent",
        "X-Request-Id",
        "Accept-Encoding",
        "Content-Encoding",
        "X-Odd",
    ]);
    let value = prop_oneof![vec(any::<u8>(), 0..40), "[a-z0-9._-]{0,80}".prop_map(String::into_bytes)];
    let value = value
        .prop_filter("ends the field", |value| !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')));
    // Control characters are refused by the HTTP library, in its own way: an empty 400, as Cube's.
    let value =
        value.prop_filter("no field value", |value| !value.iter().any(|byte| *byte < 32 || *byte == 127));
    let lines = vec((names, value), 1..4);
    let make = |lines: Vec<(&str, Vec<u8>)>, _: &str| {
        let line = |(name, value): (&str, Vec<u8>)| [name.as_bytes(), b": ", &value].concat();
        lines.into_iter().map(line).fold(Sent::fine(), Sent::header)
    };
    for_any(150, lines, make, true);
}
