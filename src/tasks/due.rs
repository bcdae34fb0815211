//! Entries that somebody must look at: overdue creates, lost ones, passed deadlines, kills, tombstones that are over.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};

use super::{Kills, MOST_KILLS, Tasks};
use crate::ledger::{LedgerError, Sharing};
use crate::rules::entry::{Actor, Entry, Kill, State, Struck};
use crate::rules::listing::Answer;
use crate::telemetry::Reconciled;
use crate::time::UnixMillis;

/// How many are taken up in one tick.
const MOST: usize = 1024;
/// A delete is left to the warden that its client asked, for as long as that client is kept waiting and a little more.
const OF_ITS_OWN_WARDEN: Duration = Duration::from_secs(30);
/// How many are worked on at once.
const AT_ONCE: usize = 16;

impl Tasks {
    /// Looks at every entry that is due. Returns how many there were. One that cannot be worked on keeps no other from it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_due(self: &Arc<Self>) -> Result<usize, LedgerError> {
        self.ledger.give_back().await?;
        self.ledger.write_ended().await?;
        // What was left as it was keeps its place at the head: it is read past, or it would hide all others.
        let most = MOST + self.left_over.load(Ordering::Relaxed);
        let (now, entries, corrupt) = self.ledger.due(most).await?;
        self.report(&corrupt);
        let count = entries.len();
        let withheld = self.rules.load().kills == Kills::Withheld;
        let judges = self.ledger.may_judge(now);
        let (entries, held): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| {
            (!withheld || ends_nothing(entry, now)) && (judges || condemns_nothing(entry, now))
        });
        let (lost, rest): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| matches!(entry.state, State::Ambiguous { .. }));
        let search = async { if lost.is_empty() { Ok(()) } else { self.search(lost).await } };
        let work = rest.into_iter().map(|entry| async move { self.look_at(entry, now).await });
        let work = stream::iter(work).buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        let (searched, outcomes) = tokio::join!(search, work);
        let left = outcomes.iter().filter(|outcome| matches!(outcome, Ok(Look::Left) | Err(_))).count();
        self.left_over.store(held.len() + corrupt.len() + left, Ordering::Relaxed);
        self.first_failure(outcomes.into_iter().map(|outcome| outcome.map(drop)).chain([searched]))?;
        Ok(count)
    }

    /// The first error of the store itself; records that cannot be read are reported and are nobody else's trouble.
    fn first_failure(
        &self,
        outcomes: impl Iterator<Item = Result<(), LedgerError>>,
    ) -> Result<(), LedgerError> {
        let (corrupt, others): (Vec<LedgerError>, Vec<LedgerError>) =
            outcomes.filter_map(Result::err).partition(LedgerError::is_corrupt);
        self.report(&corrupt);
        others.into_iter().next().map_or(Ok(()), Err)
    }

    async fn look_at(self: &Arc<Self>, entry: Entry, now: UnixMillis) -> Result<Look, LedgerError> {
        match &entry.state {
            State::Reserved | State::Dispatched => self.ledger.overdue(&entry.marker).await?,
            State::Live(_) if entry.claim_until.is_some_and(|until| until <= now) => {
                self.metrics.reconciled(Reconciled::Unclaimed);
                self.ledger.overdue(&entry.marker).await?;
            }
            State::Live(_) => {
                if self.deeds.ask(&entry).await? == Answer::Gone {
                    self.metrics.reconciled(Reconciled::Ended);
                }
            }
            State::Killing(kill) if self.carried_out_elsewhere(kill, now) => return Ok(Look::Left),
            // Not awaited: a kill may take as long as Cube hangs, and others are due.
            State::Killing(_) | State::Quarantined(_) => {
                if self.deeds.kills_running() < MOST_KILLS {
                    self.deeds.start_kill(&entry.marker);
                }
                return Ok(Look::Left);
            }
            State::Refused | State::Gone { .. } => self.ledger.purge(&entry.marker).await?,
            State::Ambiguous { .. } => {}
        }
        Ok(Look::Done)
    }

    /// The client's own warden carries its delete out at once. If another did the same, one of the two would hear 404 of
    /// what the other has just deleted, and tell the client so. What that warden leaves undone comes due after this time.
    fn carried_out_elsewhere(&self, kill: &Kill, now: UnixMillis) -> bool {
        let untried = kill.attempts == 0 && !kill.absent_once && kill.struck == Struck::Never;
        let fresh = now.since(kill.since) < OF_ITS_OWN_WARDEN;
        self.ledger.sharing() == Sharing::SeveralProcesses && kill.actor == Actor::Client && untried && fresh
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

/// What became of a look at one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Its appointment has moved, or it has none any more.
    Done,
    /// It keeps its place for now: a kill is under way, or there are too many at once.
    Left,
}

/// Looking at this entry cannot lead to an end that nobody has decided on yet.
fn condemns_nothing(entry: &Entry, now: UnixMillis) -> bool {
    matches!(entry.state, State::Killing(_) | State::Quarantined(_)) || ends_nothing(entry, now)
}

/// Looking at this entry cannot end a sandbox at Cube.
fn ends_nothing(entry: &Entry, now: UnixMillis) -> bool {
    match entry.state {
        State::Killing(_) | State::Quarantined(_) | State::Ambiguous { .. } => false,
        State::Live(_) => entry.claim_until.is_none_or(|until| until > now),
        State::Reserved | State::Dispatched | State::Refused | State::Gone { .. } => true,
    }
}
