//! What lives by the ledger and is not in Cube's list: asked about one by one; the list is judged by the answers.
//!
//! Must stay true: however many vanish, each is asked about in its turn, a bounded number at once.

use std::sync::{MutexGuard, PoisonError};

use futures_util::{StreamExt as _, stream};

use super::{Tasks, survey};
use crate::cube::api::Listed;
use crate::ids::{Marker, SandboxId};
use crate::ledger::LedgerError;
use crate::rules::collector::mark;
use crate::rules::listing::{self, Answer, Drop, Missing, Shown, Verdict};
use crate::telemetry::Reconciled;

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

    /// Asks about up to `most` of those that a listing leaves out, and judges it. With the verdict comes what
    /// the GETs showed, and how many are not proven gone.
    pub(super) async fn judge(
        &self,
        shown: Shown,
        mut vanished: Vec<(SandboxId, Marker)>,
        most: usize,
    ) -> Result<(Verdict, Vec<(SandboxId, mark::Shown)>, u64), LedgerError> {
        let last = self.listings().asked_up_to.clone();
        vanished.sort_by_cached_key(|(_, marker)| (Some(marker) <= last.as_ref(), marker.clone()));
        let (missing, seen) = self.ask_some(vanished, most).await?;
        let drop = self.drop_allowed();
        let mut listings = self.listings();
        let verdict = listing::verdict(&listings.trusted, &shown, &missing, drop);
        if verdict.is_trusted() {
            listings.trusted = shown;
        }
        if listings.verdict.replace(verdict) != Some(verdict) && !verdict.is_trusted() {
            tracing::warn!(?verdict, "Cube's list cannot be trusted: what it leaves out proves nothing");
        }
        let unproven = missing.iter().filter(|one| one.answer != Some(Answer::Gone)).count();
        Ok((verdict, seen, u64::try_from(unproven).unwrap_or(u64::MAX)))
    }

    /// How many may vanish at once before each must be proven gone.
    fn drop_allowed(&self) -> Drop {
        let rules = self.rules.load();
        let collector = &rules.settings.collector;
        Drop {
            floor: usize::try_from(collector.listing_drop_floor).unwrap_or(usize::MAX),
            percent: usize::try_from(collector.listing_drop_percent).unwrap_or(usize::MAX),
        }
    }

    async fn ask_some(
        &self,
        mut vanished: Vec<(SandboxId, Marker)>,
        most: usize,
    ) -> Result<(Vec<Missing>, Vec<(SandboxId, mark::Shown)>), LedgerError> {
        // The next turn begins where this one ends; once all had theirs, anew.
        let last = vanished.get(..most).and_then(<[_]>::last).map(|(_, marker)| marker.clone());
        self.listings().asked_up_to = last;
        let rest = vanished.split_off(most.min(vanished.len()));
        let markers: Vec<Marker> = vanished.into_iter().map(|(_, marker)| marker).collect();
        let (entries, corrupt) = self.ledger.entries(&markers).await?;
        self.report(&corrupt);
        let asks = entries.into_iter().filter_map(|entry| Some((entry.sandbox.clone()?, entry)));
        let asks =
            asks.map(|(sandbox, entry)| async move { (sandbox, self.deeds.ask_closely(&entry).await) });
        let answers: Vec<_> = stream::iter(asks).buffered(AT_ONCE).collect().await;
        let (mut missing, mut seen) = (Vec::new(), Vec::new());
        for (sandbox, answer) in answers {
            let (answer, detail) = answer?;
            if answer == Answer::Gone {
                self.metrics.reconciled(Reconciled::Ended);
            }
            seen.extend(detail.map(|detail| (sandbox.clone(), survey::shown(&detail.listed))));
            missing.push(Missing { sandbox, answer: Some(answer) });
        }
        missing.extend(rest.into_iter().map(|(sandbox, _)| Missing { sandbox, answer: None }));
        Ok((missing, seen))
    }
}
