//! Who may end, shorten or rewind a sandbox: one pure function for every actor.
//!
//! It runs when the wish arises and again inside the commit that makes the entry `killing` (or registers the call).
//! Stale generation: nothing is deleted, ever; there is no fall-back to "delete what is current".

use super::colour::{Ceiling, Ceilings, Colour, colour};
use super::entry::{Actor, Entry, State, Timing};
use crate::ids::{Generation, LeaseId};
use crate::time::UnixMillis;

/// What an actor shows for its wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The generation of a qualified id, or the one an operator names.
    pub generation: Option<Generation>,
    /// The lease it says it holds.
    pub lease: Option<LeaseId>,
    /// What a collector has seen.
    pub judged: Option<Judged>,
}

/// What a collector saw of the entry when it first found it without a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The incarnation it was in.
    pub incarnation: u32,
    /// When that was, by the ledger's clock: any sign of life after it voids the judgement, the longest life apart.
    pub marked: UnixMillis,
    /// The ceilings of its bucket.
    pub ceilings: Ceilings,
}

impl Shown {
    /// A bare id: nothing is shown.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A qualified id, or a bare one.
    #[must_use]
    pub fn of_generation(generation: Option<Generation>) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Whether nothing of it contradicts the entry.
    #[must_use]
    pub fn is_current(&self, entry: &Entry) -> bool {
        let held = entry.lease.as_ref().map(|lease| &lease.id);
        self.generation.is_none_or(|generation| generation == entry.generation)
            && self.lease.as_ref().is_none_or(|lease| Some(lease) == held)
    }

    /// Whether it proves that its bearer is the present holder: by what it shows, or because there was never another.
    #[must_use]
    fn proves(&self, entry: &Entry) -> bool {
        self.generation.is_some() || self.lease.is_some() || entry.holders <= 1
    }
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Condemn it.
    Allow,
    /// Somebody has already condemned it: join that.
    Join,
    /// It is dead, or was never there for this caller.
    NotFound,
    /// The generation or lease that the caller presents is not the current one.
    Fenced,
    /// It has had several holders, and the caller does not show which one it is.
    Unproven,
    /// Something keeps it, or has since it was judged.
    Kept,
    /// A call is under way; ask again.
    Later,
}

/// Decides the end of `entry` for `actor`.
#[must_use]
pub fn decide(actor: Actor, shown: &Shown, entry: &Entry, now: UnixMillis, timing: &Timing) -> Decision {
    if !shown.is_current(entry) {
        return Decision::Fenced;
    }
    match &entry.state {
        State::Killing(_) | State::Quarantined(_) => return Decision::Join,
        State::Reserved | State::Dispatched | State::Ambiguous { .. } => return Decision::Later,
        State::Refused | State::Gone { .. } => return Decision::NotFound,
        State::Live(_) => {}
    }
    if actor.yields() && entry.busy(now) {
        return Decision::Later;
    }
    let rootless = |ceilings| matches!(colour(entry, now, timing, ceilings), Colour::Grey(_));
    let refused = match actor {
        Actor::Client => (!shown.proves(entry)).then_some(Decision::Unproven),
        Actor::Holder => shown.lease.is_none().then_some(Decision::Unproven),
        Actor::Collector => {
            let stands = shown.judged.is_some_and(|judged| {
                // The longest life ends also what still shows signs of it, or it would be none.
                let outlived = judged.ceilings.reached(entry, now) == Some(Ceiling::Age);
                judged.incarnation == entry.incarnation
                    && (entry.last_sign <= judged.marked || outlived)
                    && rootless(judged.ceilings)
            });
            (!stands).then_some(Decision::Kept)
        }
        // What runs may be in use by traffic that nobody here sees; what is paused is not.
        Actor::Deferred => {
            let over = entry.claims == 0 && entry.paused_since().is_some() && rootless(Ceilings::default());
            (!over).then_some(Decision::Kept)
        }
        Actor::Abandoned | Actor::Recovery | Actor::Operator => None,
    };
    refused.unwrap_or(Decision::Allow)
}

/// What a call would do to the life of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Nothing that another holder would miss.
    Joins,
    /// It stops or rewinds it.
    Interrupts,
    /// It sets its end (none: never).
    Until(Option<UnixMillis>),
}

impl Reach {
    fn shortens(self, entry: &Entry) -> bool {
        match (self, entry.deadline) {
            (Self::Joins | Self::Until(None), _) => false,
            (Self::Interrupts, _) | (Self::Until(Some(_)), None) => true,
            (Self::Until(Some(new)), Some(old)) => new < old,
        }
    }
}

/// Decides whether a client's call may touch `entry`. Whatever shortens or interrupts needs what a DELETE needs.
#[must_use]
pub fn may_touch(reach: Reach, shown: &Shown, entry: &Entry, now: UnixMillis, timing: &Timing) -> Decision {
    if !entry.usable() {
        return Decision::NotFound;
    }
    if reach.shortens(entry) {
        return decide(Actor::Client, shown, entry, now, timing);
    }
    if shown.is_current(entry) { Decision::Allow } else { Decision::Fenced }
}

#[cfg(test)]
mod tests;
