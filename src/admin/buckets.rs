//! `/v1/admin/buckets`: limits, and what holds the slots.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::Bucket;
pub(super) use crate::ids::OTHER;
use crate::ledger::{BucketCounts, CHARGED, LedgerError};

/// One bucket of the configuration.
pub(super) struct Named {
    pub(super) bucket: Bucket,
    pub(super) limit: Option<u32>,
    pub(super) counts: BucketCounts,
}

/// Every slot that is held, by bucket.
pub(super) struct Seen {
    pub(super) named: Vec<Named>,
    /// In buckets that the configuration does not name.
    pub(super) other: BucketCounts,
    pub(super) all: BucketCounts,
}

impl Admin {
    /// All slots at one moment; named buckets and the others add up to all.
    pub(super) async fn see_buckets(&self) -> Result<Seen, LedgerError> {
        let policies = self.outlook.policies();
        let asked: Vec<Bucket> = policies.named().map(|(bucket, _)| bucket.clone()).collect();
        let counts = self.ledger.counts(&asked).await?;
        let other = counts.buckets.iter().fold(counts.all.clone(), |rest, named| less(&rest, named));
        let pairs = policies.named().zip(counts.buckets);
        let named = pairs.map(|((bucket, policy), counts)| {
            let (bucket, limit) = (bucket.clone(), policy.limit);
            Named { bucket, limit, counts }
        });
        Ok(Seen { named: named.collect(), other, all: counts.all })
    }

    pub(super) async fn buckets(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        Query::read(query, &[])?;
        self.ledger.now().await?;
        let seen = self.see_buckets().await?;
        let named = seen.named.iter().map(|named| {
            json!({
                "namespace": named.bucket.namespace.as_str(),
                "env": named.bucket.env.as_str(),
                "limit": named.limit,
                "entries": entries(&named.counts),
                "held": named.counts.held(),
                "paused": named.counts.paused,
                "waiting": self.outlook.waiting(&named.bucket),
            })
        });
        let whole = |counts: &BucketCounts| json!({ "entries": entries(counts), "held": counts.held(), "paused": counts.paused });
        let mut all = whole(&seen.all);
        all["limit"] = self.outlook.global_limit().into();
        let body = json!({
            "buckets": named.collect::<Vec<_>>(),
            // What lives in buckets that the configuration does not name.
            "other": whole(&seen.other),
            "all": all,
            "foreign": self.outlook.health().foreign,
        });
        Ok(answers::json(StatusCode::OK, &body))
    }
}

fn entries(counts: &BucketCounts) -> Value {
    let pairs = CHARGED.iter().zip(counts.by_state);
    Value::Object(pairs.map(|(name, count)| ((*name).to_owned(), count.into())).collect::<Map<_, _>>())
}

fn less(all: &BucketCounts, part: &BucketCounts) -> BucketCounts {
    BucketCounts {
        by_state: std::array::from_fn(|at| all.by_state[at].saturating_sub(part.by_state[at])),
        paused: all.paused.saturating_sub(part.paused),
    }
}
