//! The Cube itself, pure: state, request, present and chance in; new state and answer out.
//!
//! Never knows tokio, a socket or a clock. Work that is to happen later (a blocked write that is done late, a pause that takes its
//! time, a deleted sandbox that comes back) stands in `later` and happens when [`Cube::settle`] is told that its time has come, in
//! the order of time; so a test that owns the clock owns all of it.
//! Must stay true: every sandbox and every create on its way is in the census; the same calls with the same chance give the same bytes.

mod catalog;
mod census;
mod create;
mod lifecycle;
mod lists;
mod sandbox;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cubewarden::time::{Chance, UnixMillis};

use super::answer::Answer;
use super::ask::{Ask, Asker};
use super::profile::Profile;
use super::write_path::{Passage, WritePath};
use catalog::Catalog;
use census::Census;
pub(crate) use census::Token;
pub(crate) use create::Plant;
pub(crate) use lifecycle::Traffic;
pub(crate) use sandbox::{Memory, OnTimeout, Sandbox, State};

/// What a Cube is built from.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    pub(crate) profile: Profile,
    pub(crate) hosts: usize,
    pub(crate) domain: String,
    pub(crate) counting: bool,
}

/// Standing conditions of the world, as the faults in force describe them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    /// These hosts do not answer.
    pub(crate) unreachable: BTreeSet<String>,
    /// How long a pause stays `pausing`.
    pub(crate) pause_takes: Duration,
    /// How slow writes are; `None`: they take no time.
    pub(crate) write_path: Option<WritePath>,
}

/// How one request's answer is bent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bend {
    pub(crate) omit: BTreeSet<String>,
    pub(crate) list: Listing,
    pub(crate) forget_labels: bool,
    pub(crate) resurrect_after: Option<Duration>,
}

/// What becomes of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listing {
    #[default]
    True,
    Empty,
}

/// One request with all that its answer depends on besides state, time and chance.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) ask: Ask,
    pub(crate) asker: Asker,
    pub(crate) bend: Bend,
    /// Given by [`Cube::accept`] to a create.
    pub(crate) token: Option<Token>,
}

#[derive(Debug)]
enum Later {
    Perform(Box<Order>),
    PauseDone(String),
    Return(Box<Sandbox>),
    /// A write that held the write path no longer does.
    WriteOver,
}

/// The state of one Cube.
#[derive(Debug)]
pub(crate) struct Cube {
    profile: Profile,
    hosts: Vec<String>,
    domain: String,
    world: World,
    /// Writes that hold the write path.
    writes: usize,
    sandboxes: BTreeMap<String, Sandbox>,
    catalog: Catalog,
    census: Census,
    later: BTreeMap<(UnixMillis, u64), Later>,
    orders: u64,
}

impl Cube {
    /// An empty Cube with three templates.
    pub(crate) fn new(blueprint: Blueprint, now: UnixMillis, chance: &Chance) -> Self {
        Self {
            profile: blueprint.profile,
            hosts: (0..blueprint.hosts).map(|n| format!("node-{n}")).collect(),
            domain: blueprint.domain,
            world: World::default(),
            writes: 0,
            sandboxes: BTreeMap::new(),
            catalog: Catalog::new(now, chance),
            census: Census::new(blueprint.counting),
            later: BTreeMap::new(),
            orders: 0,
        }
    }

    /// Sets the standing conditions.
    pub(crate) fn set_world(&mut self, world: World) {
        self.world = world;
    }

    /// Counts a create as on its way; everything else needs no token.
    pub(crate) fn accept(&mut self, ask: &Ask) -> Option<Token> {
        let Ask::Create(new) = ask else { return None };
        let labels = std::sync::Arc::new(new.metadata.clone());
        Some(self.census.begin(&labels))
    }

    /// A create that was accepted will not be done after all.
    pub(crate) fn abandon(&mut self, token: Option<Token>) {
        if let Some(token) = token {
            self.census.end(token);
        }
    }

    /// A write begins; it holds the write path for as long as is returned.
    pub(crate) fn begin_write(&mut self, now: UnixMillis, chance: &Chance) -> Passage {
        self.settle(now, chance);
        let Some(path) = self.world.write_path else { return Passage::FREE };
        let passage = path.passage(self.sandboxes.len(), self.writes);
        self.hold_write_path(now.plus(passage.takes));
        passage
    }

    /// Puts writes under way that nobody waits for, as on a Cube overrun for long; the path gives them up one after another.
    pub(crate) fn overrun(&mut self, writes: u32, now: UnixMillis) {
        let longest = self.world.write_path.map_or(0, |path| path.gives_up_ms);
        for nth in 1..=u64::from(writes) {
            self.hold_write_path(now.plus(Duration::from_millis(longest * nth / u64::from(writes))));
        }
    }

    /// How many writes hold the write path.
    pub(crate) fn writes_under_way(&self) -> usize {
        self.writes
    }

    fn hold_write_path(&mut self, until: UnixMillis) {
        self.writes += 1;
        self.schedule(until, Later::WriteOver);
    }

    /// Does an accepted request at a later time; nobody will see its answer.
    pub(crate) fn perform_later(&mut self, order: Order, at: UnixMillis) {
        self.schedule(at, Later::Perform(Box::new(order)));
    }

