//! How long creates take, against how long they usually take: what leaks on a node makes them slower long before they fail.
//!
//! Two running means in whole microseconds: one over about eight creates, one over about two hundred and fifty-six. Must stay true:
//! too few creates, or short ones, are no evidence; the slow mean does not learn from what is reported as too slow, else a
//! leak would become the usual.

use std::time::Duration;

/// Fewer creates than this are not judged.
const ENOUGH: u32 = 16;
/// Creates are slow if they take so many times the usual ...
const TIMES: u64 = 4;
/// ... and at least this long.
const NOTICEABLE_US: u64 = 500_000;
/// They are no longer slow below this many times the usual.
const TIMES_AGAIN: u64 = 2;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// They have become slow.
    Slow,
    /// They are as usual again.
    Usual,
}

/// The times of one bucket's creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Latency {
    seen: u32,
    lately_us: u64,
    usually_us: u64,
    slow: bool,
}

impl Latency {
    /// One more create took this long.
    pub fn took(&mut self, took: Duration) -> Option<Change> {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(1 << 40);
        self.seen = self.seen.saturating_add(1);
        // The first ones are weighed evenly; a mean that began at the first would stay near it.
        self.lately_us = mean(self.lately_us, took_us, self.seen.min(8));
        if !self.slow {
            self.usually_us = mean(self.usually_us, took_us, self.seen.min(256));
        }
        self.judge()
    }

    fn judge(&mut self) -> Option<Change> {
        let slow = self.seen >= ENOUGH
            && self.lately_us >= NOTICEABLE_US
            && self.lately_us >= self.usually_us.saturating_mul(TIMES);
        let usual = self.lately_us < self.usually_us.saturating_mul(TIMES_AGAIN).max(NOTICEABLE_US);
        match self.slow {
            false if slow => {
                self.slow = true;
                Some(Change::Slow)
            }
            true if usual => {
                self.slow = false;
                Some(Change::Usual)
            }
            _ => None,
        }
    }

    /// What they took lately.
    #[must_use]
    pub fn lately(&self) -> Duration {
        Duration::from_micros(self.lately_us)
    }

    /// What they usually take.
    #[must_use]
    pub fn usually(&self) -> Duration {
        Duration::from_micros(self.usually_us)
    }

    /// Whether they are slow.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.slow
    }
}

fn mean(mean: u64, next: u64, weight: u32) -> u64 {
    let weight = u64::from(weight.max(1));
    (mean * (weight - 1) + next) / weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// CB15: 180 ms with no orphan, about 2.5 s with three, over 5 s with six.
    #[test]
    fn cb15_creates_that_take_thirteen_times_as_long_are_told_once_and_so_is_their_recovery() {
        let mut latency = Latency::default();
        assert!((0..500).all(|_| latency.took(ms(180)).is_none()));
        let told: Vec<_> = (0..500).filter_map(|_| latency.took(ms(2_500))).collect();
        assert_eq!(told, [Change::Slow]);
        assert!(latency.is_slow() && latency.lately() > ms(2_000));
        assert!(latency.usually() < ms(300), "a leak must not become the usual: {latency:?}");
        let told: Vec<_> = (0..100).filter_map(|_| latency.took(ms(180))).collect();
        assert_eq!(told, [Change::Usual]);
    }

    #[test]
    fn short_ones_few_ones_and_single_outliers_are_no_evidence() {
        let mut latency = Latency::default();
        assert!((0..200).all(|at| latency.took(ms(if at < 100 { 2 } else { 60 })).is_none()));
        let mut latency = Latency::default();
        assert!((0..15).all(|at| latency.took(ms(if at < 3 { 20 } else { 9_000 })).is_none()));
        let mut latency = Latency::default();
        assert!((1..500).all(|at| latency.took(ms(if at % 50 == 0 { 2_000 } else { 180 })).is_none()));
    }
}
