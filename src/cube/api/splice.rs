//! A JSON object, cut along its own bytes.
//!
//! Must stay true: joining the pieces of an unedited object gives its text back, byte for byte; an edit touches the
//! members it names and nothing else. `serde_json` finds the pieces, so what counts as JSON is what it says.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How deep arrays and objects may be nested: as deep as Cube's own parser follows them.
pub const MAX_DEPTH: usize = 128;

/// Why a body was not accepted. The texts are shown to the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Bytes that are no text.
    #[error("the body is not UTF-8")]
    Encoding,
    /// Text that is no JSON.
    #[error("the body is not JSON: {0}")]
    Syntax(String),
    /// JSON of another kind.
    #[error("{0} must be a JSON object")]
    NotAnObject(&'static str),
    /// The same key, whatever its spelling, stands twice in one object.
    #[error("{0} has the key {1:?} twice")]
    Duplicate(&'static str, String),
    /// A word of ours that is no text.
    #[error("{0} must be text")]
    NotText(String),
    /// Deeper than [`MAX_DEPTH`].
    #[error("the body is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// One member: `head` is everything from the last separator to the value (blanks, key, colon).
pub(super) struct Member<'a> {
    pub(super) name: String,
    head: &'a str,
    pub(super) value: &'a str,
    tail: &'a str,
}

/// An object in pieces.
pub(super) struct Object<'a> {
    opening: &'a str,
    pub(super) members: Vec<Member<'a>>,
    closing: &'a str,
}

/// What becomes of one member.
pub(super) enum Edit {
    Keep,
    Drop,
    Value(String),
}

impl<'a> Object<'a> {
    /// Cuts `text`, which is called `what` in errors.
    pub(super) fn read(what: &'static str, text: &'a str) -> Result<Self, Malformed> {
        let pairs = serde_json::from_str::<Pairs<'a>>(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Malformed::NotAnObject(what),
            _ => Malformed::Syntax(error.to_string()),
        })?;
        let mut at = text.find('{').map_or(0, |brace| brace + 1);
        let opening = &text[..at];
        let mut members = Vec::with_capacity(pairs.0.len());
        for (name, value) in pairs.0 {
            let value = value.get();
            // the parser borrows the value from `text`, so the distance of the addresses is its position
            let value_at = value.as_ptr().addr() - text.as_ptr().addr();
            let value_end = value_at + value.len();
            let tail_end = value_end + text[value_end..].find([',', '}']).unwrap_or(0);
            let (head, tail) = (&text[at..value_at], &text[value_end..tail_end]);
            members.push(Member { name: name.into_owned(), head, value, tail });
            at = tail_end + 1;
        }
        let close = if members.is_empty() { at } else { at - 1 };
        Ok(Self { opening, members, closing: &text[close..] })
    }

    /// Reads a body: UTF-8, one object, bounded depth, every key once (`same` maps spellings of one key to one).
    pub(super) fn of_body(body: &'a [u8], same: fn(&str) -> &str) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(body).map_err(|_| Malformed::Encoding)?;
        let object = Self::read("the body", text)?;
        if depth(text) > MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        object.without_duplicates("the body", same)
    }

    /// The object again, unless a key stands twice.
    pub(super) fn without_duplicates(
        self,
        what: &'static str,
        same: fn(&str) -> &str,
    ) -> Result<Self, Malformed> {
        let mut seen = HashSet::with_capacity(self.members.len());
        match self.members.iter().find(|member| !seen.insert(same(&member.name))) {
            Some(twice) => Err(Malformed::Duplicate(what, twice.name.chars().take(80).collect())),
            None => Ok(self),
        }
    }

    /// The value of a key.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|member| member.name == name).map(|member| member.value)
    }

    /// The text again, each member edited, `added` (name, JSON) appended.
    pub(super) fn edited(
        &self,
        mut edit: impl FnMut(&Member<'a>) -> Edit,
        added: &[(String, String)],
    ) -> String {
        let mut kept = Vec::with_capacity(self.members.len() + added.len());
        for member in &self.members {
            match edit(member) {
                Edit::Keep => kept.push([member.head, member.value, member.tail].concat()),
                Edit::Value(value) => kept.push([member.head, &value, member.tail].concat()),
                Edit::Drop => {}
            }
        }
        kept.extend(added.iter().map(|(name, value)| format!("{}:{value}", quoted(name))));
        [self.opening, &kept.join(","), self.closing].concat()
    }

    /// The text again with these members set: in place where they stand, appended where not.
    pub(super) fn with(&self, set: &[(String, String)]) -> String {
        let value = |name: &str| set.iter().find(|(key, _)| key == name).map(|(_, json)| json.clone());
        let missing: Vec<_> = set.iter().filter(|(key, _)| self.get(key).is_none()).cloned().collect();
        self.edited(|member| value(&member.name).map_or(Edit::Keep, Edit::Value), &missing)
    }
}

