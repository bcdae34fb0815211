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
pub(super) struct Reading<'a> {
    /// The text; the path itself where there is nothing to decode or drop, as in almost all.
    pub(super) text: Cow<'a, str>,
    /// All readers agree on it: there is nothing in it to resolve, drop or cut.
    pub(super) plain: bool,
}

impl<'a> Reading<'a> {
    /// `None` if it is encoded over and over.
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let mut text = Cow::Borrowed(path);
        for _ in 0..4 {
            // Without a percent sign there is nothing to decode.
            if !text.contains('%') {
                return Some(Self::of_decoded(text));
            }
            let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
            if decoded == *text {
                return Some(Self::of_decoded(text));
            }
            text = Cow::Owned(decoded);
        }
        None
    }

    fn of_decoded(text: Cow<'a, str>) -> Self {
        let odd = |c: char| c.is_control() || matches!(c, '\\' | ';' | '?' | '#' | '\u{fffd}');
        let mut segments = text.split('/').skip(1);
        let plain = !text.contains(odd) && segments.all(|segment| !matches!(segment, "" | "." | ".."));
        // What is plain has no controls.
        let text = if plain { text } else { text.chars().filter(|c| !c.is_control()).collect() };
        Self { text, plain }
    }

    /// Does it have this word, anywhere and in any letter case?
    pub(super) fn speaks_of(&self, word: &str) -> bool {
        let mut places = self.text.as_bytes().windows(word.len());
        places.any(|place| place.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Does it name something that belongs to somebody?
    pub(super) fn speaks_of_owned(&self) -> bool {
        OWNED.iter().any(|word| self.speaks_of(word))
    }
}
