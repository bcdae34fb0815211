//! What judgement needs of one entry, and no more: a hundred thousand of them are held at once.
//!
//! Must stay true: every length of time here is what it would be if the outages since the entry's last sign of life had not
//! been.

use std::time::Duration;

use super::outage::Outages;
use crate::ids::{Bucket, Generation, Marker, SandboxId};
use crate::rules::colour::{Ceiling, Ceilings, Colour, colour};
use crate::rules::entry::{Activity, Entry, Shape, State, Timing};
use crate::time::UnixMillis;

/// Where the subject stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It lives.
    Live(Activity),
    /// It is condemned.
    Ending,
    /// It is condemned, and killing it failed too often.
    Quarantined,
}

/// One entry that has a sandbox, as the collector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The entry.
    pub marker: Marker,
    /// Where it is counted.
    pub bucket: Bucket,
    /// Cube's id.
    pub sandbox: SandboxId,
    /// The fencing token.
    pub generation: Generation,
    /// Rises with each resume and rollback.
    pub incarnation: u32,
    /// CPU and memory.
    pub shape: Shape,
    /// Where it stands in its life.
    pub phase: Phase,
    /// What keeps it, if anything does.
    pub colour: Colour,
    /// When the warden first saw it.
    pub first_seen: UnixMillis,
    /// The last sign of life.
    pub last_sign: UnixMillis,
    /// How long the warden knows it.
    pub known_for: Duration,
    /// How long nobody has shown a sign of life.
    pub silent_for: Duration,
    /// How long ago its lease lapsed, if it did.
    pub lapsed_for: Option<Duration>,
    /// How long ago its granted end was, if it has passed.
    pub overdue_for: Option<Duration>,
    /// How long it has been paused, if it is.
    pub paused_for: Option<Duration>,
    /// The ceilings of its bucket.
    pub ceilings: Ceilings,
    /// Which of them it is beyond.
    pub beyond: Option<Ceiling>,
    /// Which of them it will be beyond when the next cycle comes.
    pub soon_beyond: Option<Ceiling>,
}

/// What all subjects of one cycle are looked at with.
#[derive(Clone, Copy, Debug)]
pub struct Lens<'a> {
    /// The ledger's clock.
    pub now: UnixMillis,
    /// The rules' lengths of time.
    pub timing: &'a Timing,
    /// What is given back.
    pub outages: &'a Outages,
    /// When the next cycle comes.
    pub cycle: Duration,
}

impl Subject {
    /// What judgement needs of `entry`; `None` of what has no sandbox or is dead.
    #[must_use]
    pub fn of(entry: &Entry, ceilings: Ceilings, lens: &Lens<'_>) -> Option<Self> {
        let phase = match &entry.state {
            State::Live(activity) => Phase::Live(*activity),
            State::Killing(_) => Phase::Ending,
            State::Quarantined(_) => Phase::Quarantined,
            _ => return None,
        };
        let now = lens.now.minus(lens.outages.since(entry.last_sign));
        let ago = |at: UnixMillis| now.since(at);
        let first_seen = entry.first_seen.unwrap_or(entry.asked);
        Some(Self {
            marker: entry.marker.clone(),
            bucket: entry.bucket.clone(),
            sandbox: entry.sandbox.clone()?,
            generation: entry.generation,
            incarnation: entry.incarnation,
            shape: entry.shape,
            phase,
            colour: colour(entry, now, lens.timing, ceilings),
            first_seen,
            last_sign: entry.last_sign,
            known_for: ago(first_seen),
            silent_for: ago(entry.last_sign),
            lapsed_for: entry.lease_lapsed(now, lens.timing).map(ago),
            overdue_for: entry.deadline.filter(|deadline| *deadline <= now).map(ago),
            paused_for: entry.paused_since().map(ago),
            ceilings,
            beyond: ceilings.reached(entry, now),
            soon_beyond: ceilings.reached(entry, now.plus(lens.cycle)),
        })
    }

    /// The same, so much later, if nothing happens until then.
    #[must_use]
    pub fn later(&self, by: Duration) -> Self {
        Self {
            known_for: self.known_for + by,
            silent_for: self.silent_for + by,
            lapsed_for: self.lapsed_for.map(|lapsed| lapsed + by),
            overdue_for: self.overdue_for.map(|overdue| overdue + by),
            paused_for: self.paused_for.map(|paused| paused + by),
            beyond: self.soon_beyond,
            ..self.clone()
        }
    }

    /// Whether it lives.
    #[must_use]
    pub fn lives(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }
}
