//! What keeps a sandbox: black (a root keeps it) or grey (nothing does, and nothing condemns it yet).
//!
//! Must stay true: nothing that a sandbox or its client wrote about itself is a root. White, which takes two trusted
//! cycles, is the collector's to find.

use std::time::Duration;

use super::entry::{Entry, Origin, State};
use crate::time::UnixMillis;

/// What keeps a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A call is under way on it; a create on its way is one.
    Operation,
    /// The end that the warden granted is ahead.
    Deadline,
    /// It was found, not made through the warden, and nobody has released it for judgement.
    Import,
}

/// Why nothing keeps it and it is there all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grey {
    /// Its create's answer was lost: whether it exists is not known.
    Ambiguous,
    /// A written-down intent ends it.
    Condemned,
    /// It has no root; the bucket's policy may end it one day.
    NoRoot,
    /// It is dead and only remembered.
    Dead,
}

/// Kept, or within grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// A root keeps it.
    Black(Root),
    /// No root keeps it.
    Grey(Grey),
}

impl Colour {
    /// The colour's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Black(_) => "black",
            Self::Grey(_) => "grey",
        }
    }

    /// Why, in one word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Black(Root::Operation) => "operation_in_flight",
            Self::Black(Root::Deadline) => "deadline_ahead",
            Self::Black(Root::Import) => "import_not_released",
            Self::Grey(Grey::Ambiguous) => "ambiguous",
            Self::Grey(Grey::Condemned) => "condemned",
            Self::Grey(Grey::NoRoot) => "no_root",
            Self::Grey(Grey::Dead) => "dead",
        }
    }
}

/// What keeps `entry` at `now`; the first of its roots.
#[must_use]
pub fn colour(entry: &Entry, now: UnixMillis) -> Colour {
    match entry.state {
        State::Reserved | State::Dispatched => return Colour::Black(Root::Operation),
        State::Ambiguous { .. } => return Colour::Grey(Grey::Ambiguous),
        State::Killing(_) | State::Quarantined(_) => return Colour::Grey(Grey::Condemned),
        State::Refused | State::Gone { .. } => return Colour::Grey(Grey::Dead),
        State::Live(_) => {}
    }
    let ahead = entry.deadline.is_some_and(|deadline| deadline.since(now) > Duration::ZERO);
    if entry.busy(now) {
        Colour::Black(Root::Operation)
    } else if ahead {
        Colour::Black(Root::Deadline)
    } else if entry.origin == Origin::Created {
        Colour::Grey(Grey::NoRoot)
    } else {
        Colour::Black(Root::Import)
    }
}
