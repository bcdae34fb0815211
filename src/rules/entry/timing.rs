//! The lengths of time that the entry's rules go by.

use std::time::Duration;

use crate::time::{UnixMillis, millis};

/// Lengths of time that the rules need, all from settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A reservation that was not dispatched lapses after this: nothing was sent.
    pub reserved: Duration,
    /// A dispatched create whose answer nobody settled is ambiguous after this (upstream budget and a margin).
    pub settle: Duration,
    /// Ambiguous creates are searched for this often.
    pub search: Duration,
    /// An ambiguous create may still appear for this long after dispatch.
    pub horizon: Duration,
    /// A found create waits this long for a retry that can prove it is the same.
    pub claim: Duration,
    /// So long after a sign of life a lease still keeps its sandbox.
    pub root_fresh: Duration,
    /// How long an unborn-looking sandbox is given before a 404 is believed.
    pub newborn: Duration,
    /// A passed deadline is asked about this much later.
    pub deadline_grace: Duration,
    /// How long ids and markers of the dead are remembered; longer than the longest upstream call.
    pub tombstone: Duration,
    /// A kill that failed is tried again after this, doubling up to `kill_retry_most`.
    pub kill_retry: Duration,
    /// The longest wait between two tries of a kill.
    pub kill_retry_most: Duration,
    /// So many failed tries, then quarantine.
    pub kill_tries: u32,
    /// A quarantined kill is tried again this often.
    pub quarantine_retry: Duration,
}

impl Timing {
    /// When an ambiguous create is searched for next: at the same times as all others, for each search takes a listing of everything
    /// that lives, and one listing speaks of them all.
    #[must_use]
    pub fn next_search(&self, now: UnixMillis) -> UnixMillis {
        let search = millis(self.search).max(1);
        UnixMillis(now.0 - now.0 % search).plus(Duration::from_millis(search))
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            reserved: Duration::from_secs(60),
            settle: Duration::from_secs(45),
            search: Duration::from_secs(5),
            horizon: Duration::from_secs(600),
            claim: Duration::from_secs(120),
            root_fresh: Duration::from_secs(120),
            newborn: Duration::from_secs(180),
            deadline_grace: Duration::from_secs(5),
            tombstone: Duration::from_secs(3600),
            kill_retry: Duration::from_secs(2),
            kill_retry_most: Duration::from_secs(60),
            kill_tries: 8,
            quarantine_retry: Duration::from_secs(300),
        }
    }
}
