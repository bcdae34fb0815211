//! What one sweep carries out: who, why, and what must still be true of it.
//!
//! Must stay true: the same subjects and the same seed give the same plan; it leaves no choice to whoever carries it out,
//! and carrying out an old one does no harm: each item has its generation and its mark, compared at the last moment.

use std::collections::HashMap;
use std::time::Duration;

use super::Terms;
use super::mark::Mark;
use super::policy::Reason;
use super::subject::Subject;
use crate::ids::{Bucket, Marker, SandboxId};
use crate::rules::colour::{Ceiling, Ceilings};
use crate::rules::delete::{Judged, Shown};
use crate::rules::entry::Shape;

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The entry.
    pub marker: Marker,
    /// Cube's id.
    pub sandbox: SandboxId,
    /// Where it is counted.
    pub bucket: Bucket,
    /// What it holds.
    pub shape: Shape,
    /// Why it ends.
    pub reason: Reason,
    /// For how long that has been so.
    pub lasted: Duration,
    /// How long it may be so.
    pub allowed: Duration,
    /// What was seen of it in each of the cycles that confirmed it.
    pub mark: Mark,
    /// The ceilings of its bucket.
    pub ceilings: Ceilings,
    /// Whether it has reached its longest life.
    pub outlived: bool,
}

impl Item {
    /// The end of `subject`.
    #[must_use]
    pub fn of(subject: &Subject, mark: Mark, reason: Reason, lasted: Duration, allowed: Duration) -> Self {
        Self {
            marker: subject.marker.clone(),
            sandbox: subject.sandbox.clone(),
            bucket: subject.bucket.clone(),
            shape: subject.shape,
            reason,
            lasted,
            allowed,
            mark,
            ceilings: subject.ceilings,
            outlived: subject.beyond == Some(Ceiling::Age),
        }
    }

    /// What the collector shows for its wish.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let judged =
            Judged { incarnation: self.mark.incarnation, marked: self.mark.since, ceilings: self.ceilings };
        Shown { generation: Some(self.mark.generation), lease: None, judged: Some(judged) }
    }

    /// Why, in words for records.
    #[must_use]
    pub fn why(&self) -> String {
        let (lasted, allowed) = (self.lasted.as_secs(), self.allowed.as_secs());
        format!("{}: for {lasted}s, allowed {allowed}s", self.reason.name())
    }
}

/// What one sweep carries out, and what waits for a later one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are taken up.
    pub items: Vec<Item>,
    /// What the caps leave for later cycles.
    pub later: usize,
}

/// Puts the ends of one cycle into a random order and cuts them at the caps.
#[must_use]
pub fn plan(mut ends: Vec<Item>, terms: &Terms, seed: u64) -> Plan {
    ends.sort_by_cached_key(|item| (lot(&item.marker, seed), item.marker.clone()));
    let (mut plan, mut by_bucket) = (Plan::default(), HashMap::<Bucket, usize>::new());
    for item in ends {
        let of_bucket = by_bucket.entry(item.bucket.clone()).or_default();
        if plan.items.len() < terms.most_kills && *of_bucket < terms.most_kills_per_bucket {
            *of_bucket += 1;
            plan.items.push(item);
        } else {
            plan.later += 1;
        }
    }
    plan
}

/// A number for each marker, another one with each seed (FNV-1a, and a finish that spreads it).
fn lot(marker: &Marker, seed: u64) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = marker.as_str().as_bytes().iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, fold);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests;
