//! `/metrics`: counters of this process, gauges of the ledger as it stands.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{Admin, answers, breaker, buckets};
use crate::ledger::{BucketCounts, LedgerError, Standing};
use crate::telemetry::{BucketGauges, EntryState, LedgerGauges};

impl Admin {
    /// Answers even if the ledger does not: `cubewarden_ledger_up` is 0 then.
    pub(super) async fn scrape(&self) -> Response<Bytes> {
        let gauges = self.gauges().await.ok();
        self.metrics.ledger_lost(self.ledger.standing() != Standing::Sound);
        self.metrics.set_writes(&breaker::gauges(&self.outlook.write_path()));
        let text = self.metrics.render(gauges.as_ref());
        answers::text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
    }

    async fn gauges(&self) -> Result<LedgerGauges, LedgerError> {
        // Read for its error alone: counts are kept in memory and would go on with the last that was known.
        self.ledger.now().await?;
        let seen = self.see_buckets().await?;
        let mut all: Vec<BucketGauges> = seen
            .named
            .iter()
            .map(|named| gauges(&named.bucket.to_string(), named.limit, &named.counts))
            .collect();
        all.push(gauges(buckets::OTHER, None, &seen.other));
        Ok(LedgerGauges { buckets: all, foreign: self.outlook.health().foreign })
    }
}

fn gauges(label: &str, limit: Option<u32>, counts: &BucketCounts) -> BucketGauges {
    // Both are the six charged states in one order; a test holds them to it.
    let entries = EntryState::ALL.iter().copied().zip(counts.by_state).collect();
    BucketGauges { label: label.to_owned(), limit, entries, paused: counts.paused }
}

#[cfg(test)]
mod tests {
    use crate::ledger::CHARGED;
    use crate::telemetry::EntryState;

    #[test]
    fn the_ledger_and_the_metrics_count_the_same_states_in_the_same_order() {
        let names: Vec<_> = EntryState::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(names, CHARGED);
    }
}
