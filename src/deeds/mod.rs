//! What calls and tasks both carry out at Cube: killing what is condemned, asking about what may be gone.
//!
//! Must stay true: nothing is deleted whose intent is not written down; a sandbox is killed by one deed at a time in this
//! process; what Cube answers goes through the one table of outcomes and into the ledger before anybody is told.
//! Deliberately absent: who may want it (`rules::delete` decides), and when to try again (the ledger's appointments say).

mod ask;
mod kill;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Semaphore, watch};

use crate::cube::client::{Client, Credential};
use crate::ids::{Bucket, Marker};
use crate::ledger::Ledger;
use crate::time::Clock;

pub use ask::Answer;
pub use kill::{Ended, Heard};

/// Carries out deeds on one Cube for one ledger.
pub struct Deeds {
    ledger: Arc<Ledger>,
    cube: Arc<Client>,
    clock: Arc<dyn Clock>,
    /// How many paused sandboxes may be awake at once in order to be deleted.
    wakes: Semaphore,
    /// Kills under way in this process, by marker.
    running: Mutex<HashMap<Marker, watch::Receiver<Heard>>>,
    /// With whose credential a condemned sandbox may be killed, where Cube wants one and the warden has none. Memory only.
    credentials: Mutex<HashMap<Marker, Credential>>,
    /// Buckets whose overdue entries are being asked about.
    asking: Mutex<HashMap<Bucket, watch::Receiver<()>>>,
}

impl std::fmt::Debug for Deeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deeds").field("cube", &self.cube).finish_non_exhaustive()
    }
}

impl Deeds {
    /// Deeds that wake at most `most_wakes` paused sandboxes at once.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, cube: Arc<Client>, clock: Arc<dyn Clock>, most_wakes: usize) -> Self {
        Self {
            ledger,
            cube,
            clock,
            wakes: Semaphore::new(most_wakes),
            running: Mutex::default(),
            credentials: Mutex::default(),
            asking: Mutex::default(),
        }
    }
}