/// Sets members (name, JSON) of the object in `text` and leaves all other bytes alone; `None` if it is no object.
#[must_use]
pub fn set_members(text: &str, set: &[(String, String)]) -> Option<String> {
    Some(Object::read("the text", text).ok()?.with(set))
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The deepest nesting of valid JSON.
fn depth(text: &str) -> usize {
    let (mut now, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// All members in order, duplicates too; values as they stand in the text.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn an_unedited_object_joins_to_its_own_text() {
        for text in [
            "{}",
            " { } ",
            "\n{\t\"a\" : 1 , \"b\":[ {\"}\":\",\"} ],\"\\u0063\":\"x\\\"}\" }\r\n",
            r#"{"n":1.50e+3,"deep":{"a":{}}}"#,
        ] {
            let object = Object::read("it", text).unwrap();
            assert_eq!(object.edited(|_| Edit::Keep, &[]), text);
        }
    }

    #[test]
    fn an_edit_touches_the_members_it_names_and_nothing_else() {
        let set = |text, name: &str, json: &str| set_members(text, &[(name.into(), json.into())]).unwrap();
        assert_eq!(set("{ }", "a", "1"), r#"{"a":1 }"#);
        assert_eq!(set(r#"{ "a" : 1 , "b":2 }"#, "a", "9"), r#"{ "a" : 9 , "b":2 }"#);
        assert_eq!(set(r#"{"b": 2.0}"#, "a", "9"), r#"{"b": 2.0,"a":9}"#);
        let object = Object::read("it", r#"{ "a":1, "b" : 2 ,"c":3 }"#).unwrap();
        let drop =
            |gone: &'static str| object.edited(|m| if m.name == gone { Edit::Drop } else { Edit::Keep }, &[]);
        assert_eq!(drop("a"), r#"{ "b" : 2 ,"c":3 }"#);
        assert_eq!(drop("b"), r#"{ "a":1,"c":3 }"#);
        assert_eq!(drop("c"), r#"{ "a":1, "b" : 2 }"#);
        assert_eq!(object.edited(|_| Edit::Drop, &[]), "{}");
    }

    #[test]
    fn what_is_no_object_with_every_key_once_is_said_to_be_so() {
        let of = |body: &[u8]| Object::of_body(body, |name| name).map(|_| ()).unwrap_err();
        assert_eq!(of(b"[1]"), Malformed::NotAnObject("the body"));
        assert_eq!(of(b"null"), Malformed::NotAnObject("the body"));
        assert_eq!(of(b"\xff"), Malformed::Encoding);
        assert!(matches!(of(b"{\"a\":1} x"), Malformed::Syntax(_)));
        assert!(matches!(of(b""), Malformed::Syntax(_)));
        assert_eq!(of(br#"{"a":1,"\u0061":2}"#), Malformed::Duplicate("the body", "a".into()));
        let nested = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n - 1), "]".repeat(n - 1));
        assert_eq!(of(nested(MAX_DEPTH + 1).as_bytes()), Malformed::TooDeep);
        assert!(Object::of_body(nested(MAX_DEPTH).as_bytes(), |name| name).is_ok());
        assert_eq!(depth(r#"{"a":"[[[\"[["}"#), 1);
    }
}
