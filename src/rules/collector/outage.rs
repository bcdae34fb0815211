//! Times in which nobody could show a sign of life, because warden, ledger or Cube were away.
//!
//! Must stay true: an outage never makes a judgement come sooner; where outages are forgotten in detail, more time is given
//! back than was lost, never less.

use std::time::Duration;

use crate::time::UnixMillis;

/// A gap between two cycles is an outage if it is longer than the cycle by more than this.
const SLACK: Duration = Duration::from_secs(60);
/// So many are remembered apart.
const MOST: usize = 16;

/// From when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The last moment at which all was known to be well.
    pub from: UnixMillis,
    /// The first one after.
    pub to: UnixMillis,
}

impl Outage {
    /// The gap between two cycles that took in Cube's list, if it was an outage.
    #[must_use]
    pub fn between(before: UnixMillis, now: UnixMillis, cycle: Duration) -> Option<Self> {
        (now.since(before) > cycle.saturating_add(SLACK)).then_some(Self { from: before, to: now })
    }

    fn length(self) -> Duration {
        self.to.since(self.from)
    }
}

/// The outages that still matter, oldest first, none within another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outages(Vec<Outage>);

impl Outages {
    /// As they were written down.
    #[must_use]
    pub fn of(outages: Vec<Outage>) -> Self {
        Self(outages)
    }

    /// Oldest first.
    #[must_use]
    pub fn as_slice(&self) -> &[Outage] {
        &self.0
    }

    /// One more, later than all before.
    #[must_use]
    pub fn with(mut self, outage: Outage) -> Self {
        self.0.push(outage);
        if self.0.len() > MOST {
            // The two oldest become one as long as both, at the end of the later: whoever was there before is given the
            // same, whoever came between them rather more.
            let (first, second) = (self.0.remove(0), self.0[0]);
            self.0[0].from = second.from.minus(first.length());
        }
        self
    }

    /// How much of the time since `start` they took.
    #[must_use]
    pub fn since(&self, start: UnixMillis) -> Duration {
        self.0.iter().map(|outage| outage.to.since(outage.from.max(start))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: u32) -> UnixMillis {
        UnixMillis(1_800_000_000_000).plus(second * SECOND)
    }

    fn outage(from: u32, to: u32) -> Outage {
        Outage { from: at(from), to: at(to) }
    }

    #[test]
    fn a_gap_is_an_outage_only_if_it_is_more_than_a_minute_longer_than_the_cycle() {
        let gap = |length: u32| Outage::between(at(0), at(length), 60 * SECOND);
        assert_eq!((gap(60), gap(120), gap(121)), (None, None, Some(outage(0, 121))));
        assert_eq!(Outage::between(at(500), at(0), 60 * SECOND), None, "a step back");
    }

    #[test]
    fn whoever_was_there_is_given_back_what_the_outage_took_of_its_time() {
        let outages = Outages::default().with(outage(100, 200)).with(outage(300, 350));
        for (start, given) in [(0, 150), (100, 150), (150, 100), (200, 50), (320, 30), (350, 0), (400, 0)] {
            assert_eq!(outages.since(at(start)), given * SECOND, "since {start}");
        }
    }

    #[test]
    fn many_outages_are_remembered_in_little_room_and_never_give_back_less() {
        let (mut outages, mut all) = (Outages::default(), Vec::new());
        for n in 0..100 {
            let one = outage(1000 * n + 500, 1000 * n + 500 + 9 * (n % 7 + 1));
            outages = outages.with(one);
            all.push(one);
            assert!(outages.as_slice().len() <= MOST);
            for start in (0..=1000 * n).step_by(250) {
                let lost: Duration = all.iter().map(|one| one.to.since(one.from.max(at(start)))).sum();
                assert!(outages.since(at(start)) >= lost, "{n} {start}");
            }
            let lost: Duration = all.iter().map(|one| one.length()).sum();
            assert_eq!(outages.since(at(0)), lost, "and to who was there all the time, exactly that");
        }
    }
}
