//! The breaker of one path: closed (writes flow), open (they fail fast), half-open (one probe is on its way).
//!
//! ```text
//!            failures in a row, or their share of a window
//!   closed ────────────────────────────────────────────────► open ◄───────────┐
//!      ▲                                                      │ the wait is    │ unclear: twice the wait;
//!      │                                                      ▼ over           │ hung: the same
//!      └───────────────────────── done ─────────────────── half-open ──────────┘
//! ```
//!
//! Must stay true: one probe at a time, and it always settles: by what came of it, by being given up, at the latest by its own
//! deadline. What Cube refused (any 4xx but 408, "no more resource") is no failure and no success; a probe that ends so
//! makes room for the next at once, for it left nothing unclear behind. Waits are counted from the beginning of the last probe, so a healed
//! Cube is found within the longest wait. What began before the breaker last moved is not heard. A clock that steps back grants nothing
//! and costs one wait at most.

use std::time::Duration;

use super::window::Window;
use crate::time::UnixMillis;

/// What became of a write, as far as the path is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// Cube did it.
    Done,
    /// Cube answered that it did not do it: no failure, no success.
    Refused,
    /// The same, because it has too much to do.
    SlowDown,
    /// Nobody knows: the one kind of failure.
    Unclear,
    /// It was never sent.
    Unsent,
    /// It was sent, and whoever waited for it is gone.
    Abandoned,
}

/// When a breaker opens and how it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Failures in a row that open it.
    pub failures: u32,
    /// The share of failures in the window that opens it, of at least twice as many outcomes as `failures`.
    pub failure_percent: u32,
    /// The window of that share.
    pub window: Duration,
    /// The wait before the first probe; doubles with each that fails.
    pub wait: Duration,
    /// The longest wait.
    pub wait_most: Duration,
    /// A probe that has not settled after this time hangs.
    pub probe_deadline: Duration,
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Writes flow.
    Closed {
        /// Since then.
        since: UnixMillis,
    },
    /// Writes fail fast.
    Open {
        /// When the wait was set: before that nothing is due.
        set: UnixMillis,
        /// When a probe may go.
        due: UnixMillis,
    },
    /// One probe is on its way.
    HalfOpen {
        /// When it went.
        since: UnixMillis,
    },
}

/// Why a breaker moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// So many failures in a row.
    OpenedByRow(u32),
    /// So many failures of so many outcomes in the window.
    OpenedByShare(u32, u32),
    /// A probe goes.
    Probes,
    /// The probe came to nothing, in this way; one that hung is abandoned.
    ProbeEnded(Told),
    /// The probe was done.
    Closed,
}

/// Leave to send one write. What became of it is told with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pass {
    age: u32,
    /// Whether it is the probe.
    pub probe: bool,
}

/// No write may go; one may after this time, if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut(pub Duration);

/// The breaker of one path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Breaker {
    limits: Limits,
    state: State,
    /// Failures in a row.
    row: u32,
    lately: Window<2>,
    /// The wait of the present or next opening.
    wait: Duration,
    /// Rises whenever it opens or closes, and when a probe is given up for hung: what began in another age is not heard.
    age: u32,
}

