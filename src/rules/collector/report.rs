//! What is kept though nothing keeps it: how much it holds, for how long, what that costs, and which retention would end it.
//!
//! Must stay true: whatever is white and stays is counted here, once. Money is in millionths, whatever the currency.

use std::collections::BTreeMap;
use std::time::Duration;

use super::plan::Item;
use super::policy::Keep;
use super::subject::{Phase, Subject};
use crate::ids::Bucket;
use crate::rules::entry::{Activity, Shape};
use crate::rules::listing::Verdict;
use crate::time::{UnixMillis, millis};

/// Retentions that an operator would think of, shortest first.
pub const RETENTIONS: [(&str, Duration); 5] = [
    ("1h", Duration::from_secs(3600)),
    ("8h", Duration::from_secs(8 * 3600)),
    ("24h", Duration::from_secs(24 * 3600)),
    ("7days", Duration::from_secs(7 * 24 * 3600)),
    ("30days", Duration::from_secs(30 * 24 * 3600)),
];

/// What an hour costs, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Of one virtual processor.
    pub vcpu_hour: Option<u64>,
    /// Of one GiB.
    pub gb_hour: Option<u64>,
}

/// What sandboxes hold, and have held since nothing keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub count: u64,
    /// Thousandths of processors.
    pub cpu_milli: u64,
    /// MiB.
    pub memory_mib: u64,
    /// Thousandths of processors, times seconds.
    pub cpu_milli_seconds: u128,
    /// MiB, times seconds.
    pub memory_mib_seconds: u128,
}

impl Held {
    fn add(&mut self, shape: Shape, lasted: Duration) {
        let seconds = u128::from(lasted.as_secs());
        self.count += 1;
        self.cpu_milli += shape.cpu_milli;
        self.memory_mib += shape.memory_mib;
        self.cpu_milli_seconds += u128::from(shape.cpu_milli) * seconds;
        self.memory_mib_seconds += u128::from(shape.memory_mib) * seconds;
    }

    /// What it has cost so far, in millionths; `None` without a price.
    #[must_use]
    pub fn cost(&self, prices: Prices) -> Option<u128> {
        let cpu = prices.vcpu_hour.map(|price| self.cpu_milli_seconds * u128::from(price) / (1000 * 3600));
        let memory = prices.gb_hour.map(|price| self.memory_mib_seconds * u128::from(price) / (1024 * 3600));
        match (cpu, memory) {
            (None, None) => None,
            (cpu, memory) => Some(cpu.unwrap_or(0) + memory.unwrap_or(0)),
        }
    }
}

/// What one bucket keeps though nothing keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// All of it.
    pub held: Held,
    /// By the reason why it stays.
    pub by_reason: BTreeMap<&'static str, u64>,
    /// How many stay until somebody does something about it; the others wait for their time.
    pub lasting: u64,
    /// The longest that anything has been so.
    pub oldest: Duration,
    /// For how long each paused one has been paused, shortest first.
    pub paused: Vec<Duration>,
}

impl Kept {
    /// How many of the paused a retention would end.
    #[must_use]
    pub fn freed_by(&self, retention: Duration) -> usize {
        self.paused.iter().filter(|paused| **paused > retention).count()
    }

    /// Just below this, a retention ends all that is paused.
    #[must_use]
    pub fn ends_all_below(&self) -> Option<Duration> {
        self.paused.first().copied()
    }

    /// Just below this, a retention ends the first of them.
    #[must_use]
    pub fn ends_first_below(&self) -> Option<Duration> {
        self.paused.last().copied()
    }
}

/// What a zombie is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZombieState {
    /// It runs.
    Running,
    /// It is paused.
    Paused,
    /// It is condemned and cannot be ended.
    Quarantined,
}

/// For how long something has been a zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// Less than an hour.
    Minutes,
    /// Less than a day.
    Hours,
    /// Less than a week.
    Days,
    /// Longer.
    Weeks,
}

impl Age {
    /// The class of a length of time.
    #[must_use]
    pub fn of(length: Duration) -> Self {
        match length.as_secs() / 3600 {
            0 => Self::Minutes,
            1..24 => Self::Hours,
            24..168 => Self::Days,
            _ => Self::Weeks,
        }
    }
}

/// What nothing keeps, in numbers: kept by policy, about to end, or impossible to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zombies {
    /// How many of each kind.
    pub count: BTreeMap<(Bucket, ZombieState, Age), u64>,
    /// The oldest of each bucket.
    pub oldest: BTreeMap<Bucket, Duration>,
}

