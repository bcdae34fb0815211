//! Whether a bucket would take one more, explained.

use super::{Explanation, Piece, Source, Verdict};
use crate::ids::Bucket;
use crate::rules::admission;

/// How full a bucket is, and the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fullness {
    /// Slots that are held in the bucket.
    pub held: u64,
    /// Of these, by paused sandboxes.
    pub paused: u64,
    /// The bucket's limit.
    pub limit: Option<u64>,
    /// Slots that are held in all buckets.
    pub all: u64,
    /// The limit of all buckets together.
    pub global: Option<u64>,
}

/// Explains what would become of one more create in `bucket`.
#[must_use]
pub fn of_bucket(bucket: &Bucket, full: &Fullness) -> Explanation {
    let Fullness { held, paused, limit, all, global } = *full;
    let of = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |limit| format!("limit {limit}"));
    let evidence = vec![
        Piece::new("slots", format!("{held} held, {paused} of them paused"), Source::Ledger, None),
        Piece::new("limit", of(limit), Source::Policy, None),
        Piece::new("everywhere", format!("{all} held, {}", of(global)), Source::Policy, None),
    ];
    let (verdict, branch, flip) = if !admission::admits(held, limit) {
        let more = held.saturating_add(1);
        (
            Verdict::Refused,
            format!("one more create in bucket {bucket} would find no slot"),
            format!("limit {more} for bucket {bucket} would admit it"),
        )
    } else if !admission::admits(all, global) {
        let more = all.saturating_add(1);
        (
            Verdict::Refused,
            format!("one more create in bucket {bucket} would meet the limit of all buckets together"),
            format!("admission.global_limit = {more} would admit it"),
        )
    } else {
        (
            Verdict::Admitted,
            format!("one more create in bucket {bucket} would find a slot"),
            format!("limit {held} for bucket {bucket} would refuse it"),
        )
    };
    Explanation { verdict, branch, evidence, flip: Some(flip) }
}
