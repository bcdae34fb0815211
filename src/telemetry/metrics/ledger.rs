//! The ledger's share of the metrics: what it knows at a scrape, and whether it is whole.

use std::sync::PoisonError;

use super::{Metrics, signed};
use crate::telemetry::labels::{EntryState, Rebuilt};

/// What the ledger knew at a scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerGauges {
    /// By label; buckets of one label are added up, and one that is missing has nothing, not even a limit.
    pub buckets: Vec<BucketGauges>,
    /// Sandboxes that are another ledger's or nobody's.
    pub foreign: u64,
}

/// What the ledger knew of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketGauges {
    /// The bucket's label.
    pub label: String,
    /// Its limit; `None` for none.
    pub limit: Option<u32>,
    /// Entries by state; a state that is missing has none.
    pub entries: Vec<(EntryState, u64)>,
    /// Live entries that are paused.
    pub paused: u64,
}

impl Metrics {
    /// A bucket that the ledger does not mention any more has nothing.
    pub(super) fn set(&self, gauges: &LedgerGauges) {
        let labels = self.buckets.read().unwrap_or_else(PoisonError::into_inner).clone();
        for label in &labels {
            let of_label = || gauges.buckets.iter().filter(|bucket| self.closed(&bucket.label) == label);
            let limits: Option<u64> = of_label().map(|bucket| bucket.limit.map(u64::from)).sum();
            let limit = limits.filter(|_| of_label().next().is_some());
            self.bucket_limit.with_label_values(&[label]).set(limit.map_or(-1, signed));
            self.paused.with_label_values(&[label]).set(signed(of_label().map(|bucket| bucket.paused).sum()));
            for state in EntryState::ALL {
                let entries = of_label().flat_map(|bucket| &bucket.entries);
                let of_state = entries.filter(|entry| entry.0 == *state).map(|entry| entry.1).sum();
                self.entries.with_label_values(&[label.as_str(), state.name()]).set(signed(of_state));
            }
        }
        self.foreign_sandboxes.set(signed(gauges.foreign));
    }

    /// Whether the ledger is not whole.
    pub fn ledger_lost(&self, lost: bool) {
        self.ledger_lost.set(i64::from(lost));
    }

    /// Whether wardens run with different limits; true if that has changed.
    #[must_use]
    pub fn limits_disagree(&self, disagree: bool) -> bool {
        let changed = self.limits_disagree.get() != i64::from(disagree);
        self.limits_disagree.set(i64::from(disagree));
        changed
    }

    /// A lost ledger is whole again.
    pub fn rebuilt(&self) {
        self.ledger_rebuilds_total.inc();
    }

    /// So many slots are held beyond limits after a rebuild.
    pub fn rebuilt_over_limit(&self, slots: u64) {
        self.ledger_rebuilt_over_limit.set(signed(slots));
    }

    /// So many entries were brought back.
    pub fn gave(&self, source: Rebuilt, entries: usize) {
        let counter = self.ledger_rebuilt_entries_total.with_label_values(&[source.name()]);
        counter.inc_by(u64::try_from(entries).unwrap_or(u64::MAX));
    }
}