/// What a cycle found where ledger and Cube should be equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// Charged and living by the ledger, not in the list, and not proven gone.
    pub not_shown: u64,
    /// Shown by Cube, and taken into the ledger only now.
    pub not_charged: u64,
}

/// What one cycle found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// When.
    pub at: UnixMillis,
    /// Whether the list could be believed.
    pub verdict: Option<Verdict>,
    /// How many subjects had each colour, by its reason.
    pub colours: BTreeMap<&'static str, u64>,
    /// What is kept.
    pub kept: BTreeMap<Bucket, Kept>,
    /// What nothing keeps.
    pub zombies: Zombies,
    /// What differs.
    pub drift: Drift,
    /// What ends in the next sweep unless something changes: what is due by then, and what was due and left.
    pub next: Vec<Item>,
}

impl Report {
    /// A white subject stays.
    pub fn keep(&mut self, subject: &Subject, keep: Keep, lasted: Duration) {
        let kept = self.kept.entry(subject.bucket.clone()).or_default();
        kept.held.add(subject.shape, lasted);
        *kept.by_reason.entry(keep.name()).or_default() += 1;
        kept.lasting += u64::from(keep.lasts());
        kept.oldest = kept.oldest.max(lasted);
        kept.paused.extend(subject.paused_for);
    }

    /// A subject that nothing keeps, whatever becomes of it.
    pub fn zombie(&mut self, subject: &Subject, lasted: Duration) {
        let state = match subject.phase {
            Phase::Live(Activity::Paused(_)) => ZombieState::Paused,
            Phase::Quarantined => ZombieState::Quarantined,
            Phase::Live(Activity::Running) | Phase::Ending => ZombieState::Running,
        };
        let kind = (subject.bucket.clone(), state, Age::of(lasted));
        *self.zombies.count.entry(kind).or_default() += 1;
        let oldest = self.zombies.oldest.entry(subject.bucket.clone()).or_default();
        *oldest = lasted.max(*oldest);
    }

    /// Puts what was added into order.
    pub fn finish(&mut self) {
        self.kept.values_mut().for_each(|kept| kept.paused.sort_unstable());
        self.next.sort_by(|one, other| one.marker.cmp(&other.marker));
    }
}

/// Hours with two digits, as people say them, of something counted in thousandths or MiB times seconds.
#[must_use]
pub fn hundredths_of_hours(amount_seconds: u128, unit: u128) -> u128 {
    amount_seconds * 100 / (unit * 3600)
}

/// Whole seconds of a length of time, for evidence.
#[must_use]
pub fn seconds(length: Duration) -> u64 {
    millis(length) / 1000
}

#[cfg(test)]
mod tests {
    use super::super::mark::tests::subject;
    use super::*;

    #[test]
    fn what_is_kept_is_counted_once_with_what_it_holds_and_costs_and_what_would_end_it() {
        let hour = Duration::from_secs(3600);
        let mut report = Report::default();
        for hours in [30, 2, 800] {
            let mut subject = subject();
            subject.phase = Phase::Live(Activity::Paused(UnixMillis(0)));
            subject.paused_for = Some(hours * hour);
            report.keep(&subject, Keep::NoRetention, hours * hour);
            report.zombie(&subject, hours * hour);
        }
        report.finish();
        let kept = report.kept.values().next().cloned().unwrap_or_default();
        assert_eq!((kept.held.count, kept.held.cpu_milli, kept.held.memory_mib), (3, 6000, 6144));
        assert_eq!(hundredths_of_hours(kept.held.cpu_milli_seconds, 1000), 166_400);
        assert_eq!(kept.by_reason["no_retention"], 3);
        assert_eq!(kept.oldest, 800 * hour);
        assert_eq!(RETENTIONS.map(|(_, length)| kept.freed_by(length)), [3, 2, 2, 1, 1]);
        assert_eq!((kept.ends_first_below(), kept.ends_all_below()), (Some(800 * hour), Some(2 * hour)));
        // 1664 processor hours at 0.05, and as many GiB hours at 0.01.
        let prices = Prices { vcpu_hour: Some(50_000), gb_hour: Some(10_000) };
        assert_eq!(kept.held.cost(prices), Some(83_200_000 + 16_640_000));
        assert_eq!(kept.held.cost(Prices::default()), None);
        let ages: Vec<Age> = report.zombies.count.keys().map(|(.., age)| *age).collect();
        assert_eq!(ages, [Age::Hours, Age::Days, Age::Weeks]);
    }
}
