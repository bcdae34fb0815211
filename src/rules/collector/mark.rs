//! Black, grey or white: what one cycle makes of one subject, and what it remembers for the next.
//!
//! ```text
//! no mark ──rootless──► mark(1) ──again, nothing changed──► mark(2) = white
//!    ▲                     │
//!    └── a root, a sign of life, any change that Cube made ──┘
//! ```
//!
//! Must stay true: a cycle that is not trusted confirms nothing and takes nothing away; a mark whose subject changed in any
//! way is worth nothing, even if it changed back.

use std::time::Duration;

use super::subject::{Phase, Subject};
use crate::ids::Generation;
use crate::rules::colour::{Ceiling, Colour as Of, Grey, Root};
use crate::time::UnixMillis;

/// What a sandbox is doing, as Cube shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs (Cube says so of states that it cannot name too).
    Running,
    /// It is paused.
    Paused,
    /// It is on its way from one to the other.
    Moving,
}

/// How Cube shows a sandbox, in a list or alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What it is doing.
    pub doing: Doing,
    /// When it began.
    pub started: Option<UnixMillis>,
    /// When its idle window would end without traffic.
    pub end: Option<UnixMillis>,
}

/// What is known of a sandbox's use by its own traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Nobody tells.
    Unknown,
    /// The source has watched for so long, and saw none in that time.
    NoneFor(Duration),
    /// The last that was seen.
    Last(UnixMillis),
}

/// What is remembered of a subject that nothing kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The generation it had.
    pub generation: Generation,
    /// The incarnation it was in.
    pub incarnation: u32,
    /// When it was first found so.
    pub since: UnixMillis,
    /// When that was last counted.
    pub counted: UnixMillis,
    /// How many trusted cycles found it so.
    pub confirmed: u32,
    /// How Cube showed it each time.
    pub shown: Shown,
    /// When a GET said that it began, where it said something else than the list (0.7.0 tells the time of the pause).
    pub alone: Option<UnixMillis>,
}

/// What a cycle's listing is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It confirms what it shows.
    Confirms,
    /// It confirms nothing: it is not trusted, or its leader has only begun.
    Nothing,
}

/// What all subjects of one cycle are judged with.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The ledger's clock when the listing began.
    pub now: UnixMillis,
    /// What the listing is worth.
    pub worth: Worth,
    /// From one listing to the next, at least.
    pub cycle: Duration,
    /// How many confirmations make white.
    pub confirmations: u32,
    /// How long a sandbox is newborn.
    pub newborn: Duration,
    /// How long a sign of traffic keeps.
    pub root_fresh: Duration,
}

/// What a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// A root of the ledger keeps it.
    Black(Root),
    /// Its own traffic keeps it.
    InUse,
    /// Nobody may judge what the warden has only just seen.
    Newborn,
    /// The ledger says what it is: condemned, dead.
    Otherwise(Grey),
    /// Neither the list nor a GET showed it.
    Unseen,
    /// Nothing keeps it; that is not confirmed often enough.
    Unconfirmed,
    /// Nothing keeps it, and that is certain.
    White,
}

impl Colour {
    /// Every colour with its reason.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Black(_) | Self::InUse => "black",
            Self::White => "white",
            _ => "grey",
        }
    }

    /// Why, in one word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Black(root) => Of::Black(root).reason(),
            Self::InUse => "traffic_seen",
            Self::Newborn => "newborn",
            Self::Otherwise(grey) => Of::Grey(grey).reason(),
            Self::Unseen => "not_shown",
            Self::Unconfirmed => "unconfirmed",
            Self::White => "no_root",
        }
    }
}

/// What one cycle made of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// What it is.
    pub colour: Colour,
    /// What is remembered; `None`: nothing.
    pub mark: Option<Mark>,
}

