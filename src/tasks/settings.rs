//! The times and caps of the background tasks: collector, reconciler, deletes, decision log.
//!
//! Plain values; `config` reads and checks them.

use std::fmt;
use std::time::Duration;

use http::Uri;

pub use crate::rules::collector::report::Prices;

/// Everything that the tasks go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The collector's times and caps.
    pub collector: Collector,
    /// The reconciler's times.
    pub reconciler: Reconciler,
    /// How deletes are retried.
    pub deletes: Deletes,
    /// How much of the decision log is kept.
    pub decisions: Decisions,
}

/// Who is told of what happens.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Where events are posted.
    pub url: Uri,
    /// The key of their signature, if they are signed.
    pub secret: Option<String>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The collector's times and caps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// From one listing to the next.
    pub cycle: Duration,
    /// How often a holder shows a sign of life.
    pub heartbeat: Duration,
    /// How long a sign of life keeps.
    pub root_fresh: Duration,
    /// How long a sandbox is newborn, from when the warden first saw it.
    pub newborn_grace: Duration,
    /// Trusted cycles without a root before anything is condemned.
    pub confirmations: u32,
    /// How long after its end something may be overdue.
    pub overdue_grace: Duration,
    /// Suspect listings that may be skipped in a row.
    pub listing_skip_cap: u32,
    /// A listing is suspect when more than this many vanished at once, and more than the share below.
    pub listing_drop_floor: u32,
    /// A listing is suspect when more than this share vanished at once, and more than the floor above.
    pub listing_drop_percent: u32,
    /// Kills in one cycle, at most.
    pub max_kills_per_cycle: u32,
    /// Of these, in one bucket.
    pub max_kills_per_bucket: u32,
    /// What an hour costs.
    pub prices: Prices,
    /// Who is told of what happens.
    pub webhook: Option<Webhook>,
}

/// The reconciler's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciler {
    /// How often an ambiguous create is searched for.
    pub search: Duration,
    /// After this time three listings without it prove that it never came to be.
    pub ambiguous_horizon: Duration,
    /// How long a create that was found is kept for a retry that can claim it.
    pub claim: Duration,
    /// How long after its deadline an entry is asked for.
    pub deadline_grace: Duration,
}

/// How deletes are retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletes {
    /// How long a client waits for its delete before it is told that it goes on.
    pub client_wait: Duration,
    /// Time before the second attempt; doubles with each further one.
    pub retry: Duration,
    /// Time between attempts, at most.
    pub retry_max: Duration,
    /// Failed attempts before quarantine.
    pub quarantine_after: u32,
    /// Time between attempts in quarantine.
    pub quarantine_retry: Duration,
    /// Paused sandboxes woken at once in order to delete them, at most.
    pub max_wakes: usize,
}

/// How much of the decision log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// How long it is kept what callers asked for, and were given or refused.
    pub age: Duration,
    /// The most of these.
    pub count: u64,
    /// How long it is kept what ended, and why.
    pub ends_age: Duration,
    /// The most of these.
    pub ends_count: u64,
}
