//! What calls and tasks both carry out at Cube: killing what is condemned, asking about what may be gone.
//!
//! Must stay true: nothing is deleted whose intent is not written down; a sandbox is killed by one deed at a time in this
//! process; what Cube answers goes through the one table of outcomes and into the ledger before anybody is told.
//! Deliberately absent: who may want it (`rules::delete` decides), and when to try again (the ledger's appointments say).

mod ask;
mod kill;
mod renew;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::cube::client::Client;
use crate::ids::{Bucket, Marker};
use crate::ledger::Ledger;
use crate::telemetry::Metrics;
use crate::time::Clock;

pub use kill::{Ended, Loan};
pub use renew::Renewal;

/// Carries out deeds on one Cube for one ledger.
pub struct Deeds {
    ledger: Arc<Ledger>,
    cube: Arc<Client>,
    metrics: Arc<Metrics>,
    clock: Arc<dyn Clock>,
    /// How many paused sandboxes may be awake at once in order to be deleted.
    wakes: Semaphore,
    client_wait: Duration,
    /// Kills under way in this process, by marker.
    running: Mutex<HashMap<Marker, watch::Receiver<Option<Ended>>>>,
    /// With whose credential a condemned sandbox may be killed, where Cube wants one and the warden has none. Memory only.
    credentials: Mutex<HashMap<Marker, kill::Lent>>,
    /// Numbers what is lent.
    loans: AtomicU64,
    /// Buckets whose overdue entries are being asked about.
    asking: Mutex<HashMap<Bucket, ask::Round>>,
}

impl std::fmt::Debug for Deeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deeds").field("cube", &self.cube).finish_non_exhaustive()
    }
}

/// How much deeds may do at once, and how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Paused sandboxes woken at once in order to delete them, at most.
    pub most_wakes: usize,
    /// How long a client waits for its delete before it is told that it goes on.
    pub client_wait: Duration,
}

impl Deeds {
    /// Deeds that wake at most so many paused sandboxes at once, and let clients wait so long for an end.
    #[must_use]
    pub fn new(
        ledger: Arc<Ledger>,
        cube: Arc<Client>,
        metrics: Arc<Metrics>,
        clock: Arc<dyn Clock>,
        limits: Limits,
    ) -> Self {
        Self {
            ledger,
            cube,
            metrics,
            clock,
            wakes: Semaphore::new(limits.most_wakes),
            client_wait: limits.client_wait,
            running: Mutex::default(),
            credentials: Mutex::default(),
            loans: AtomicU64::new(0),
            asking: Mutex::default(),
        }
    }
}
