//! A path as kind readers between us and Cube's handlers could take it.
//!
//! There are too many of them to imitate: some decode, once or more; some resolve dots, drop parameters or controls, cut
//! at a decoded question mark, in this order or that. But none can invent a word. So it is decoded to the end, and then
//! asked for two things: does it name what belongs to somebody, and is there anything in it to be kind about?
//! Must stay true: that takes time proportional to its length. Deliberately absent: what the path then means.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Words without which no reader reaches what belongs to somebody.
const OWNED: [&str; 4] = ["sandboxes", "snapshots", "volumes", "snap-"];

/// A path decoded to the end, without controls.
pub(super) struct Reading {
    /// The text.
    pub(super) text: String,
    /// All readers agree on it: there is nothing in it to resolve, drop or cut.
    pub(super) plain: bool,
}

impl Reading {
    /// `None` if it is encoded over and over.
    pub(super) fn of(path: &str) -> Option<Self> {
        let mut text = Cow::Borrowed(path);
        for _ in 0..4 {
            let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
            if decoded == *text {
                return Some(Self::of_decoded(&decoded));
            }
            text = Cow::Owned(decoded);
        }
        None
    }

    fn of_decoded(text: &str) -> Self {
        let odd = |c: char| c.is_control() || matches!(c, '\\' | ';' | '?' | '#' | '\u{fffd}');
        let mut segments = text.split('/').skip(1);
        let plain = !text.contains(odd) && segments.all(|segment| !matches!(segment, "" | "." | ".."));
        Self { text: text.chars().filter(|c| !c.is_control()).collect(), plain }
    }

    /// Does it have this word, anywhere and in any letter case?
    pub(super) fn speaks_of(&self, word: &str) -> bool {
        self.text.to_ascii_lowercase().contains(word)
    }

    /// Does it name something that belongs to somebody?
    pub(super) fn speaks_of_owned(&self) -> bool {
        OWNED.iter().any(|word| self.speaks_of(word))
    }
}
