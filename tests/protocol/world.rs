//! One state of the world: ledger, Cube, what is on its way, two wardens with what they remember, two clients.
//!
//! Must stay true: a state holds nothing that only counts how it was reached, or the same state would be walked twice.
//! What the properties need to know and no warden does stands in [`Ghost`].

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use cubewarden::ids::{Generation, LeaseId};
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::delete::Judged;
use cubewarden::rules::entry::Entry;
use cubewarden::time::UnixMillis;

use super::setup::{Client, Luck, Setup};

/// A create, the entry it made and its sandbox all have the number of the wish.
pub(super) type N = u8;

const START: u64 = 1_800_000_000_000;

/// The time at a tick.
pub(super) fn at(tick: u64) -> UnixMillis {
    UnixMillis(START + tick * 1000)
}

/// The tick of a time.
pub(super) fn tick_of(time: UnixMillis) -> u64 {
    (time.0 - START) / 1000
}

/// An entry as it stands in the ledger, with its hash: most steps leave it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    hash: u64,
    entry: Arc<Entry>,
}

impl From<Entry> for Kept {
    fn from(entry: Entry) -> Self {
        let mut hasher = DefaultHasher::new();
        entry.hash(&mut hasher);
        Self { hash: hasher.finish(), entry: Arc::new(entry) }
    }
}

impl Hash for Kept {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Deref for Kept {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    pub(super) entries: BTreeMap<N, Kept>,
    pub(super) slots: BTreeSet<N>,
    /// What the shared owner holds.
    pub(super) holding: Option<(N, Generation)>,
    pub(super) sealed: BTreeSet<LeaseId>,
    /// First looks of the collector.
    pub(super) marks: BTreeMap<N, Mark>,
    pub(super) trust: Trust,
}

/// Whether the ledger is the one it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Trust {
    #[default]
    Whole,
    /// Emptied at this tick; nothing is admitted or judged.
    Lost(u64),
    /// Rebuilt at this tick.
    Rebuilt(u64),
}

/// What a collector saw at its first look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    pub(super) incarnation: u32,
    pub(super) marked: UnixMillis,
}

impl Mark {
    pub(super) fn judged(self) -> Judged {
        Judged { incarnation: self.incarnation, marked: self.marked, ceilings: Ceilings::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Life {
    Running,
    Paused,
    /// By a DELETE.
    Deleted,
    /// By Cube's own sweeper.
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sandbox {
    pub(super) life: Life,
    pub(super) born: u64,
    pub(super) ends: u64,
}

impl Sandbox {
    pub(super) fn exists(self) -> bool {
        matches!(self.life, Life::Running | Life::Paused)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Request {
    Create(N),
    Connect(N),
    Pause(N),
    Delete(N),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Answer {
    Done,
    Refused,
    NotFound,
    /// Nobody knows: the caller waits no longer.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Cargo {
    Request(Request),
    Answer(Answer),
}

/// Something on its way between a warden and Cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    /// Who awaits the answer; nobody where the caller died, gave up, or never sent this one.
    pub(super) by: Option<(usize, Task)>,
    pub(super) sent: u64,
    pub(super) cargo: Cargo,
}

/// What a warden is doing; it does each at most once at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Task {
    Wish(u8),
    Kill(N),
    List,
    Look(N),
    Collect(N),
}

/// Where in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// It looks what its owner holds.
    Ask,
    /// It saw that its owner held this (or nothing), and will take a slot; `room`: it has counted already.
    Reserve { held: Option<(N, Generation)>, room: bool },
    /// It has a slot and will send the create.
    Dispatch,
    /// It saw that its owner holds this living one, and will take it.
    Take(N),
    /// It has taken this one, and wakes it.
    Wake(N, Generation),
    /// It has sent something and waits.
    Await(N),
    /// It has sent a DELETE, when this was the entry.
    Strike(Kept),
    /// It has a list from then.
    Listed { began: u64, shown: BTreeSet<N> },
    /// It has seen this of a sandbox then (`None`: a 404).
    Saw { began: u64, life: Option<Life> },
    /// It has seen twice that nothing keeps it, and that Cube shows the same.
    Sure(Mark),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Warden {
    /// Another one after each crash.
    pub(super) instance: u8,
    pub(super) doing: BTreeMap<Task, Step>,
    /// What the last trusted list showed.
    pub(super) trusted: BTreeSet<N>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Open,
    Begun,
    Over,
}

/// What a client was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grip {
    pub(super) n: N,
    pub(super) generation: Generation,
    /// The wish whose lease it is.
    pub(super) lease: Option<u8>,
}

/// What is true of a sandbox in the eyes of its clients, whatever the ledger holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ghost {
    /// The last who took it.
    pub(super) holder: Option<Client>,
    /// Somebody was given it, and may be using it.
    pub(super) given: bool,
    /// The end that was promised.
    pub(super) until: u64,
    /// The last call or beat that was answered.
    pub(super) sign: u64,
}

/// What must never happen, seen at the moment it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Breach {
    /// I1: the warden's own decision condemned what a root keeps.
    RootCondemned,
    /// I1: a late clean-up ended or stopped what its successor holds.
    SuccessorHit,
    /// I1: a sandbox ended that nobody had condemned.
    KilledWithoutIntent,
    /// I1: judged too soon after the ledger was lost.
    JudgedTooSoon,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) ledger: Ledger,
    pub(super) cube: BTreeMap<N, Sandbox>,
    pub(super) wire: BTreeSet<Message>,
    pub(super) wardens: [Warden; 2],
    pub(super) wishes: Vec<Stage>,
    pub(super) grips: BTreeMap<Client, Grip>,
    pub(super) ghosts: BTreeMap<N, Ghost>,
    pub(super) luck: Luck,
    pub(super) breach: Option<Breach>,
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let warden = |instance| Warden { instance, doing: BTreeMap::new(), trusted: BTreeSet::new() };
        Self {
            now: 0,
            ledger: Ledger::default(),
            cube: BTreeMap::new(),
            wire: BTreeSet::new(),
            wardens: [warden(0), warden(1)],
            wishes: vec![Stage::Open; setup.wishes.len()],
            grips: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            luck: setup.luck,
            breach: None,
        }
    }

    pub(super) fn time(&self) -> UnixMillis {
        at(self.now)
    }

    pub(super) fn exists(&self, n: N) -> bool {
        self.cube.get(&n).is_some_and(|sandbox| sandbox.exists())
    }

    pub(super) fn existing(&self) -> BTreeSet<N> {
        self.cube.iter().filter(|(_, sandbox)| sandbox.exists()).map(|(n, _)| *n).collect()
    }

    pub(super) fn was_lost(&self) -> bool {
        self.ledger.trust != Trust::Whole
    }

    pub(super) fn breached(&mut self, breach: Breach) {
        self.breach.get_or_insert(breach);
    }

    pub(super) fn send(&mut self, by: (usize, Task), request: Request) {
        self.wire.insert(Message { by: Some(by), sent: self.now, cargo: Cargo::Request(request) });
    }

    /// Creates that may still come to be.
    pub(super) fn creates_on_their_way(&self) -> impl Iterator<Item = N> + '_ {
        self.wire.iter().filter_map(|message| match message.cargo {
            Cargo::Request(Request::Create(n)) => Some(n),
            _ => None,
        })
    }
}
