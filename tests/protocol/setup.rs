//! What one run of the checker allows to happen, and the lengths of time it counts in.
//!
//! A tick is the shortest time that matters: what is sent reaches Cube in the tick it was sent or in the next one, and
//! every other length follows from that as in the defaults (a kill's answer is waited for longer than a call may take, an
//! unanswered create is given up after the last that could still arrive, ...).

use std::time::Duration;

use cubewarden::rules::entry::{Keeper, Timing};

/// A request is on its way for this many ticks at most.
pub(super) const FLIGHT: u64 = 1;
/// A registered call counts for so long: its flight and a margin.
pub(super) const OPERATION: Duration = Duration::from_secs(2);
/// How long a sandbox is asked for.
pub(super) const LENGTH: u64 = 2;
/// Between the first look of a collector and the second; and how long after a lost ledger nothing is judged.
pub(super) const CYCLE: u64 = 1;

/// One of the two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Client {
    A,
    B,
}

/// How a caller names the sandbox that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// With the generation it was given.
    Qualified,
    /// Without.
    Bare,
}

/// What a client does once, at any time after it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    /// A sandbox; of the owner that both share where the setup reuses, else of its own.
    Create,
    /// A sandbox, for a client that hangs up.
    CreateAndLeave,
    /// Wakes it and moves its end.
    Connect(Id),
    /// Stops it.
    Pause(Id),
    /// Ends it.
    Delete(Id),
    /// Ends it by its lease.
    Release,
    /// Shows that it lives.
    Beat,
}

/// Who wishes what, of which warden (0 or 1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked(pub(super) Client, pub(super) usize, pub(super) Wish);

/// What Cube does with a sandbox whose end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtItsEnd {
    Nothing,
    Pauses,
    Kills,
}

/// How often each misfortune may still strike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Luck {
    /// A warden dies and comes back with nothing in memory.
    pub(super) crashes: u8,
    /// An answer is not awaited any longer; its request may still arrive.
    pub(super) timeouts: u8,
    /// A DELETE arrives twice.
    pub(super) duplicates: u8,
    /// Cube leaves something out of its list, knows nothing of what it has just made, or wakes what it has just deleted.
    pub(super) lies: u8,
    /// Cube refuses a create.
    pub(super) refusals: u8,
    /// The ledger loses everything.
    pub(super) lost_ledgers: u8,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A stale generation deletes what is current.
    StaleDeletesCurrent,
    /// A new holder gets the generation of the one before.
    ReuseKeepsGeneration,
    /// A released lease gives its slot back at once.
    ReleaseFreesAtOnce,
    /// What a list leaves out is taken for gone.
    AbsenceFrees,
    /// A create without an answer gives its slot back.
    LostAnswerFrees,
    /// A list from before the create can have arrived counts as a miss.
    EarlyMissesCount,
    /// A 404 is believed whatever its age.
    NewbornBelieved,
    /// The limit is checked in one step and the slot taken in another.
    CountThenTake,
    /// What one look found without a root is condemned, whatever happened since.
    OneLook,
    /// A call under way keeps nothing from being condemned.
    CondemnIgnoresOperations,
    /// A 404 proves an end while a call is under way that could bring it back.
    ProofDespiteOperations,
    /// A rebuilt entry is said to have had one holder.
    RebuiltIsProven,
    /// Nobody takes up what a dead warden left.
    LeftoversStay,
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) wishes: &'static [Asked],
    pub(super) limit: u64,
    /// The clients share an owner, who holds one lease kept in this way; `None`: everybody for itself.
    pub(super) reuse: Option<Keeper>,
    pub(super) at_its_end: AtItsEnd,
    /// A warden that collects.
    pub(super) collector: Option<usize>,
    /// The clock stops here.
    pub(super) last: u64,
    pub(super) luck: Luck,
    pub(super) broken: Option<Broken>,
}

impl Setup {
    pub(super) fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// The lengths of time that the rules go by.
    pub(super) fn timing(&self) -> Timing {
        let seconds = Duration::from_secs;
        Timing {
            reserved: seconds(1),
            settle: seconds(if self.is(Broken::EarlyMissesCount) { 0 } else { 2 }),
            search: seconds(1),
            horizon: seconds(3),
            claim: seconds(1),
            root_fresh: seconds(1),
            newborn: seconds(if self.is(Broken::NewbornBelieved) { 0 } else { 2 }),
            deadline_grace: seconds(0),
            tombstone: seconds(1000),
            kill_retry: seconds(1),
            kill_retry_most: seconds(1),
            kill_tries: 2,
            quarantine_retry: seconds(1),
        }
    }
}
