//! Creates that wait for a slot: first come, first served, per bucket and warden.
//!
//! Must stay true: only the ledger hands out slots; here is nothing to lose. The first in line tries, the others wait for
//! its turn to end. A caller who leaves drops its place, and whoever is first then tries at once: a slot that came free at
//! the very moment the caller left is still in the ledger, not in the leaver's hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as FairMutex, MutexGuard};

use crate::ids::Bucket;

/// The lines of all buckets.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: Mutex<HashMap<Bucket, Arc<Line>>>,
}

/// The line of one bucket.
#[derive(Debug, Default)]
pub(super) struct Line {
    turn: FairMutex<()>,
    length: AtomicUsize,
}

/// A place in a line; dropping it leaves the line.
#[derive(Debug)]
pub(super) struct Place {
    line: Arc<Line>,
}

impl Waiting {
    /// The line of a bucket.
    pub(super) fn line(&self, bucket: &Bucket) -> Arc<Line> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        // Lines that nobody stands in and nobody holds are forgotten, so that clients cannot grow the map with names.
        lines.retain(|_, line| Arc::strong_count(line) > 1);
        lines.entry(bucket.clone()).or_default().clone()
    }

    /// How many wait in the line of a bucket.
    pub(super) fn length(&self, bucket: &Bucket) -> usize {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(bucket).map_or(0, |line| line.length.load(Ordering::Acquire))
    }
}

impl Line {
    /// Joins the line; `None` if `most` callers wait in it already. Counted per bucket: one tenant's crowd takes no place
    /// from another's.
    pub(super) fn join(self: &Arc<Self>, most: usize) -> Option<Place> {
        let joined = self.length.fetch_update(Ordering::AcqRel, Ordering::Acquire, |waiting| {
            (waiting < most).then_some(waiting + 1)
        });
        joined.ok().map(|_| Place { line: Arc::clone(self) })
    }

    /// Whether nobody stands in it.
    pub(super) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }
}

impl Place {
    /// Ready when this place is first in line; the turn ends when the guard is dropped.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.line.turn.lock().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.line.length.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[tokio::test]
    async fn a_place_is_left_by_dropping_it_even_at_the_moment_of_its_turn() {
        let waiting = Waiting::default();
        let line = waiting.line(&Bucket::parse("a/b").unwrap());
        for _ in 0..10_000 {
            let (first, second) = (line.join(2).unwrap(), line.join(2).unwrap());
            assert!(line.join(2).is_none());
            let turn = first.turn().await;
            let mut next = Box::pin(second.turn());
            // The second is in the queue when the first ends, and leaves at that very moment.
            assert!(futures_util::poll!(next.as_mut()).is_pending());
            drop(turn);
            drop(next);
            drop(first);
            let third = line.join(2).unwrap();
            drop(third.turn().await);
        }
        assert!(line.is_empty());
    }

    #[test]
    fn lines_that_nobody_stands_in_are_forgotten() {
        let waiting = Waiting::default();
        for n in 0..1000 {
            waiting.line(&Bucket::parse(&format!("a/b{n}")).unwrap());
        }
        assert!(waiting.lines.lock().unwrap().len() <= 1);
    }
}
