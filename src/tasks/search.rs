//! Creates whose answer was lost are looked for by their marker in Cube's list.
//!
//! Must stay true: only a listing that began after dispatch and that does not lie counts as a miss; a listing lies if it
//! leaves out something that a single GET finds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Tasks;
use crate::cube::api::{Labels, Listed};
use crate::deeds::Answer;
use crate::ids::{Marker, SandboxId};
use crate::ledger::LedgerError;
use crate::rules::entry::{Birth, Entry, State};
use crate::telemetry::Reconciled;

/// How many of the vanished are asked about by GET before a listing is believed.
const SAMPLE: usize = 8;

/// Whether a listing may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing speaks against it.
    Trusted,
    /// It left out something that exists.
    Lies,
}

impl Tasks {
    /// Looks for each of the lost.
    pub(super) async fn search(self: &Arc<Self>, lost: Vec<Entry>) -> Result<(), LedgerError> {
        let began = self.ledger.now().await?;
        let listed = match self.cube.list(&self.cube.own_credential()).await {
            Ok(listed) => listed,
            Err(error) => {
                self.note_listing(Some(&error));
                tracing::debug!(%error, "the lost could not be looked for");
                return self.put_off(&lost).await;
            }
        };
        self.note_listing(None);
        let by_marker = self.by_marker(&listed);
        let (found, missing): (Vec<Entry>, Vec<Entry>) =
            lost.into_iter().partition(|entry| by_marker.contains_key(&entry.marker));
        for entry in &found {
            self.take_in(entry, by_marker[&entry.marker]).await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let trust = self.judge(&listed).await?;
        let (counts, early): (Vec<Entry>, Vec<Entry>) = missing.into_iter().partition(|entry| {
            trust == Trust::Trusted && entry.dispatched.is_none_or(|dispatched| dispatched <= began)
        });
        for entry in &counts {
            self.ledger.missed(&entry.marker).await?;
            if self.ledger.entry(&entry.marker).await?.is_some_and(|entry| !entry.charged()) {
                self.metrics.reconciled(Reconciled::NeverCame);
            }
        }
        self.put_off(&early).await
    }

    async fn put_off(&self, entries: &[Entry]) -> Result<(), LedgerError> {
        for entry in entries {
            self.ledger.search_failed(&entry.marker).await?;
        }
        Ok(())
    }

    /// The items that carry our marker.
    pub(super) fn by_marker<'a>(&self, listed: &'a [Listed]) -> HashMap<Marker, &'a Listed> {
        let rules = self.rules.load();
        let ours = listed.iter().filter_map(|item| {
            let labels = Labels::read(&item.metadata, &rules.labels)?;
            (labels.ledger == *self.ledger.id()).then_some((labels.marker, item))
        });
        ours.collect()
    }

    /// A lost create was found: it waits for a retry that can claim it, or is condemned.
    pub(super) async fn take_in(&self, entry: &Entry, item: &Listed) -> Result<(), LedgerError> {
        let birth = Birth { sandbox: item.id.clone(), answer: None, deadline: item.end_at };
        let after = self.ledger.found(&entry.marker, &birth).await?;
        self.metrics.reconciled(Reconciled::Found);
        tracing::info!(marker = %entry.marker, sandbox_id = %item.id, "a create whose answer was lost was found");
        if after.is_some_and(|after| matches!(after.state, State::Killing(_))) {
            self.deeds.start_kill(&entry.marker);
        }
        Ok(())
    }

    /// Does the listing leave out what a single GET finds?
    pub(super) async fn judge(&self, listed: &[Listed]) -> Result<Trust, LedgerError> {
        let shown: HashSet<&SandboxId> = listed.iter().map(|item| &item.id).collect();
        let (live, corrupt) = self.ledger.charged_here().await?;
        self.report(&corrupt);
        let vanished = live.iter().filter(|entry| {
            let absent = entry.sandbox.as_ref().is_some_and(|id| !shown.contains(id));
            absent && matches!(entry.state, State::Live(_))
        });
        for entry in vanished.take(SAMPLE) {
            if self.deeds.ask(entry).await? == Answer::Here {
                tracing::warn!(marker = %entry.marker, "Cube's list leaves out a sandbox that exists: it proves nothing");
                return Ok(Trust::Lies);
            }
        }
        Ok(Trust::Trusted)
    }
}
