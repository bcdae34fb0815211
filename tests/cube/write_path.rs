//! How fast writes are on a Cube with many residents: pure, residents and writes in flight in, a length out.
//!
//! ```text
//!   alone  = base + per_resident * (residents beyond `ample`)
//!   takes  = alone * (1 + per_write * others in flight)
//!
//!   takes < 30 s               done and answered
//!   30 s <= takes < gives_up   the client is told 408; done late, and nobody is told: a create leaves an orphan
//!   gives_up <= takes          the client is told 408; given up after `gives_up`, never done
//! ```
//!
//! What makes such a Cube stick: a write holds the path until it is done or given up, not until its client stops waiting. Clients
//! that come again sooner than that keep it full, though none is ever served.
//! Must stay true: more residents or more writes never make a write faster. Reads do not pass here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The parameters of a write path whose capacity falls with what is on the node and on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WritePath {
    /// How long a write takes that is alone on a node with few residents.
    pub(crate) base_ms: u64,
    /// So many residents slow nobody down.
    pub(crate) ample: u64,
    /// What each resident beyond these adds.
    pub(crate) per_resident_ms: u64,
    /// What each other write in flight adds, in thousandths of what one takes that is alone.
    pub(crate) per_write_permille: u64,
    /// Where it collapses: what would take at least so long is given up after this time.
    pub(crate) gives_up_ms: u64,
}

/// How one write fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// For how long it holds the path.
    pub(crate) takes: Duration,
    /// Whether it is done at the end of that.
    pub(crate) done: bool,
}

impl Passage {
    /// Through at once.
    pub(crate) const FREE: Self = Self { takes: Duration::ZERO, done: true };
}

impl WritePath {
    /// The node of 18 June 2026: 704 residents and 86 writes are as much as it can just answer in 30 s.
    pub(crate) const JUNE_18: Self =
        Self { base_ms: 150, ample: 400, per_resident_ms: 18, per_write_permille: 50, gives_up_ms: 60_000 };

    /// How a write fares that begins beside `others`.
    pub(crate) fn passage(&self, residents: usize, others: usize) -> Passage {
        let beyond = (residents as u64).saturating_sub(self.ample);
        let alone = self.base_ms.saturating_add(self.per_resident_ms.saturating_mul(beyond));
        let slower = self.per_write_permille.saturating_mul(others as u64).saturating_add(1000);
        let takes = alone.saturating_mul(slower) / 1000;
        Passage { takes: Duration::from_millis(takes.min(self.gives_up_ms)), done: takes < self.gives_up_ms }
    }
}
