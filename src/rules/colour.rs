//! What keeps a sandbox: black (a root keeps it) or grey (nothing does, and nothing condemns it yet).
//!
//! Must stay true: nothing that a sandbox or its client wrote about itself is a root. White, which takes two trusted
//! cycles, is the collector's to find.

use std::time::Duration;

use super::entry::{Entry, Origin, State, Timing};
use crate::time::UnixMillis;

/// What keeps a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// A call is under way on it; a create on its way is one.
    Operation,
    /// An operator keeps it.
    Hold,
    /// A lease with a fresh sign of life.
    Lease,
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
            Self::Black(Root::Hold) => "held_by_operator",
            Self::Black(Root::Lease) => "lease_fresh",
            Self::Black(Root::Deadline) => "deadline_ahead",
            Self::Black(Root::Import) => "import_not_released",
            Self::Grey(Grey::Ambiguous) => "ambiguous",
            Self::Grey(Grey::Condemned) => "condemned",
            Self::Grey(Grey::NoRoot) => "no_root",
            Self::Grey(Grey::Dead) => "dead",
        }
    }
}

/// Beyond these, neither a lease nor a granted end keeps a sandbox; `None`: there is no ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// The longest time without a sign of life.
    pub idle: Option<Duration>,
    /// The longest life.
    pub age: Option<Duration>,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ceiling {
    /// The longest time without a sign of life.
    Idle,
    /// The longest life: no sign of life puts it off.
    Age,
}

impl Ceilings {
    /// Which of them `entry` is beyond; age before idle.
    #[must_use]
    pub fn reached(self, entry: &Entry, now: UnixMillis) -> Option<Ceiling> {
        let beyond = |since, most: Option<Duration>| most.is_some_and(|most| now.since(since) >= most);
        let born = entry.first_seen.unwrap_or(entry.asked);
        let old = beyond(born, self.age).then_some(Ceiling::Age);
        old.or(beyond(entry.last_sign, self.idle).then_some(Ceiling::Idle))
    }
}

/// What keeps `entry` at `now`; the first of its roots.
#[must_use]
pub fn colour(entry: &Entry, now: UnixMillis, timing: &Timing, ceilings: Ceilings) -> Colour {
    match entry.state {
        State::Reserved | State::Dispatched => return Colour::Black(Root::Operation),
        State::Ambiguous { .. } => return Colour::Grey(Grey::Ambiguous),
        State::Killing(_) | State::Quarantined(_) => return Colour::Grey(Grey::Condemned),
        State::Refused | State::Gone { .. } => return Colour::Grey(Grey::Dead),
        State::Live(_) => {}
    }
    let ahead = entry.deadline.is_some_and(|deadline| deadline.since(now) > Duration::ZERO);
    let below = ceilings.reached(entry, now).is_none();
    let judged = entry.origin == Origin::Created || entry.released.is_some();
    let roots = [
        (entry.busy(now), Root::Operation),
        (entry.hold.is_some(), Root::Hold),
        (below && entry.leased(now, timing), Root::Lease),
        (below && ahead, Root::Deadline),
        (!judged, Root::Import),
    ];
    let root = roots.into_iter().find_map(|(holds, root)| holds.then_some(root));
    root.map_or(Colour::Grey(Grey::NoRoot), Colour::Black)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::super::entry::tests::reserved;
    use super::super::entry::{Activity, Actor, Kill, Operation, Proof};
    use super::*;
    use crate::ids::OperationId;

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn seen(change: impl FnOnce(&mut Entry)) -> (&'static str, &'static str) {
        let mut entry = Entry { state: State::Live(Activity::Running), ..reserved(None) };
        change(&mut entry);
        let colour = colour(&entry, NOW, &Timing::default(), Ceilings::default());
        (colour.name(), colour.reason())
    }

    fn operation(until: UnixMillis) -> Operation {
        Operation { id: OperationId::new(&"c".repeat(16)).unwrap(), kind: "connect".to_owned(), until }
    }

    #[test]
    fn a_root_keeps_it_black_for_exactly_as_long_as_it_counts() {
        let second = Duration::from_secs(1);
        assert_eq!(seen(|entry| entry.deadline = Some(NOW.plus(second))), ("black", "deadline_ahead"));
        assert_eq!(seen(|entry| entry.deadline = Some(NOW)), ("grey", "no_root"));
        assert_eq!(seen(|entry| entry.deadline = None), ("grey", "no_root"));
        let busy = |until| seen(|entry| entry.operations.push(operation(until)));
        assert_eq!(busy(NOW.plus(second)), ("black", "operation_in_flight"));
        assert_eq!(busy(NOW), ("grey", "no_root"));
        assert_eq!(seen(|entry| entry.state = State::Live(Activity::Paused(NOW))), ("grey", "no_root"));
        for origin in [Origin::Imported, Origin::Round] {
            assert_eq!(seen(|entry| entry.origin = origin), ("black", "import_not_released"));
        }
    }

    #[test]
    fn what_is_not_alive_has_the_colour_of_its_state_whatever_its_deadline() {
        let kill = || Kill::new(Actor::Client, NOW);
        for (state, colour) in [
            (State::Reserved, ("black", "operation_in_flight")),
            (State::Dispatched, ("black", "operation_in_flight")),
            (State::Ambiguous { misses: 0 }, ("grey", "ambiguous")),
            (State::Killing(kill()), ("grey", "condemned")),
            (State::Quarantined(kill()), ("grey", "condemned")),
            (State::Refused, ("grey", "dead")),
            (State::Gone { at: NOW, proof: Proof::Deleted, owed: false }, ("grey", "dead")),
        ] {
            let name = state.name();
            let later = Some(NOW.plus(Duration::from_secs(9)));
            let change = |entry: &mut Entry| (entry.state, entry.deadline) = (state, later);
            assert_eq!(seen(change), colour, "{name}");
        }
    }
}
