//! Entries that somebody must look at: overdue creates, lost ones, passed deadlines, kills, tombstones that are over.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use super::{Kills, Tasks};
use crate::ledger::{LedgerError, Sharing};
use crate::rules::entry::{Actor, Entry, Kill, State};
use crate::rules::listing::Answer;
use crate::telemetry::Reconciled;
use crate::time::UnixMillis;

/// How many are taken up in one tick.
const MOST: usize = 1024;
/// A backlog of kills is worked off with at most this many at once; the rest keep their appointments.
const MOST_KILLS: usize = 32;
/// A delete is left to the warden that its client asked, for as long as that client is kept waiting and a little more.
const OF_ITS_OWN_WARDEN: Duration = Duration::from_secs(30);
/// How many are worked on at once.
const AT_ONCE: usize = 16;

impl Tasks {
    /// Looks at every entry that is due. Returns how many there were.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_due(self: &Arc<Self>) -> Result<usize, LedgerError> {
        let (now, entries, corrupt) = self.ledger.due(MOST).await?;
        self.report(&corrupt);
        let count = entries.len();
        let withheld = self.rules.load().kills == Kills::Withheld;
        let entries = entries.into_iter().filter(|entry| !withheld || ends_nothing(entry, now));
        let (lost, rest): (Vec<Entry>, Vec<Entry>) =
            entries.partition(|entry| matches!(entry.state, State::Ambiguous { .. }));
        if !lost.is_empty() {
            self.search(lost).await?;
        }
        let work = rest.into_iter().map(|entry| async move { self.look_at(entry, now).await });
        let outcomes: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
        outcomes.into_iter().collect::<Result<(), LedgerError>>()?;
        Ok(count)
    }

    async fn look_at(self: &Arc<Self>, entry: Entry, now: UnixMillis) -> Result<(), LedgerError> {
        match &entry.state {
            State::Reserved | State::Dispatched => self.ledger.overdue(&entry.marker).await,
            State::Live(_) if entry.claim_until.is_some_and(|until| until <= now) => {
                self.metrics.reconciled(Reconciled::Unclaimed);
                self.ledger.overdue(&entry.marker).await
            }
            State::Live(_) => {
                if self.deeds.ask(&entry).await? == Answer::Gone {
                    self.metrics.reconciled(Reconciled::Ended);
                }
                Ok(())
            }
            State::Killing(kill) if self.carried_out_elsewhere(kill, now) => Ok(()),
            // Not awaited: a kill may take as long as Cube hangs, and others are due.
            State::Killing(_) | State::Quarantined(_) => {
                if self.deeds.kills_running() < MOST_KILLS {
                    self.deeds.start_kill(&entry.marker);
                }
                Ok(())
            }
            State::Refused | State::Gone { .. } => self.ledger.purge(&entry.marker).await,
            State::Ambiguous { .. } => Ok(()),
        }
    }

    /// The client's own warden carries its delete out at once. If another did the same, one of the two would hear 404 of
    /// what the other has just deleted, and tell the client so. What that warden leaves undone comes due after this time.
    fn carried_out_elsewhere(&self, kill: &Kill, now: UnixMillis) -> bool {
        let untried = *kill == Kill::new(Actor::Client, kill.since);
        let fresh = now.since(kill.since) < OF_ITS_OWN_WARDEN;
        self.ledger.sharing() == Sharing::SeveralProcesses && untried && fresh
    }

    /// Says once of each record that it cannot be read; the others go on.
    pub(super) fn report(&self, corrupt: &[LedgerError]) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        for error in corrupt {
            if reported.insert(error.to_string()) {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "a record of the ledger cannot be read"
                );
            }
        }
        self.status_mut().corrupt_records = reported.len();
    }
}

/// Looking at this entry cannot end a sandbox at Cube.
fn ends_nothing(entry: &Entry, now: UnixMillis) -> bool {
    match entry.state {
        State::Killing(_) | State::Quarantined(_) | State::Ambiguous { .. } => false,
        State::Live(_) => entry.claim_until.is_none_or(|until| until > now),
        State::Reserved | State::Dispatched | State::Refused | State::Gone { .. } => true,
    }
}
