//! What the collector counts and shows.

use std::time::Duration;

use super::{Metrics, begin, signed};
use crate::telemetry::labels::{
    AgeClass, CollectReason, Delivery, DriftKind, EventKind, ListVerdict, ZombieState,
};

/// What one cycle found, by bucket label; what is missing has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleGauges {
    /// Zombies by label, state and age.
    pub zombies: Vec<(String, ZombieState, AgeClass, u64)>,
    /// The oldest of each label, in seconds.
    pub oldest: Vec<(String, u64)>,
    /// Thousandths of processors and MiB that each label keeps.
    pub kept: Vec<(String, u64, u64)>,
    /// Where ledger and Cube differ.
    pub drift: Vec<(DriftKind, u64)>,
}

impl Metrics {
    pub(super) fn begin_cycle(&self) {
        begin(&self.collected_total, CollectReason::ALL.iter().map(|reason| [reason.name()]));
        begin(&self.events_total, EventKind::ALL.iter().map(|kind| [kind.name()]));
        begin(&self.webhook_deliveries_total, Delivery::ALL.iter().map(|result| [result.name()]));
        for verdict in ListVerdict::ALL {
            let _at_zero = self.listing_verdict.with_label_values(&[verdict.name()]);
        }
        for kind in DriftKind::ALL {
            let _at_zero = self.drift.with_label_values(&[kind.name()]);
        }
        let _at_zero = self.collector_cycle_seconds.with_label_values(&[] as &[&str]);
    }

    pub(super) fn begin_zombies(&self, label: &str) {
        for gauge in [&self.oldest_zombie_seconds, &self.kept_millicpu, &self.kept_memory_mebibytes] {
            let _at_zero = gauge.with_label_values(&[label]);
        }
        for state in ZombieState::ALL {
            for age in AgeClass::ALL {
                let _at_zero = self.zombies.with_label_values(&[label, state.name(), age.name()]);
            }
        }
    }

    /// A cycle found this; what it did not find is zero from now on.
    pub fn cycle_found(&self, found: &CycleGauges) {
        let gauges =
            [&self.zombies, &self.oldest_zombie_seconds, &self.kept_millicpu, &self.kept_memory_mebibytes];
        for gauge in gauges {
            gauge.reset();
        }
        let labels = self.buckets.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        for label in &labels {
            self.begin_zombies(label);
        }
        for (label, state, age, count) in &found.zombies {
            let labels = [self.closed(label), state.name(), age.name()];
            self.zombies.with_label_values(&labels).add(signed(*count));
        }
        for (label, oldest) in &found.oldest {
            let gauge = self.oldest_zombie_seconds.with_label_values(&[self.closed(label)]);
            gauge.set(gauge.get().max(signed(*oldest)));
        }
        for (label, cpu, memory) in &found.kept {
            let label = self.closed(label);
            self.kept_millicpu.with_label_values(&[label]).add(signed(*cpu));
            self.kept_memory_mebibytes.with_label_values(&[label]).add(signed(*memory));
        }
        for (kind, count) in &found.drift {
            self.drift.with_label_values(&[kind.name()]).set(signed(*count));
        }
    }

    /// The collector condemned one.
    pub fn collected(&self, reason: CollectReason) {
        self.collected_total.with_label_values(&[reason.name()]).inc();
    }

    /// What was thought of Cube's list.
    pub fn listing(&self, verdict: ListVerdict) {
        for one in ListVerdict::ALL {
            self.listing_verdict.with_label_values(&[one.name()]).set(i64::from(*one == verdict));
        }
    }

    /// A cycle took so long.
    pub fn cycle_took(&self, took: Duration) {
        self.collector_cycle_seconds.with_label_values(&[] as &[&str]).observe(took.as_secs_f64());
    }

    /// Whether this warden leads.
    pub fn leads(&self, leads: bool) {
        self.collector_leader.set(i64::from(leads));
    }

    /// An operator was told.
    pub fn told(&self, kind: EventKind) {
        self.events_total.with_label_values(&[kind.name()]).inc();
    }

    /// What became of an event for the webhook.
    pub fn delivered(&self, result: Delivery) {
        self.webhook_deliveries_total.with_label_values(&[result.name()]).inc();
    }
}
