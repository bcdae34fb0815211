//! Why a sandbox is kept, would be ended or has ended; why a call was refused; and the least that would change it. Text out.
//!
//! Must stay true: nothing is decided here; what is named is what `colour`, `delete`, `admission` and the policy say.
//! Deliberately absent: metadata, and anything else that clients wrote.

mod bucket;
mod entry;
mod past;

use std::fmt::Write as _;
use std::time::Duration;

pub use bucket::{Fullness, of_bucket};
pub use entry::{Facts, of_entry};
pub use past::{Past, of_past};

use crate::time::UnixMillis;

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as things are.
    Kept,
    /// It would be ended by the next sweep that confirms it.
    WouldEnd,
    /// Its create is under way, or its answer was lost.
    OnItsWay,
    /// An intent to end it stands.
    Ending,
    /// It has ended, or never came to be.
    Ended,
    /// A create would be let through.
    Admitted,
    /// A call was refused, or would be.
    Refused,
    /// Nothing that is known says.
    Unknown,
}

impl Verdict {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::WouldEnd => "would be ended",
            Self::OnItsWay => "on its way",
            Self::Ending => "being ended",
            Self::Ended => "ended",
            Self::Admitted => "admitted",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

/// Where a piece of evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The ledger's entry, which the warden wrote.
    Ledger,
    /// Cube said so, when it was last asked.
    Cube,
    /// The configuration in force.
    Policy,
    /// An operator's word.
    Operator,
    /// The decision log.
    Log,
}

impl Source {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Cube => "cube",
            Self::Policy => "policy",
            Self::Operator => "operator",
            Self::Log => "log",
        }
    }
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is about.
    pub what: &'static str,
    /// What it says.
    pub says: String,
    /// Who says so.
    pub source: Source,
    /// Since when it is known; `None`: it is so now.
    pub at: Option<UnixMillis>,
}

impl Piece {
    /// A piece of evidence.
    #[must_use]
    pub fn new(what: &'static str, says: impl Into<String>, source: Source, at: Option<UnixMillis>) -> Self {
        // One line each, whatever an operator's reason holds.
        let says = says.into().replace(['\n', '\r'], " ");
        Self { what, says, source, at }
    }
}

/// A verdict, with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What it comes to.
    pub verdict: Verdict,
    /// Which branch was taken, in one sentence.
    pub branch: String,
    /// What that rests on.
    pub evidence: Vec<Piece>,
    /// The least change that would make it otherwise; `None`: nothing can.
    pub flip: Option<String>,
}

impl Explanation {
    /// As people read it.
    #[must_use]
    pub fn text(&self, now: UnixMillis) -> String {
        let branch = self.branch.replace(['\n', '\r'], " ");
        let mut text = format!("{}: {branch}\n", self.verdict.name());
        for piece in &self.evidence {
            let known = piece.at.map_or(String::new(), |at| format!(", {} ago", span(now.since(at))));
            // Writing into a string cannot fail.
            let _never =
                writeln!(text, "  {:<12} {}  [{}{known}]", piece.what, piece.says, piece.source.name());
        }
        match &self.flip {
            Some(flip) => text.extend([format!("what would change that: {flip}\n")]),
            None => text.push_str("what would change that: nothing\n"),
        }
        text
    }
}

/// A length of time as people and the configuration write it: at most two units, the smaller ones left out.
#[must_use]
pub fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    let (large, small) = match seconds {
        0 => return format!("{}ms", length.subsec_millis()),
        1..3600 => ((seconds / 60, "m"), (seconds % 60, "s")),
        3600..172_800 => ((seconds / 3600, "h"), (seconds / 60 % 60, "m")),
        _ => ((seconds / 86_400, "days"), (seconds / 3600 % 24, "h")),
    };
    let said = [large, small].into_iter().filter(|(count, _)| *count > 0);
    said.map(|(count, unit)| format!("{count}{unit}")).collect::<Vec<_>>().join(" ")
}

/// A point in time, and how far it is from now.
fn moment(at: UnixMillis, now: UnixMillis) -> String {
    if at > now {
        format!("{at}, in {}", span(at.since(now)))
    } else {
        format!("{at}, {} ago", span(now.since(at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_said_in_at_most_two_units_and_never_rounded_up() {
        let said = [0, 1, 1_999, 61_000, 3_600_000, 90_061_000, 172_800_000, 2_678_400_000]
            .map(|millis| span(Duration::from_millis(millis)));
        assert_eq!(said, ["0ms", "1ms", "1s", "1m 1s", "1h", "25h 1m", "2days", "31days"]);
    }
}