/// Judges `subject` by what Cube shows of it, what its traffic tells, and what was remembered.
#[must_use]
pub fn mark(
    subject: &Subject,
    shown: Option<&Shown>,
    traffic: Traffic,
    before: Option<&Mark>,
    look: &Look,
) -> Marked {
    let kept = match subject.colour {
        Of::Black(root) => Some(Colour::Black(root)),
        Of::Grey(Grey::NoRoot) => None,
        Of::Grey(other) => Some(Colour::Otherwise(other)),
    };
    let fresh = |at: UnixMillis| look.now.since(at) < look.root_fresh;
    let in_use = matches!(traffic, Traffic::Last(at) if fresh(at)) && subject.beyond != Some(Ceiling::Age);
    let newborn = subject.known_for < look.newborn;
    let kept = kept.or(in_use.then_some(Colour::InUse)).or(newborn.then_some(Colour::Newborn));
    if let Some(colour) = kept {
        return Marked { colour, mark: None };
    }
    let before = before.filter(|mark| mark.stands(subject, shown, traffic));
    let Some(shown) = shown else {
        let mark = before.copied().filter(|_| look.worth == Worth::Nothing);
        return Marked { colour: Colour::Unseen, mark };
    };
    let Phase::Live(_) = subject.phase else { return Marked { colour: Colour::Unconfirmed, mark: None } };
    let mark = match (before, look.worth) {
        (None, Worth::Nothing) => None,
        (None, Worth::Confirms) => Some(Mark::first(subject, shown, look.now)),
        (Some(mark), Worth::Nothing) => Some(*mark),
        (Some(mark), Worth::Confirms) => Some(mark.again(look)),
    };
    let confirmed = mark.is_some_and(|mark| mark.confirmed >= look.confirmations);
    // White is found by a listing that is worth something, or not at all.
    let white = confirmed && look.worth == Worth::Confirms;
    Marked { colour: if white { Colour::White } else { Colour::Unconfirmed }, mark }
}

impl Mark {
    fn first(subject: &Subject, shown: &Shown, now: UnixMillis) -> Self {
        Self {
            generation: subject.generation,
            incarnation: subject.incarnation,
            since: now,
            counted: now,
            confirmed: 1,
            shown: *shown,
            alone: None,
        }
    }

    /// Found so again. What is confirmed often enough is not counted on: what does not change need not be written.
    fn again(mut self, look: &Look) -> Self {
        if self.confirmed < look.confirmations && look.now.since(self.counted) >= look.cycle {
            self.confirmed += 1;
            self.counted = look.now;
        }
        self
    }

    /// Whether nothing has changed since: no holder, no incarnation, no sign of life (which does not put off the longest
    /// life), no traffic, and nothing that Cube shows.
    fn stands(&self, subject: &Subject, shown: Option<&Shown>, traffic: Traffic) -> bool {
        let outlived = subject.beyond == Some(Ceiling::Age);
        let quiet =
            subject.last_sign <= self.since && !matches!(traffic, Traffic::Last(at) if at > self.since);
        self.generation == subject.generation
            && self.incarnation == subject.incarnation
            && (quiet || outlived)
            && shown.is_none_or(|shown| *shown == self.shown || outlived && shown.doing == self.shown.doing)
    }
}

/// What a GET just before the end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// It shows the same as the mark.
    Same,
    /// It tells another beginning than the list does, for the first time: if the next one does too, it is the same.
    Beginning(UnixMillis),
    /// Something has changed.
    Changed,
}

/// A look at a sandbox alone, just before its end.
#[derive(Clone, Copy, Debug)]
pub struct SecondLook {
    /// When, by the ledger's clock.
    pub now: UnixMillis,
    /// What it shows.
    pub seen: Shown,
    /// How long what ends it may be so.
    pub allowed: Duration,
    /// It has reached its longest life: what moved since does not matter.
    pub outlived: bool,
}

impl SecondLook {
    /// Compares it with the mark. What is paused may show another beginning than in the list: that of its pause. Then only a
    /// second such look proves that it was not woken and paused again since, and only a pause as long as is allowed that
    /// it was not before.
    #[must_use]
    pub fn against(&self, mark: &Mark) -> Second {
        let Self { seen, outlived, .. } = *self;
        if seen.doing != mark.shown.doing || (seen.end != mark.shown.end && !outlived) {
            return Second::Changed;
        }
        if seen.started == mark.shown.started || outlived {
            return Second::Same;
        }
        match (seen.doing, seen.started, mark.alone) {
            (Doing::Paused, Some(paused), _) if self.now.since(paused) <= self.allowed => Second::Changed,
            (Doing::Paused, Some(paused), None) => Second::Beginning(paused),
            (Doing::Paused, Some(paused), Some(before)) if before == paused => Second::Same,
            _ => Second::Changed,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
