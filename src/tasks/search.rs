//! Creates whose answer was lost are looked for by their marker in Cube's list.
//!
//! Must stay true: only a listing that began after dispatch and that is trusted counts as a miss.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Tasks, survey, vanished};
use crate::cube::api::{Labels, Listed};
use crate::ids::Marker;
use crate::ledger::LedgerError;
use crate::rules::collector::outage::Outages;
use crate::rules::entry::{Birth, Entry, State};
use crate::telemetry::Reconciled;
use crate::time::UnixMillis;

/// How many of the vanished are asked about by GET before a listing is believed.
const SAMPLE: usize = 8;

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
            self.take_all_in(entry, &by_marker[&entry.marker], began).await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let shown = vanished::shown_by(&listed);
        let vanished = survey::vanished(&self.subjects(&Outages::default(), began).await?, &shown, began);
        let (trust, ..) = self.judge(shown, vanished, SAMPLE).await?;
        let (counts, early): (Vec<Entry>, Vec<Entry>) = missing.into_iter().partition(|entry| {
            trust.is_trusted() && entry.dispatched.is_none_or(|dispatched| dispatched <= began)
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

    /// The items that carry our markers; one create may have made two, and metadata can be copied.
    fn by_marker<'a>(&self, listed: &'a [Listed]) -> HashMap<Marker, Vec<&'a Listed>> {
        let rules = self.rules.load();
        let mut ours: HashMap<Marker, Vec<&Listed>> = HashMap::new();
        for item in listed {
            let labels = Labels::read_under_any(&item.metadata, &rules.labels);
            if let Some(labels) = labels.filter(|labels| labels.ledger == self.ledger.id()) {
                ours.entry(labels.marker).or_default().push(item);
            }
        }
        ours
    }

    /// The first that carries the marker is the create's; any other gets a record of its own.
    async fn take_all_in(
        &self,
        entry: &Entry,
        items: &[&Listed],
        began: UnixMillis,
    ) -> Result<(), LedgerError> {
        for item in items {
            self.take_in(entry, item, began).await?;
        }
        Ok(())
    }

    /// A lost create was found: it waits for a retry that can claim it, or is condemned.
    pub(super) async fn take_in(
        &self,
        entry: &Entry,
        item: &Listed,
        began: UnixMillis,
    ) -> Result<(), LedgerError> {
        let birth = Birth { sandbox: item.id.clone(), answer: None, deadline: item.end_at };
        let Some(after) = self.ledger.found(&entry.marker, &birth).await? else { return Ok(()) };
        match &after.sandbox {
            Some(other) if *other != item.id => return self.take_copy_in(item, began).await,
            // It is dead, without a sandbox: the inventory looks closely.
            None => return Ok(()),
            Some(_) => {}
        }
        self.metrics.reconciled(Reconciled::Found);
        tracing::info!(marker = %entry.marker, sandbox_id = %item.id, "a create whose answer was lost was found");
        if matches!(after.state, State::Killing(_)) {
            self.deeds.start_kill(&entry.marker);
        }
        Ok(())
    }
}
