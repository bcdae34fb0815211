//! What lives by the ledger and is not in Cube's list: asked about one by one; the list is judged by the answers.
//!
//! Must stay true: however many vanish, each is asked about in its turn, a bounded number at once.

use std::sync::{MutexGuard, PoisonError};

use futures_util::{StreamExt as _, stream};

use super::Tasks;
use crate::cube::api::Listed;
use crate::ids::{Marker, SandboxId};
use crate::ledger::LedgerError;
use crate::rules::entry::Entry;
use crate::rules::listing::{self, Answer, Missing, Shown, Verdict};
use crate::telemetry::Reconciled;
use crate::time::UnixMillis;

/// How many are asked about at once.
const AT_ONCE: usize = 16;

/// What is remembered from one listing to the next.
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// What the last one that was trusted showed.
    trusted: Shown,
    /// What was thought of the last one.
    verdict: Option<Verdict>,
    /// Up to which marker the vanished were asked about, when they were too many for one turn.
    asked_up_to: Option<Marker>,
}

/// What a list shows, for its judge.
pub(super) fn shown_by(listed: &[Listed]) -> Shown {
    listed.iter().map(|item| (item.id.clone(), item.client_id.clone())).collect()
}

impl Tasks {
    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about up to `most` of those that a listing which began at `began` leaves out, and judges it.
    pub(super) async fn judge(
        &self,
        shown: Shown,
        began: UnixMillis,
        most: usize,
    ) -> Result<Verdict, LedgerError> {
        let vanished = self.vanished(&shown, began).await?;
        let missing = self.ask_some(vanished, most).await?;
        let mut listings = self.listings();
        let verdict = listing::verdict(&listings.trusted, &shown, &missing);
        if verdict.is_trusted() {
            listings.trusted = shown;
        }
        if listings.verdict.replace(verdict) != Some(verdict) && !verdict.is_trusted() {
            tracing::warn!(?verdict, "Cube's list cannot be trusted: what it leaves out proves nothing");
        }
        Ok(verdict)
    }

    /// Live entries that were known before the listing began and that it does not show, in the order of their turn.
    async fn vanished(
        &self,
        shown: &Shown,
        began: UnixMillis,
    ) -> Result<Vec<(SandboxId, Entry)>, LedgerError> {
        // What another Cube has is not in this one's list, and this one's answers prove nothing about it.
        let (live, corrupt) = self.ledger.charged_here().await?;
        self.report(&corrupt);
        let known = |entry: &Entry| entry.usable() && entry.first_seen.is_some_and(|seen| seen < began);
        let named = live.into_iter().filter(known).filter_map(|entry| Some((entry.sandbox.clone()?, entry)));
        let mut vanished: Vec<_> = named.filter(|(sandbox, _)| !shown.shows(sandbox)).collect();
        let last = self.listings().asked_up_to.clone();
        vanished
            .sort_by_cached_key(|(_, entry)| (Some(&entry.marker) <= last.as_ref(), entry.marker.clone()));
        Ok(vanished)
    }

    async fn ask_some(
        &self,
        mut vanished: Vec<(SandboxId, Entry)>,
        most: usize,
    ) -> Result<Vec<Missing>, LedgerError> {
        // The next turn begins where this one ends; once all had theirs, anew.
        let last = vanished.get(..most).and_then(<[_]>::last).map(|(_, entry)| entry.marker.clone());
        self.listings().asked_up_to = last;
        let rest = vanished.split_off(most.min(vanished.len()));
        let asks = vanished
            .into_iter()
            .map(|(sandbox, entry)| async move { (sandbox, self.deeds.ask(&entry).await) });
        let answers: Vec<_> = stream::iter(asks).buffered(AT_ONCE).collect().await;
        let mut missing = Vec::new();
        for (sandbox, answer) in answers {
            let answer = answer?;
            if answer == Answer::Gone {
                self.metrics.reconciled(Reconciled::Ended);
            }
            missing.push(Missing { sandbox, answer: Some(answer) });
        }
        missing.extend(rest.into_iter().map(|(sandbox, _)| Missing { sandbox, answer: None }));
        Ok(missing)
    }
}
