//! Runs each tick by the clock until told to stop, and keeps the last status of each for the operator.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Cycle, Tasks};
use crate::cube::client::ListFailed;
use crate::cube::profile::Probe;
use crate::ledger::{Agreement, BEAT, LedgerError, Sharing, Standing};
use crate::time::UnixMillis;

/// How often due entries are looked for when nobody asks for it.
const DUE: Duration = Duration::from_secs(1);
/// How often Cube is asked whether it is there.
const HEALTH: Duration = Duration::from_secs(10);

/// How the tasks fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether Cube answered when it was last asked.
    pub upstream_up: bool,
    /// Why the tasks that need a listing are off, in words for the operator.
    pub listing_off: Option<String>,
    /// Whether another warden takes Cube's list in for all.
    pub follows: bool,
    /// When Cube's list was last taken in, by this warden.
    pub last_inventory: Option<UnixMillis>,
    /// Why the ledger failed when it was last asked.
    pub ledger_error: Option<String>,
    /// How many records cannot be read.
    pub corrupt_records: usize,
}

impl Tasks {
    /// How the tasks fare.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut status = self.status_mut().clone();
        status.ledger_error = status.ledger_error.or_else(|| self.ledger.write_error());
        status
    }

    /// Sandboxes at this Cube that are another ledger's or nobody's, when last seen.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Ordering::Relaxed)
    }

    pub(super) fn status_mut(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What must happen once before anything else: what a dead process left is taken over, and it is found out what this
    /// Cube can do.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn start(&self) -> Result<(), LedgerError> {
        // What was lost is rebuilt first, in the background: pass-through need not wait for that.
        if self.ledger.standing() == Standing::Sound { self.tick_beat().await } else { Ok(()) }
    }

    /// Shows that this warden lives, where others could care, and takes over what dead ones left.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_beat(&self) -> Result<(), LedgerError> {
        if self.ledger.sharing() == Sharing::SeveralProcesses {
            self.ledger.beat().await?;
        }
        let taken = self.ledger.take_over().await?;
        if taken > 0 {
            tracing::info!(entries = taken, "took over what a dead process had left half done");
            self.ledger.wake();
        }
        self.tick_limits().await
    }

    /// Brings the ledger's limits to what every living warden keeps within, and says so if they differ.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_limits(&self) -> Result<(), LedgerError> {
        let Agreement { revision, agree } = self.ledger.settle_limits().await?;
        if self.metrics.limits_disagree(!agree) {
            if agree {
                tracing::info!(revision, "all wardens of this ledger run with the same limits");
            } else {
                tracing::error!(
                    revision,
                    "wardens of this ledger run with different limits: the smaller hold until they are configured alike"
                );
            }
        }
        Ok(())
    }

    /// Tells the guard of the write path how many condemned sandboxes stand.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; the guard goes by what it knew.
    pub async fn tick_write_path(&self) -> Result<(), LedgerError> {
        let backlog = self.ledger.killing_here().await;
        // Told also without a new number: it lets time pass.
        let guard = self.cube.guard();
        guard.counted(*backlog.as_ref().unwrap_or(&guard.view().backlog));
        backlog.map(drop)
    }

    /// Finds out what this Cube can do, by harmless questions: those that had no answer yet.
    pub async fn learn(&self) {
        for probe in [Probe::TimeoutOfNobody, Probe::DeleteOfNobody] {
            if self.cube.profile().wants(probe) {
                self.cube.probe(probe).await;
            }
        }
    }

    /// Runs the tasks until `stop` is true.
    pub async fn run(self: Arc<Self>, stop: watch::Receiver<bool>) {
        let loops = async {
            tokio::join!(
                self.run_due(),
                self.run_collector(),
                self.run_rebuild(),
                self.run_health(),
                self.run_notes(),
                self.run_write_path(),
                self.run_beats()
            );
        };
        tokio::select! {
            () = loops => {}
            () = stopped(stop) => {}
        }
        if let Err(error) = self.ledger.write_notes().await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the last notes could not be written");
        }
        if self.ledger.sharing() == Sharing::SeveralProcesses
            && let Err(error) = self.ledger.farewell().await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the other wardens could not be told that this one ends; they find out in a minute"
            );
        }
    }

    /// Alone in a ledger there is nobody to tell, and nobody else can die; but limits may change.
    async fn run_beats(&self) {
        loop {
            let outcome = match self.ledger.sharing() {
                Sharing::OneProcess => {
                    self.ledger.configured().await;
                    self.tick_limits().await
                }
                Sharing::SeveralProcesses => {
                    tokio::select! {
                        () = self.ledger.configured() => {}
                        () = self.clock.sleep(BEAT) => {}
                    }
                    self.tick_beat().await
                }
            };
            self.note_ledger(outcome);
        }
    }

    async fn run_due(self: &Arc<Self>) {
        loop {
            let outcome = self.tick_due().await;
            self.note_ledger(outcome.map(drop));
            tokio::select! {
                () = self.ledger.work() => {}
                () = self.clock.sleep(DUE) => {}
            }
        }
    }

    async fn run_rebuild(self: &Arc<Self>) {
        loop {
            if let Err(error) = self.tick_rebuild().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the ledger could not be rebuilt yet"
                );
            }
            self.clock.sleep(DUE).await;
        }
    }

    async fn run_collector(self: &Arc<Self>) {
        loop {
            self.learn().await;
            let outcome = self.tick_collector().await;
            let soon = self.status().last_inventory.is_none() && !matches!(outcome, Ok(Cycle::NotLeading));
            self.note_ledger(outcome.map(drop));
            let cycle = self.rules.load().settings.collector.cycle;
            // The first inventory is wanted soon: until it was taken, what was there before has no record.
            let wait = if soon { DUE.min(cycle) } else { cycle };
            self.clock.sleep(wait).await;
        }
    }

    async fn run_health(&self) {
        loop {
            let up = self.cube.is_up().await;
            let was = std::mem::replace(&mut self.status_mut().upstream_up, up);
            if was != up {
                tracing::info!(up, "Cube came or went");
            }
            self.clock.sleep(HEALTH).await;
        }
    }

    async fn run_write_path(&self) {
        loop {
            let outcome = self.tick_write_path().await;
            self.note_ledger(outcome);
            self.clock.sleep(DUE).await;
        }
    }

    async fn run_notes(&self) {
        let mut rounds = 0_u32;
        loop {
            if let Err(error) = self.tick_notes(rounds).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the decision log could not be written"
                );
            }
            rounds = rounds.wrapping_add(1);
            self.clock.sleep(DUE).await;
        }
    }

    fn note_ledger(&self, outcome: Result<(), LedgerError>) {
        let error = outcome.err().map(|error| error.to_string());
        let mut status = self.status_mut();
        if status.ledger_error != error {
            if let Some(error) = &error {
                tracing::error!(error, "the ledger cannot be used; tasks do nothing until it can");
            }
            status.ledger_error = error;
        }
    }

    /// Keeps in words why there is no listing, and says it once.
    pub(super) fn note_listing(&self, failed: Option<&ListFailed>) {
        let off = match failed {
            Some(error @ ListFailed::KeyWanted) => Some(error.to_string()),
            _ => None,
        };
        let mut status = self.status_mut();
        if status.listing_off != off {
            if let Some(off) = &off {
                tracing::error!(reason = off, "listings are off: nothing that was lost can be found again");
            }
            status.listing_off = off;
        }
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    while !*stop.borrow_and_update() {
        if stop.changed().await.is_err() {
            return;
        }
    }
}
