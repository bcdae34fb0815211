//! Background tasks: what nobody waits for. Each has a tick that a test can call; the driver calls them by the clock.
//!
//! Must stay true: a tick that fails changes nothing it cannot prove and is called again; tasks never prolong a life.

mod collector;
mod decisions;
mod driver;
mod due;
mod inventory;
mod rebuild;
mod search;
pub mod settings;
mod survey;
mod vanished;
pub mod webhook;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::cube::activity::ActivitySource;
use crate::cube::api::LabelNames;
use crate::cube::client::Client;
use crate::deeds::Deeds;
use crate::ids::Bucket;
use crate::ledger::{Ledger, Remembered};
use crate::rules::policy::Policies;
use crate::telemetry::Metrics;
use crate::telemetry::events::Events;
use crate::time::Clock;

pub use collector::{Cycle, View};
pub use driver::Status;

/// A backlog of kills is worked off with at most this many at once; the rest keep their appointments.
const MOST_KILLS: usize = 32;

/// Whose the sandboxes are that have no record and none of our labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// Nobody's: counted as foreign, never touched.
    Nobody,
    /// This bucket's.
    Into(Bucket),
}

/// Whether condemned sandboxes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kills {
    /// They are.
    CarriedOut,
    /// The mode is shadow or transparent: nothing is changed at Cube; intents stand until it is enforce again.
    Withheld,
}

/// What the tasks go by beside their times; swapped whole on reload.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The tasks' times and caps.
    pub settings: settings::Settings,
    /// What happens to what has no record.
    pub adopt: Adopt,
    /// The names of our labels.
    pub labels: LabelNames,
    /// Whether condemned sandboxes are killed.
    pub kills: Kills,
    /// What each bucket does with what nobody needs.
    pub policies: Policies,
}

/// What the tasks are wired to.
#[expect(missing_debug_implementations, reason = "a bundle of handles, taken apart at once")]
pub struct Wiring {
    /// The accounting authority.
    pub ledger: Arc<Ledger>,
    /// The Cube API.
    pub cube: Arc<Client>,
    /// What calls and tasks both carry out.
    pub deeds: Arc<Deeds>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Who tells which sandboxes are in use, if anybody does.
    pub activity: Option<ActivitySource>,
    /// Where operators are told of what happens.
    pub events: Events,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// The background tasks of one warden.
pub struct Tasks {
    rules: ArcSwap<Rules>,
    ledger: Arc<Ledger>,
    cube: Arc<Client>,
    deeds: Arc<Deeds>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    status: Mutex<Status>,
    foreign: AtomicU64,
    /// How many due entries the last tick left as they were.
    left_over: AtomicUsize,
    /// Records that could not be read and were reported: once is enough.
    reported: Mutex<HashSet<String>>,
    listings: Mutex<vanished::Listings>,
    /// What the collector knows, as it was last written; `None`: to be read.
    remembered: tokio::sync::Mutex<Option<Remembered>>,
    notes: tokio::sync::Mutex<collector::Notes>,
    view: Mutex<View>,
    activity: Option<ActivitySource>,
    events: Events,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Tasks that go by `rules`.
    #[must_use]
    pub fn new(rules: Rules, wiring: Wiring) -> Self {
        Self {
            rules: ArcSwap::from_pointee(rules),
            ledger: wiring.ledger,
            cube: wiring.cube,
            deeds: wiring.deeds,
            metrics: wiring.metrics,
            clock: wiring.clock,
            status: Mutex::default(),
            foreign: AtomicU64::default(),
            left_over: AtomicUsize::default(),
            reported: Mutex::default(),
            listings: Mutex::default(),
            remembered: tokio::sync::Mutex::default(),
            notes: tokio::sync::Mutex::default(),
            view: Mutex::default(),
            activity: wiring.activity,
            events: wiring.events,
        }
    }

    /// Takes new rules into force, whole.
    pub fn reload(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }
}
