//! Which sandboxes nobody needs any more, and which of those may end: mark, judge by policy, plan.
//!
//! ```text
//! entry ──► Subject ──┐
//!  list ──► Shown ────┼─► mark ──► black · grey · white ──► policy ──► kill (plan) · keep (report)
//!  traffic, old mark ─┘
//! ```
//!
//! Must stay true: white alone ends nothing, the bucket's policy alone does; a white one was seen rootless in as many
//! trusted cycles as are wanted, each a cycle after the one before, with nothing changed in between; what an outage took
//! from everybody is given back to everybody. Deliberately absent: the last word, which `rules::delete` has at the commit.

pub mod mark;
pub mod memory;
pub mod outage;
pub mod plan;
pub mod policy;
pub mod report;
pub mod subject;
pub mod watch;

use std::time::Duration;

/// The times and caps that the collector goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// From one listing to the next.
    pub cycle: Duration,
    /// Trusted cycles without a root before the policy is asked.
    pub confirmations: u32,
    /// How long after its end something may be overdue; traffic that is older is no use any more.
    pub overdue_grace: Duration,
    /// How long a sign of traffic keeps.
    pub root_fresh: Duration,
    /// Suspect listings that may be skipped in a row.
    pub skip_cap: u32,
    /// Kills in one cycle, at most.
    pub most_kills: usize,
    /// Of these, in one bucket.
    pub most_kills_per_bucket: usize,
}
