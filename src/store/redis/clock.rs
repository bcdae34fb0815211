//! The ledger's clock as this process knows it: what Redis last said, and how long ago that was.
//!
//! Must stay true: what is shown never becomes less; what is shown without asking counts from the moment in which an answer
//! had arrived, so that it is behind Redis's clock by the way of that answer and not ahead of it. It is behind by more if this
//! process was stopped meanwhile: whoever decides by it says so in the commit ([`Batch::until`](crate::store::Batch)).

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::time::{Clock, Stopwatch, UnixMillis};

/// So long after an answer the time is known without asking: longer than from one beat of a warden to its next, and as
/// long as Cube may take for a create.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// Whose clock the ledger goes by.
pub enum Time {
    /// The server's: the same for all wardens.
    OfRedis,
    /// This one: tests own the time.
    Of(Arc<dyn Clock>),
}

/// See the head of the file.
pub(super) struct LedgerClock {
    time: Time,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// The greatest time this process was shown.
    greatest: UnixMillis,
    /// The last answer, and since when it is here.
    answer: Option<(UnixMillis, Stopwatch)>,
}

impl LedgerClock {
    pub(super) fn new(time: Time) -> Self {
        Self { time, shown: Mutex::default() }
    }

    /// The time to be given to a script: empty if it is to ask Redis.
    pub(super) fn given(&self) -> String {
        match &self.time {
            Time::OfRedis => String::new(),
            // What was shown here is never taken back, also where nobody has written it down yet.
            Time::Of(clock) => {
                let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
                clock.now().max(shown.greatest).0.to_string()
            }
        }
    }

    /// Redis has answered that it is `now`. Returns what is shown.
    pub(super) fn answered(&self, now: u64) -> UnixMillis {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.answer = Some((UnixMillis(now), Stopwatch::start()));
        shown.show(UnixMillis(now))
    }

    /// What is known without asking.
    pub(super) fn unasked(&self) -> Option<UnixMillis> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match &self.time {
            Time::Of(clock) => shown.answer.map(|_| clock.now()),
            Time::OfRedis => shown.answer.and_then(|(at, since)| passed(at, since.elapsed())),
        };
        now.map(|now| shown.show(now))
    }
}

impl Shown {
    fn show(&mut self, now: UnixMillis) -> UnixMillis {
        self.greatest = self.greatest.max(now);
        self.greatest
    }
}

/// The time so long after an answer; `None` if that is too long.
fn passed(at: UnixMillis, since: Duration) -> Option<UnixMillis> {
    (since < KNOWN_FOR).then(|| at.plus(since))
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OfRedis => "OfRedis",
            Self::Of(_) => "Of(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_on_from_for_half_a_minute_and_never_back() {
        let at = UnixMillis(1_000);
        assert_eq!(passed(at, Duration::from_millis(7)), Some(UnixMillis(1_007)));
        assert_eq!(passed(at, KNOWN_FOR), None);
        let clock = LedgerClock::new(Time::OfRedis);
        assert_eq!(clock.unasked(), None);
        assert_eq!(clock.answered(5_000), UnixMillis(5_000));
        assert_eq!(clock.answered(4_000), UnixMillis(5_000));
        assert_eq!(clock.unasked(), Some(UnixMillis(5_000)));
    }
}