    /// Does what is asked, now.
    pub(crate) fn perform(&mut self, order: &Order, now: UnixMillis, chance: &Chance) -> Answer {
        self.settle(now, chance);
        self.carry_out(order, now, chance)
    }

    /// Brings the state up to `now`: work that came due, deadlines that passed, in the order of time.
    pub(crate) fn settle(&mut self, now: UnixMillis, chance: &Chance) {
        while let Some((at, due)) = self.first_due().filter(|(at, _)| *at <= now) {
            match due {
                Due::Later(key) => {
                    let work = self.later.remove(&key).expect("the key was just read");
                    self.occur(work, at, chance);
                }
                Due::Deadline(id) => self.sweep(&id, at, chance),
            }
        }
    }

    /// When something will happen by itself; `None`: nothing will.
    pub(crate) fn next_due(&self) -> Option<UnixMillis> {
        self.first_due().map(|(at, _)| at)
    }

    /// Every sandbox that exists, paused ones too.
    pub(crate) fn sandboxes(&self) -> impl Iterator<Item = &Sandbox> {
        self.sandboxes.values()
    }

    /// One sandbox by its full id.
    pub(crate) fn sandbox(&self, id: &str) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    /// The greatest number of sandboxes ever alive or on their way, among those whose metadata has all `wanted` pairs.
    pub(crate) fn high_water(&self, wanted: &[(&str, &str)]) -> usize {
        self.census.high_water(wanted)
    }

    /// Puts a sandbox in a state by force; false if there is none.
    pub(crate) fn set_state(&mut self, id: &str, state: State) -> bool {
        self.sandboxes.get_mut(id).map(|sandbox| sandbox.state = state).is_some()
    }

    /// A sandbox dies by itself; false if there is none.
    pub(crate) fn let_die(&mut self, id: &str) -> bool {
        self.remove(id).is_some()
    }

    /// Everything is lost: sandboxes, snapshots, volumes, and work that stood ahead.
    pub(crate) fn forget_everything(&mut self, now: UnixMillis, chance: &Chance) {
        let ids: Vec<String> = self.sandboxes.keys().cloned().collect();
        for id in ids {
            self.remove(&id);
        }
        for work in std::mem::take(&mut self.later).into_values() {
            if let Later::Perform(order) = work {
                self.abandon(order.token);
            }
        }
        self.catalog = Catalog::new(now, chance);
        self.writes = 0;
    }

    fn carry_out(&mut self, order: &Order, now: UnixMillis, chance: &Chance) -> Answer {
        match &order.ask {
            Ask::Health => Answer::json(200, &Health { status: "ok", sandboxes: 0 }),
            Ask::Create(new) => self.create(new, order.token, now, chance),
            Ask::List(query) => self.list(query, order.asker, &order.bend),
            Ask::Get(id) => self.get(id, order.asker, &order.bend),
            Ask::Delete(id) => self.delete(id, &order.bend, now),
            Ask::Pause(id) => self.pause(id, now, chance),
            Ask::Resume(id, timeout) => self.resume(id, *timeout, now),
            Ask::Connect(id, timeout) => self.connect(id, *timeout, now),
            Ask::Timeout(id, timeout) => self.set_timeout(id, *timeout, now),
            Ask::Refreshes(id, duration) => self.refresh(id, *duration, now),
            Ask::Logs(id, query, form) => self.logs(id, query, *form),
            Ask::Network(id) => self.update_network(id),
            other => self.carry_out_in_catalog(other, now, chance),
        }
    }

    fn first_due(&self) -> Option<(UnixMillis, Due)> {
        let later = self.later.keys().next().map(|key| (key.0, Due::Later(*key)));
        let swept =
            self.sandboxes.values().filter_map(|one| Some((one.swept_at(self.profile)?, one.order, one)));
        let deadline = swept.min_by_key(|(at, order, _)| (*at, *order));
        let deadline = deadline.map(|(at, _, one)| (at, Due::Deadline(one.id.clone())));
        match (later, deadline) {
            (Some(later), Some(deadline)) => Some(if later.0 <= deadline.0 { later } else { deadline }),
            (later, deadline) => later.or(deadline),
        }
    }

    fn occur(&mut self, work: Later, at: UnixMillis, chance: &Chance) {
        match work {
            Later::Perform(order) => {
                self.carry_out(&order, at, chance);
            }
            Later::PauseDone(id) => self.finish_pause(&id, at, chance),
            Later::Return(sandbox) => self.put_back(*sandbox),
            Later::WriteOver => self.writes -= 1,
        }
    }

    fn schedule(&mut self, at: UnixMillis, work: Later) {
        self.orders += 1;
        self.later.insert((at, self.orders), work);
    }

    fn remove(&mut self, id: &str) -> Option<Sandbox> {
        let gone = self.sandboxes.remove(id)?;
        self.census.end(gone.token);
        Some(gone)
    }
}

enum Due {
    Later((UnixMillis, u64)),
    Deadline(String),
}

#[derive(serde::Serialize)]
struct Health {
    status: &'static str,
    sandboxes: u32,
}
