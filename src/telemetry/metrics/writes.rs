//! The write path's share of the metrics.

use std::time::Duration;

use super::{Metrics, signed};
use crate::telemetry::labels::{BreakerMove, BreakerPath, WriteLane};

/// How the write path stood at a scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteGauges {
    /// The breaker of creates, then that of deletes: 0 closed, 1 half-open, 2 open.
    pub breakers: [i64; 2],
    /// Writes at once, at most.
    pub limit: u32,
    /// Writes on their way, by [`WriteLane`].
    pub in_flight: [u32; 4],
    /// Writes that wait, by [`WriteLane`].
    pub waiting: [u32; 4],
    /// Condemned sandboxes that stand, without the quarantined ones.
    pub backlog: u64,
    /// Deletes confirmed within the last minute.
    pub drained: u32,
    /// Whether creates are paid with deletes.
    pub recovering: bool,
}

impl Metrics {
    /// Lets the series of lanes and breakers exist, at zero.
    pub(super) fn begin_writes(&self) {
        self.set_writes(&WriteGauges::default());
        for path in BreakerPath::ALL {
            for change in BreakerMove::ALL {
                let _at_zero = self.breaker_changes_total.with_label_values(&[path.name(), change.name()]);
            }
        }
    }

    /// The write path as it stands.
    pub fn set_writes(&self, gauges: &WriteGauges) {
        for (path, state) in BreakerPath::ALL.iter().zip(gauges.breakers) {
            self.breaker_state.with_label_values(&[path.name()]).set(state);
        }
        for (at, lane) in WriteLane::ALL.iter().enumerate() {
            self.writes_in_flight.with_label_values(&[lane.name()]).set(i64::from(gauges.in_flight[at]));
            self.writes_waiting.with_label_values(&[lane.name()]).set(i64::from(gauges.waiting[at]));
        }
        self.write_limit.set(i64::from(gauges.limit));
        self.delete_backlog.set(signed(gauges.backlog));
        self.deletes_last_minute.set(i64::from(gauges.drained));
        self.recovering.set(i64::from(gauges.recovering));
    }

    /// A breaker moved.
    pub fn breaker_moved(&self, path: BreakerPath, how: BreakerMove) {
        self.breaker_changes_total.with_label_values(&[path.name(), how.name()]).inc();
    }

    /// How long the creates of a bucket took lately, and usually take.
    pub fn create_latency(&self, bucket: &str, lately: Duration, usually: Duration) {
        let ms = |length: Duration| i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let label = [self.closed(bucket)];
        self.create_latency_milliseconds.with_label_values(&label).set(ms(lately));
        self.create_latency_usual_milliseconds.with_label_values(&label).set(ms(usually));
    }
}
