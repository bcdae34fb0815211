//! The only reader of clock and chance.
//!
//! Everything else takes `now` as an argument or holds a [`Clock`]; a test holds a [`ManualClock`] and owns the time.
//! Must stay true: no other file calls `SystemTime::now`, `Instant::now`, `tokio::time::*` or a random generator
//! (clippy's `disallowed-methods` and `tests/tidy.rs` see to it).

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::sync::oneshot;

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// This point moved later by `by`; stays at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }

    /// This point moved earlier by `by`; stays at the beginning of time instead of wrapping.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(millis(by)))
    }

    /// How long ago `earlier` was; zero if it is not in the past (a step back grants nothing).
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixMillis {
    /// RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = std::time::UNIX_EPOCH.checked_add(Duration::from_millis(self.0));
        match at.filter(|_| self.0 < 253_402_300_800_000) {
            Some(at) => humantime::format_rfc3339_millis(at).fmt(f),
            None => write!(f, "{}ms", self.0),
        }
    }
}

/// The time in the `Date` of an HTTP answer.
#[must_use]
pub fn parse_http_date(text: &str) -> Option<UnixMillis> {
    let at = httpdate::parse_http_date(text).ok()?;
    at.duration_since(std::time::UNIX_EPOCH).ok().map(|since| UnixMillis(millis(since)))
}

/// Whole milliseconds of a duration, saturating.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads an RFC 3339 time stamp (any number of fractional digits); `None` if it is not one.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<UnixMillis> {
    let at = humantime::parse_rfc3339_weak(text).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(UnixMillis(millis(since)))
}

/// A sleep that can be awaited.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the present comes from.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> UnixMillis;
    /// Ready once `length` has passed on this clock.
    fn sleep(&self, length: Duration) -> Sleep;
}

/// The time limit ran out before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time limit of {0:?} ran out")]
pub struct Elapsed(pub Duration);

/// Awaits `work` for at most `limit` of the clock's time.
///
/// # Errors
/// [`Elapsed`] if the limit came first; `work` is dropped then.
pub async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = clock.sleep(limit) => Err(Elapsed(limit)),
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one reader of the clock")]
    fn now(&self) -> UnixMillis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        UnixMillis(millis(since))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one sleeper")]
    fn sleep(&self, length: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(length))
    }
}

/// A clock that moves only when told to. Clones show the same time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug)]
struct Manual {
    now: UnixMillis,
    order: u64,
    sleepers: BTreeMap<(UnixMillis, u64), oneshot::Sender<()>>,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: UnixMillis) -> Self {
        Self(Arc::new(Mutex::new(Manual { now, order: 0, sleepers: BTreeMap::new() })))
    }

    /// Moves the clock on by `by` and wakes everyone whose time has come, earliest first.
    pub fn advance(&self, by: Duration) {
        let mut manual = self.lock();
        let now = manual.now.plus(by);
        manual.move_to(now);
    }

    /// Sets the clock, backwards too.
    pub fn set(&self, now: UnixMillis) {
        self.lock().move_to(now);
    }

    /// When the next sleeper is due; `None` if nobody sleeps.
    #[must_use]
    pub fn next_due(&self) -> Option<UnixMillis> {
        let mut manual = self.lock();
        manual.sleepers.retain(|_, waker| !waker.is_closed());
        manual.sleepers.keys().next().map(|(at, _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, Manual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Manual {
    fn move_to(&mut self, now: UnixMillis) {
        self.now = now;
        while let Some(first) = self.sleepers.first_entry() {
            if first.key().0 > now {
                break;
            }
            // A sleeper that was dropped meanwhile is nobody's loss.
            let _gone = first.remove().send(());
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        self.lock().now
    }

    fn sleep(&self, length: Duration) -> Sleep {
        let (waker, woken) = oneshot::channel();
        let mut manual = self.lock();
        let due = manual.now.plus(length);
        if due <= manual.now {
            return Box::pin(std::future::ready(()));
        }
        let order = manual.order;
        manual.order += 1;
        manual.sleepers.insert((due, order), waker);
        drop(manual);
        Box::pin(async move {
            // The sender lives as long as the clock; a dropped clock ends the sleep.
            let _ended = woken.await;
        })
    }
}

/// Measures how long something took: for metrics, and for the ledger's clock between two answers of its store. It stands
/// still while the machine sleeps; no decision may rest on it alone.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one reader of the monotonic clock")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Random numbers: seeded in tests, from the operating system otherwise.
#[derive(Debug)]
pub struct Chance(Mutex<StdRng>);

impl Chance {
    /// The same seed gives the same numbers.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Unpredictable.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one source of chance")]
    pub fn from_os() -> Self {
        Self(Mutex::new(rand::make_rng()))
    }

    /// A source of its own, seeded by this one: as unpredictable as this, or the same again with the same seed.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Mutex::new(StdRng::from_rng(&mut *rng)))
    }

    /// A number from 0 to `bound - 1`; 0 if `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bound == 0 { 0 } else { rng.random_range(0..bound) }
    }

    /// `2 * bytes` lower-case hexadecimal digits.
    pub fn hex(&self, bytes: usize) -> String {
        let mut buffer = vec![0; bytes];
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rng.fill_bytes(&mut buffer);
        hex::encode(buffer)
    }
}
