//! Raw requests, from a notation that fits a table: `METHOD target`, then any number of ` | Header: value`, then ` << body`.
//!
//! A body brings `Content-Type: application/json` and its `Content-Length`, unless a header of that name is there. `@1.0`
//! in the place of a header makes it an HTTP/1.0 request, `@chunked` sends the body in chunks with a trailer, `@bare`
//! leaves out `Host`, `Content-Type` and `Content-Length`. `{name}` stands for something that the world holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What placeholders stand for.
pub(super) type Names = BTreeMap<&'static str, String>;

/// A request as bytes, and what it asks in words.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) line: String,
    pub(super) bytes: Vec<u8>,
}

impl Raw {
    pub(super) fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        let target = self.line.split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default()
    }

    pub(super) fn has_body(&self) -> bool {
        self.line.contains(" << ")
    }

    /// Whether nothing can change by it.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.method(), "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }
}

/// Reads one line of the notation.
pub(super) fn raw(line: &str, names: &Names) -> Raw {
    let line =
        names.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("{{{name}}}"), value));
    let (head, body) =
        line.split_once(" << ").map_or((line.as_str(), None), |(head, body)| (head, Some(body)));
    let mut parts = head.split(" | ");
    let first = parts.next().unwrap_or_default();
    let (orders, headers): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with('@'));
    let ordered = |order: &str| orders.contains(&order);
    let version = if ordered("@1.0") { "1.0" } else { "1.1" };
    let says = |name: &str| headers.iter().any(|header| header.to_lowercase().starts_with(name));
    let mut text = format!("{first} HTTP/{version}\r\n");
    if !ordered("@bare") {
        text.push_str("Host: cube.test:3000\r\n");
    }
    for header in &headers {
        let _written = write!(text, "{header}\r\n");
    }
    if let Some(body) = body {
        if !ordered("@bare") && !says("content-type:") {
            text.push_str("Content-Type: application/json\r\n");
        }
        if ordered("@chunked") {
            let (one, two) = body.split_at(body.len() / 2);
            text.push_str("Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
            for part in [one, two].iter().filter(|part| !part.is_empty()) {
                let _written = write!(text, "{:x}\r\n{part}\r\n", part.len());
            }
            text.push_str("0\r\nX-Sum: 1\r\n\r\n");
            return Raw { line: line.clone(), bytes: text.into_bytes() };
        }
        if !ordered("@bare") && !says("content-length:") {
            let _written = write!(text, "Content-Length: {}\r\n", body.len());
        }
    }
    let _written = write!(text, "\r\n{}", body.unwrap_or_default());
    Raw { line: line.clone(), bytes: text.into_bytes() }
}
