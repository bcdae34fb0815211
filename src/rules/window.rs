//! Counting what happened lately: sums over a sliding window, in steps of an eighth of it.
//!
//! Must stay true: a clock that steps back forgets nothing early and lets nothing count twice.

use std::time::Duration;

use crate::time::{UnixMillis, millis};

/// How finely a window slides.
const STEPS: usize = 8;

/// Sums of `N` kinds over the last `length`, which is kept in eighths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window<const N: usize> {
    step_ms: u64,
    /// The number of the newest step since the beginning of time.
    newest: u64,
    /// Where the newest step stands in `sums`.
    head: usize,
    sums: [[u32; N]; STEPS],
}

impl<const N: usize> Window<N> {
    /// An empty window of this length.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        let step_ms = (millis(length) / 8).max(1);
        Self { step_ms, newest: 0, head: 0, sums: [[0; N]; STEPS] }
    }

    /// One more of this kind.
    pub fn count(&mut self, kind: usize, now: UnixMillis) {
        self.slide(now);
        let sum = &mut self.sums[self.head][kind];
        *sum = sum.saturating_add(1);
    }

    /// How many of each kind the window holds.
    pub fn sums(&mut self, now: UnixMillis) -> [u32; N] {
        self.slide(now);
        std::array::from_fn(|kind| self.sums.iter().fold(0_u32, |sum, step| sum.saturating_add(step[kind])))
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.sums = [[0; N]; STEPS];
    }

    fn slide(&mut self, now: UnixMillis) {
        let step = now.0 / self.step_ms;
        for _ in 0..step.saturating_sub(self.newest).min(8) {
            self.head = (self.head + 1) % STEPS;
            self.sums[self.head] = [0; N];
        }
        // After a step back time goes on from there; what was counted grows old from now on.
        self.newest = step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> UnixMillis {
        UnixMillis(1_800_000_000_000 + ms)
    }

    #[test]
    fn what_happened_is_remembered_for_the_window_and_at_most_an_eighth_longer_or_shorter() {
        let mut window = Window::<2>::new(Duration::from_millis(800));
        window.count(0, at(0));
        window.count(1, at(150));
        assert_eq!(window.sums(at(699)), [1, 1]);
        assert_eq!(window.sums(at(800)), [0, 1]);
        assert_eq!(window.sums(at(900)), [0, 0]);
        window.count(0, at(1_000_000));
        assert_eq!(window.sums(at(1_000_000)), [1, 0]);
        window.clear();
        assert_eq!(window.sums(at(1_000_000)), [0, 0]);
    }

    #[test]
    fn a_clock_that_steps_back_neither_forgets_early_nor_keeps_for_ever() {
        let mut window = Window::<1>::new(Duration::from_millis(800));
        window.count(0, at(5_000));
        assert_eq!(window.sums(at(0)), [1]);
        assert_eq!(window.sums(at(700)), [1]);
        assert_eq!(window.sums(at(900)), [0]);
    }
}
