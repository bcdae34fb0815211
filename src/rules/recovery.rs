//! After a stoppage: while condemned sandboxes stand in the way, new ones are paid for with confirmed deletes.
//!
//! A backlog is what the deletes' own share of the pool cannot carry at once; quarantined sandboxes are no part of it. Recovery
//! begins when there is a backlog while a breaker is not closed, and ends when there is none, whatever the breakers say.
//! Each confirmed delete, also a client's, pays for one create.
//!
//! Must stay true: one create in each interval goes unpaid, so recovery never depends on deletes alone; what was paid for and not sent, or
//! refused by Cube, is paid back; credit does not outlive the recovery, nor grow beyond what the pool can carry.

use std::time::Duration;

use super::window::Window;
use crate::time::{UnixMillis, millis};

/// Deletes are counted over this time to know how fast they drain.
const DRAIN_WINDOW: Duration = Duration::from_secs(60);

/// With what a create was paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paid {
    /// Nothing was asked for.
    Nothing,
    /// With a confirmed delete.
    Credit,
    /// It is the unpaid one of its interval; before it, this was the time from which one might go.
    Unpaid {
        /// What the next one's time was before.
        before: UnixMillis,
    },
}

/// What begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A backlog of so many stands.
    Began(u64),
    /// What is left can be carried at once.
    Ended(u64),
}

/// Whether creates are paid for, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovery {
    interval: Duration,
    most_credit: u32,
    on: bool,
    credit: u32,
    backlog: u64,
    /// When the next unpaid create may go; the clock when that was set.
    unpaid: (UnixMillis, UnixMillis),
    drained: Window<1>,
}

impl Recovery {
    /// None under way. One create goes unpaid in each `interval`; at most so much credit is kept.
    #[must_use]
    pub fn new(interval: Duration, most_credit: u32) -> Self {
        let nothing = (UnixMillis(0), UnixMillis(0));
        let drained = Window::new(DRAIN_WINDOW);
        Self { interval, most_credit, on: false, credit: 0, backlog: 0, unpaid: nothing, drained }
    }

    /// Whether creates are paid for now.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Confirmed deletes that are not spent.
    #[must_use]
    pub fn credit(&self) -> u32 {
        self.credit
    }

