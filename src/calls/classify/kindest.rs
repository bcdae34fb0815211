//! A path as the kindest reader between us and Cube's handlers could take it.
//!
//! Must stay true: it is decoded until nothing changes, or refused, in time proportional to its length. Deliberately
//! absent: what the path then means.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Does it name, anywhere and in any letter case, a collection of things that belong to somebody?
pub(super) fn speaks_of_owned(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ["sandboxes", "snapshots", "volumes"].iter().any(|root| path.contains(root))
}

/// The path as the kindest reader could take it; `None` if it is encoded over and over.
pub(super) fn kindest(path: &str) -> Option<String> {
    let mut text = Cow::Borrowed(path);
    for _ in 0..4 {
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == *text {
            return Some(resolved(&decoded));
        }
        text = Cow::Owned(decoded);
    }
    None
}

/// Without empty and dot segments, parameters after `;`, controls, and what a second `?` or `#` would cut off.
fn resolved(path: &str) -> String {
    let path: String = path.replace('\\', "/").chars().filter(|c| !c.is_control()).collect();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut segments: Vec<String> = Vec::new();
    for segment in path.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment.to_owned()),
        }
    }
    for segment in &mut segments {
        let lower = segment.to_ascii_lowercase();
        let prefix = matches!(lower.as_str(), "cubeapi" | "v1" | "v2");
        if prefix || matches!(lower.as_str(), "sandboxes" | "snapshots" | "volumes" | "templates") {
            *segment = lower;
        }
        if !prefix {
            break;
        }
    }
    format!("/{}", segments.join("/"))
}
