//! A ledger as readable text: one JSON object a line, the first of which says what follows.
//!
//! ```text
//! {"cubewarden_ledger":1,"ledger":"…","records":3,"decisions":1}
//! {"kind":"ledger","key":"meta","value":{…}}
//! {"kind":"entry","key":"e:…","value":{…}}
//! {"kind":"sandbox","key":"s:…","text":"…"}
//! {"kind":"decision","value":{…}}
//! ```
//! Must stay true: what is read back is what was written, byte by byte, whatever a record holds; a line that cannot be read
//! is named by its number and its key. Sets and appointments are not written: they follow from the records.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The form of the text. A greater one is refused.
const FORM: u32 = 1;

/// What kinds of records there are, by how their keys begin: in words, for people.
const KINDS: [(&str, &str); 10] = [
    ("meta", "ledger"),
    ("limits", "limits"),
    ("e:", "entry"),
    ("s:", "sandbox"),
    ("i:", "idempotency"),
    ("o:", "object"),
    ("n:", "warden"),
    ("c:", "leader"),
    ("l:", "owner"),
    ("z:", "seal"),
];

/// The kind of a record, in words.
#[must_use]
pub fn kind_of(key: &str) -> &'static str {
    let known =
        KINDS.iter().find(|(start, _)| key == *start || (start.ends_with(':') && key.starts_with(start)));
    known.map_or("other", |(_, kind)| kind)
}

/// A ledger, to be written or as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Records by key.
    pub records: Vec<(String, Vec<u8>)>,
    /// The log, oldest first.
    pub decisions: Vec<Vec<u8>>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {what}", key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default())]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// The key that it names, if it could be read so far.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
}

#[derive(Serialize, Deserialize)]
struct Head {
    cubewarden_ledger: u32,
    ledger: Option<String>,
    records: usize,
    decisions: usize,
}

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// Writes a ledger.
///
/// # Panics
/// Never: lines are maps of texts.
#[must_use]
pub fn write(text: &Text) -> String {
    let meta = text.records.iter().find(|(key, _)| key == "meta");
    let meta: Option<super::Meta> = meta.and_then(|(_, value)| super::decode(value).ok());
    let head = Head {
        cubewarden_ledger: FORM,
        ledger: meta.map(|meta| meta.ledger),
        records: text.records.len(),
        decisions: text.decisions.len(),
    };
    let mut lines = vec![serde_json::to_string(&head)];
    lines.extend(text.records.iter().map(|(key, value)| line(kind_of(key), Some(key.clone()), value)));
    lines.extend(text.decisions.iter().map(|value| line("decision", None, value)));
    let lines: Vec<String> = lines.into_iter().map(|line| line.expect("lines are maps of texts")).collect();
    lines.join("\n") + "\n"
}

fn line(kind: &str, key: Option<String>, value: &[u8]) -> serde_json::Result<String> {
    let text = std::str::from_utf8(value).ok();
    // An object is shown as one; a line has no room for line feeds, and white space at the ends would be lost.
    let object =
        text.filter(|text| text.starts_with('{') && text.ends_with('}') && !text.contains(['\n', '\r']));
    let raw = object.and_then(|object| serde_json::from_str::<&RawValue>(object).ok());
    let text = if raw.is_some() { None } else { text.map(str::to_owned) };
    let hex = (raw.is_none() && text.is_none()).then(|| hex::encode(value));
    serde_json::to_string(&Line { kind: kind.to_owned(), key, value: raw, text, hex })
}

/// Reads a ledger.
///
/// # Errors
/// The first [`BadLine`].
pub fn read(text: &str) -> Result<Text, BadLine> {
    let bad =
        |line: usize, key: Option<&str>, what: String| BadLine { line, key: key.map(str::to_owned), what };
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
    let head = lines.next().ok_or_else(|| bad(1, None, "the file is empty".to_owned()))?;
    let head: Head = serde_json::from_str(head.1)
        .map_err(|error| bad(1, None, format!("this is not the beginning of an exported ledger: {error}")))?;
    if head.cubewarden_ledger > FORM {
        let what = format!("its form is {}, and this version reads up to {FORM}", head.cubewarden_ledger);
        return Err(bad(1, None, what));
    }
    let mut read = Text::default();
    let mut last = 1;
    for (number, line) in lines {
        last = number;
        let line: Line = serde_json::from_str(line).map_err(|error| bad(number, None, error.to_string()))?;
        let key = line.key.as_deref();
        let value = match (line.value, line.text, line.hex) {
            (Some(value), None, None) => value.get().as_bytes().to_vec(),
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(digits)) => {
                hex::decode(&digits).map_err(|error| bad(number, key, error.to_string()))?
            }
            _ => return Err(bad(number, key, "it takes one of value, text and hex".to_owned())),
        };
        match line.key {
            Some(key) => read.records.push((key, value)),
            None if line.kind == "decision" => read.decisions.push(value),
            None => return Err(bad(number, None, "it names no key".to_owned())),
        }
    }
    if (read.records.len(), read.decisions.len()) != (head.records, head.decisions) {
        let what = format!(
            "the file ends here with {} records and {} decisions, and its first line promises {} and {}",
            read.records.len(),
            read.decisions.len(),
            head.records,
            head.decisions
        );
        return Err(bad(last, None, what));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn whatever_a_record_holds_comes_back_byte_by_byte() {
        let values: [&[u8]; 9] = [
            b"",
            b"{}",
            b"{\"b\":1,\"a\":{\"c\": [1.0, 1e3]}}",
            b" {\"a\":1} ",
            b"{\"a\":\n1}",
            b"{no json}",
            "\u{fc}\u{0}\u{2028}\r".as_bytes(),
            &[0xff, 0, 1],
            b"0cbc7f6b7af7453fac450e3313bcc679",
        ];
        let records =
            values.iter().enumerate().map(|(number, value)| (format!("x:{number} \""), value.to_vec()));
        let text =
            Text { records: records.collect(), decisions: values.iter().map(|v| v.to_vec()).collect() };
        let written = write(&text);
        assert_eq!(written.lines().count(), 19);
        assert_eq!(read(&written).unwrap(), text);
        assert!(written.contains(r#""value":{"b":1,"a":{"c": [1.0, 1e3]}}"#));
        assert!(written.contains(r#""text":"0cbc7f6b7af7453fac450e3313bcc679""#));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_its_key() {
        let says = |text: &str| read(text).unwrap_err().to_string();
        let head = |records| {
            format!("{{\"cubewarden_ledger\":1,\"ledger\":null,\"records\":{records},\"decisions\":0}}\n")
        };
        assert!(says("").starts_with("line 1: the file is empty"));
        assert!(says("hello\n").starts_with("line 1: this is not"));
        assert!(says(&head(1).replacen('1', "2", 1)).contains("form is 2"));
        let line = "{\"kind\":\"entry\",\"key\":\"e:a\",\"value\":{}}\n";
        assert!(says(&(head(2) + line + "{\"kind\"\n")).starts_with("line 3: "));
        let both = "{\"kind\":\"entry\",\"key\":\"e:a\",\"value\":{},\"text\":\"\"}\n";
        assert_eq!(says(&(head(1) + both)), "line 2 (e:a): it takes one of value, text and hex");
        assert!(says(&(head(1) + "{\"kind\":\"entry\",\"value\":{}}\n")).contains("line 2: it names no key"));
        assert!(says(&(head(2) + line)).contains("line 2: the file ends here"), "cut off");
    }
}