const FAILED: usize = 0;
const DONE: usize = 1;

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Closed { since: UnixMillis(0) },
            row: 0,
            lately: Window::new(limits.window),
            wait: limits.wait,
            age: 0,
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether writes flow.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// Lets time pass: a hung probe is given up, a step back is taken in.
    pub fn pass_time(&mut self, now: UnixMillis) -> Option<Change> {
        match &mut self.state {
            State::Closed { since } => *since = (*since).min(now),
            // The clock stepped back: the whole wait begins again, from a time that will come.
            State::Open { set, due } if now < *set => (*set, *due) = (now, now.plus(self.wait)),
            State::HalfOpen { since } if now < *since => *since = now,
            State::HalfOpen { since } if now.since(*since) >= self.limits.probe_deadline => {
                let began = *since;
                self.wait_again(began, now);
                return Some(Change::ProbeEnded(Told::Abandoned));
            }
            State::Open { .. } | State::HalfOpen { .. } => {}
        }
        None
    }

    /// Would a write be let through now?
    ///
    /// # Errors
    /// [`Shut`].
    pub fn check(&self, now: UnixMillis) -> Result<(), Shut> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { due, .. } if due <= now => Ok(()),
            State::Open { due, .. } => Err(Shut(due.since(now))),
            State::HalfOpen { since } => {
                Err(Shut(since.plus(self.limits.probe_deadline.min(self.wait)).since(now)))
            }
        }
    }

    /// Lets a write through: freely while closed, as the one probe when the wait is over.
    ///
    /// # Errors
    /// [`Shut`].
    pub fn begin(&mut self, now: UnixMillis) -> Result<(Pass, Option<Change>), Shut> {
        self.check(now)?;
        if self.is_closed() {
            return Ok((Pass { age: self.age, probe: false }, None));
        }
        self.state = State::HalfOpen { since: now };
        Ok((Pass { age: self.age, probe: true }, Some(Change::Probes)))
    }

    /// Leave for a write that goes whatever the breaker says, and is not heard unless it is closed.
    #[must_use]
    pub fn unasked(&self) -> Pass {
        Pass { age: self.age, probe: false }
    }

    /// Hears what became of a write.
    pub fn tell(&mut self, pass: Pass, told: Told, now: UnixMillis) -> Option<Change> {
        if pass.age != self.age {
            return None;
        }
        match self.state {
            State::Closed { since } if !pass.probe => self.tell_closed(since, told, now),
            State::HalfOpen { since } if pass.probe => Some(self.tell_probe(since, told, now)),
            _ => None,
        }
    }

    fn tell_closed(&mut self, since: UnixMillis, told: Told, now: UnixMillis) -> Option<Change> {
        match told {
            Told::Done => {
                self.row = 0;
                self.lately.count(DONE, now);
            }
            Told::Unclear => {
                self.row = self.row.saturating_add(1);
                self.lately.count(FAILED, now);
            }
            Told::Refused | Told::SlowDown | Told::Unsent | Told::Abandoned => return None,
        }
        if told == Told::Done && now.since(since) >= self.limits.window {
            self.wait = self.limits.wait;
        }
        let why = self.why_open(now)?;
        self.age = self.age.wrapping_add(1);
        self.state = State::Open { set: now, due: now.plus(self.wait) };
        Some(why)
    }

    /// Is it time to open?
    fn why_open(&mut self, now: UnixMillis) -> Option<Change> {
        let Limits { failures, failure_percent, .. } = self.limits;
        if self.row >= failures {
            return Some(Change::OpenedByRow(self.row));
        }
        let [failed, done] = self.lately.sums(now);
        let all = failed.saturating_add(done);
        let share = u64::from(failed) * 100 >= u64::from(all) * u64::from(failure_percent);
        let enough = all >= failures.saturating_mul(2);
        (enough && share).then_some(Change::OpenedByShare(failed, all))
    }

    fn tell_probe(&mut self, since: UnixMillis, told: Told, now: UnixMillis) -> Change {
        match told {
            Told::Done => {
                self.age = self.age.wrapping_add(1);
                self.row = 0;
                self.lately.clear();
                // Should it open again soon, it is flapping, and the wait is not the first one again.
                self.wait = self.longer();
                self.state = State::Closed { since: now };
                Change::Closed
            }
            Told::Unclear | Told::Abandoned => {
                self.wait_again(since, now);
                Change::ProbeEnded(told)
            }
            Told::Refused | Told::SlowDown | Told::Unsent => {
                self.age = self.age.wrapping_add(1);
                self.state = State::Open { set: now, due: now };
                Change::ProbeEnded(told)
            }
        }
    }

    /// Open again after a probe that began then: twice the wait, counted from its beginning.
    fn wait_again(&mut self, began: UnixMillis, now: UnixMillis) {
        self.age = self.age.wrapping_add(1);
        self.wait = self.longer();
        self.state = State::Open { set: now, due: began.plus(self.wait).max(now) };
    }

    fn longer(&self) -> Duration {
        self.wait.saturating_mul(2).min(self.limits.wait_most)
    }
}

#[cfg(test)]
mod tests;