    /// How many condemned sandboxes stood when they were last counted.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.backlog
    }

    /// The number of condemned sandboxes that stand, counted anew.
    pub fn counted(&mut self, backlog: u64) {
        self.backlog = backlog;
    }

    /// Begins or ends it: `carried` can be deleted at once, `troubled` says that a breaker is not closed.
    pub fn judge(&mut self, carried: u64, troubled: bool, now: UnixMillis) -> Option<Change> {
        let stands = self.backlog > carried;
        match self.on {
            false if stands && troubled => {
                (self.on, self.credit) = (true, 0);
                self.unpaid = (now.plus(self.interval), now);
                Some(Change::Began(self.backlog))
            }
            true if !stands => {
                (self.on, self.credit) = (false, 0);
                Some(Change::Ended(self.backlog))
            }
            _ => None,
        }
    }

    /// A delete was confirmed.
    pub fn earn(&mut self, now: UnixMillis) {
        self.drained.count(0, now);
        if self.on {
            self.credit = self.credit.saturating_add(1).min(self.most_credit);
        }
    }

    /// Could a create be paid for now? If not: when one goes unpaid.
    ///
    /// # Errors
    /// The wait.
    pub fn check(&mut self, now: UnixMillis) -> Result<(), Duration> {
        let (due, set) = self.unpaid;
        if now < set {
            // The clock stepped back: the interval begins again.
            self.unpaid = (now.plus(self.interval), now);
        }
        let wait = self.unpaid.0.since(now);
        if !self.on || self.credit > 0 || (now >= set && due <= now) { Ok(()) } else { Err(wait) }
    }

    /// Pays for a create, with credit where there is some.
    ///
    /// # Errors
    /// The wait until one goes unpaid.
    pub fn pay(&mut self, now: UnixMillis) -> Result<Paid, Duration> {
        self.check(now)?;
        if !self.on {
            return Ok(Paid::Nothing);
        }
        if self.credit > 0 {
            self.credit -= 1;
            return Ok(Paid::Credit);
        }
        let before = self.unpaid.0;
        self.unpaid = (now.plus(self.interval), now);
        Ok(Paid::Unpaid { before })
    }

    /// The create that was paid for made nothing.
    pub fn pay_back(&mut self, paid: Paid) {
        match paid {
            Paid::Credit if self.on => self.credit = self.credit.saturating_add(1).min(self.most_credit),
            Paid::Unpaid { before } => self.unpaid.0 = before,
            Paid::Nothing | Paid::Credit => {}
        }
    }

    /// How many deletes were confirmed within the last minute.
    pub fn drained(&mut self, now: UnixMillis) -> u32 {
        let [drained] = self.drained.sums(now);
        drained
    }

    /// How long the backlog beyond `carried` takes at the present rate; `None` if nothing drains.
    pub fn until_drained(&mut self, carried: u64, now: UnixMillis) -> Option<Duration> {
        let drained = u64::from(self.drained(now));
        let beyond = self.backlog.saturating_sub(carried);
        let ms = beyond.saturating_mul(millis(DRAIN_WINDOW)).checked_div(drained)?;
        Some(Duration::from_millis(ms))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> UnixMillis {
        UnixMillis(1_800_000_000_000 + seconds * 1000)
    }

    fn recovering(backlog: u64) -> Recovery {
        let mut recovery = Recovery::new(INTERVAL, 4);
        recovery.counted(backlog);
        assert_eq!(recovery.judge(2, true, at(0)), Some(Change::Began(backlog)));
        recovery
    }

    #[test]
    fn a_backlog_without_trouble_or_trouble_without_a_backlog_is_no_recovery() {
        let mut recovery = Recovery::new(INTERVAL, 4);
        recovery.counted(500);
        assert_eq!(recovery.judge(2, false, at(0)), None);
        recovery.counted(2);
        assert_eq!(recovery.judge(2, true, at(0)), None);
        assert_eq!(recovery.pay(at(0)), Ok(Paid::Nothing));
    }

    #[test]
    fn each_confirmed_delete_pays_for_one_create_and_one_in_each_interval_goes_unpaid() {
        let mut recovery = recovering(10);
        assert_eq!(recovery.pay(at(0)), Err(INTERVAL));
        recovery.earn(at(1));
        assert_eq!(
            (recovery.pay(at(1)), recovery.pay(at(1))),
            (Ok(Paid::Credit), Err(Duration::from_secs(14)))
        );
        assert_eq!(recovery.pay(at(15)).unwrap(), Paid::Unpaid { before: at(15) });
        assert_eq!(
            (recovery.pay(at(29)).unwrap_err(), recovery.pay(at(30)).is_ok()),
            (Duration::from_secs(1), true)
        );
        for second in 31..40 {
            recovery.earn(at(second));
        }
        assert_eq!(recovery.credit(), 4);
    }

    #[test]
    fn what_made_nothing_is_paid_back() {
        let mut recovery = recovering(10);
        recovery.earn(at(1));
        let paid = recovery.pay(at(1)).unwrap();
        recovery.pay_back(paid);
        assert_eq!(recovery.credit(), 1);
        recovery.pay(at(2)).unwrap();
        let unpaid = recovery.pay(at(20)).unwrap();
        assert!(recovery.pay(at(20)).is_err());
        recovery.pay_back(unpaid);
        assert!(recovery.pay(at(20)).is_ok());
    }

    #[test]
    fn it_ends_when_what_is_left_can_be_carried_whatever_the_breakers_say_and_credit_ends_with_it() {
        let mut recovery = recovering(10);
        recovery.earn(at(1));
        recovery.counted(2);
        assert_eq!(recovery.judge(2, true, at(2)), Some(Change::Ended(2)));
        assert_eq!((recovery.credit(), recovery.is_on()), (0, false));
        assert_eq!(recovery.pay(at(2)), Ok(Paid::Nothing));
    }

    #[test]
    fn a_clock_that_steps_back_grants_no_unpaid_create_and_keeps_none_back_for_longer_than_the_interval() {
        let mut recovery = recovering(10);
        let earlier = UnixMillis(at(0).0 - 3_600_000);
        assert_eq!(recovery.pay(earlier), Err(INTERVAL));
        assert!(recovery.pay(earlier.plus(INTERVAL)).is_ok());
    }

    #[test]
    fn the_time_until_the_backlog_is_gone_follows_the_measured_rate() {
        let mut recovery = recovering(32);
        assert_eq!(recovery.until_drained(2, at(0)), None);
        for second in 0..6 {
            recovery.earn(at(second * 5));
        }
        assert_eq!(recovery.drained(at(30)), 6);
        assert_eq!(recovery.until_drained(2, at(30)), Some(Duration::from_secs(300)));
        assert_eq!(recovery.until_drained(32, at(30)), Some(Duration::ZERO));
    }
}
