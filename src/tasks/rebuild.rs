//! A ledger that lost what it had confirmed is rebuilt before anything else is done (`ledger::rebuild`).
//!
//! Must stay true: nothing is ended here; what Cube lists is taken in before this warden says that it has given its part.

use std::sync::Arc;
use std::time::Duration;

use super::Tasks;
use super::inventory::adopted;
use crate::cube::api::Listed;
use crate::cube::client::ListFailed;
use crate::ledger::{Decision, LedgerError, Part};
use crate::rules::entry::Origin;
use crate::telemetry::Rebuilt;
use crate::time::UnixMillis;

impl Tasks {
    /// Carries the rebuild on, if the ledger was lost. True once it is sound.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or another warden has taken the rebuild further: it is called again.
    pub async fn tick_rebuild(self: &Arc<Self>) -> Result<bool, LedgerError> {
        match self.ledger.look_out().await {
            Ok(()) => return Ok(true),
            Err(LedgerError::Lost(_)) => {}
            Err(error) => return Err(error),
        }
        if self.ledger.begin_rebuild().await? == Part::Owed && !self.give_part().await? {
            return Ok(false);
        }
        let whole = self.ledger.finish_rebuild(self.judgement_pause()).await?;
        if whole {
            self.metrics.rebuilt();
            self.tick_beat().await?;
            self.report_excess().await?;
            self.ledger.wake();
        }
        Ok(whole)
    }

    /// What this warden remembers first, for it knows more than the list. False if the list cannot be had yet.
    async fn give_part(self: &Arc<Self>) -> Result<bool, LedgerError> {
        let from_memory = self.ledger.give_memory().await?;
        let listed = match self.cube.list(&self.cube.own_credential()).await {
            Ok(listed) => listed,
            Err(error @ ListFailed::KeyWanted) => {
                self.note_listing(Some(&error));
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(%error, "the ledger cannot be rebuilt before Cube lists what it has");
                return Ok(false);
            }
        };
        let mut from_list = 0;
        for item in &listed {
            from_list += usize::from(self.restore(item, self.clock.now()).await?);
        }
        let unproven = self.ledger.mark_unproven().await?;
        self.ledger.part_given().await?;
        self.metrics.gave(Rebuilt::Memory, from_memory);
        self.metrics.gave(Rebuilt::Listing, from_list);
        tracing::warn!(from_memory, from_list, unproven, "this warden has given the ledger what it knows");
        Ok(true)
    }

    async fn restore(&self, item: &Listed, now: UnixMillis) -> Result<bool, LedgerError> {
        let rules = self.rules.load_full();
        let whose = self.whose(&rules, item);
        let Some(mut import) = adopted(&rules, whose, item, Origin::Imported, now) else { return Ok(false) };
        if import.marker.is_some() {
            // It was asked for through a warden of this ledger: its labels say so.
            import.origin = Origin::Created;
        }
        self.ledger.restore(&import).await
    }

    /// More than the limits may be held now, and only now: that is said, and comes down as sandboxes end.
    async fn report_excess(&self) -> Result<(), LedgerError> {
        let excess = self.ledger.excess().await?;
        self.metrics.rebuilt_over_limit(excess.iter().map(|(_, held, limit)| held - limit).sum());
        for (bucket, held, limit) in excess {
            tracing::error!(%bucket, held, limit, "a bucket holds more than it may since the ledger was lost");
            let decision = Decision::new("over_limit", "the ledger was lost");
            let decision =
                decision.with("bucket", bucket.to_string()).with("held", held).with("limit", limit);
            self.ledger.note(decision);
        }
        Ok(())
    }

    /// How long nothing is judged after a rebuild: as long as it takes to confirm that something has no root.
    fn judgement_pause(&self) -> Duration {
        let collector = &self.rules.load().settings.collector;
        (collector.cycle * collector.confirmations).max(collector.newborn_grace)
    }
}
