//! While it lives: calls under way, what Cube shows, when it must be looked at.

use std::time::Duration;

use super::{Activity, Effect, Entry, Operation, State, Timing, Unfit};
use crate::ids::OperationId;
use crate::time::UnixMillis;

/// What outlives its deadline by traffic is looked at this often at the least.
const SELDOM_RUNNING: Duration = Duration::from_secs(60);
/// What is paused has no end of its own; the inventory sees it go.
const SELDOM_PAUSED: Duration = Duration::from_secs(3600);

impl Entry {
    /// A call that touches the sandbox begins.
    ///
    /// # Errors
    /// [`Unfit`] unless live: from killing there is no way back.
    pub fn begin(mut self, operation: Operation, now: UnixMillis) -> Result<Self, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        self.operations.retain(|other| other.until > now);
        self.operations.push(operation);
        self.last_sign = now;
        self.claim_until = None;
        self.claims = self.claims.max(1);
        Ok(self)
    }

    /// A call that touched the sandbox has ended, in whatever state the entry is by now.
    #[must_use]
    pub fn end(mut self, operation: &OperationId, effect: Effect, now: UnixMillis, timing: &Timing) -> Self {
        self.operations.retain(|other| other.id != *operation && other.until > now);
        if !self.usable() {
            return self;
        }
        self.last_sign = now;
        self = match effect {
            Effect::None => self,
            Effect::Paused => self.observed(Activity::Paused(now)),
            Effect::Running => self.observed(Activity::Running),
            Effect::Deadline(deadline) => Self { deadline, ..self },
            Effect::RunningUntil(deadline) => Self { deadline, ..self.observed(Activity::Running) },
            Effect::Rewound => Self {
                incarnation: self.incarnation.saturating_add(1),
                state: State::Live(Activity::Running),
                ..self
            },
        };
        self.reschedule(timing)
    }

    /// A call has ended, and that could not be written down then: it is not under way any more. Of what it did only that
    /// counts which keeps the sandbox longer, for others have written since. `None` if it is not registered (any more).
    #[must_use]
    pub fn end_late(
        self,
        operation: &OperationId,
        effect: Effect,
        now: UnixMillis,
        timing: &Timing,
    ) -> Option<Self> {
        self.operations.iter().find(|other| other.id == *operation)?;
        let lengthens =
            |new: Option<UnixMillis>| self.deadline.is_some_and(|old| new.is_none_or(|new| new > old));
        let effect = match effect {
            Effect::Deadline(new) | Effect::RunningUntil(new) if lengthens(new) => Effect::Deadline(new),
            Effect::Rewound => effect,
            _ => Effect::None,
        };
        Some(self.end(operation, effect, now, timing))
    }

    /// Cube showed it running or paused. A pause keeps the time it was first seen, unless there was a sign of life since: a
    /// call whose answer was lost may have woken it, and then this is another pause. A resume is a new incarnation.
    #[must_use]
    pub fn observed(mut self, activity: Activity) -> Self {
        match (&self.state, activity) {
            (State::Live(Activity::Paused(since)), Activity::Paused(_)) if self.last_sign <= *since => {}
            (State::Live(Activity::Paused(_)), Activity::Running) => {
                self.incarnation = self.incarnation.saturating_add(1);
                self.state = State::Live(Activity::Running);
            }
            (State::Live(_), seen) => self.state = State::Live(seen),
            _ => {}
        }
        self
    }

    /// Cube was asked at `began` and showed it running or paused. That is out of date if a call has touched the sandbox
    /// since, or still does.
    #[must_use]
    pub fn seen(self, activity: Activity, began: UnixMillis, now: UnixMillis) -> Self {
        if self.last_sign > began || self.busy(now) { self } else { self.observed(activity) }
    }

    /// Cube was asked, and nothing can be concluded: an appointment that has passed is made anew.
    #[must_use]
    pub fn unanswered(self, now: UnixMillis, timing: &Timing) -> Self {
        if !self.usable() || self.due.is_none_or(|due| due > now) {
            return self;
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return self.outlived(now, timing);
        }
        // Somebody doubted that it lives, and still does not know.
        let look = now.plus(timing.search);
        self.look_at(look, now)
    }

    /// It was looked at, and it lives: if its deadline has passed, look again later, more and more seldom; if not, once
    /// it has. What is no longer live keeps its appointment.
    #[must_use]
    pub fn outlived(self, now: UnixMillis, timing: &Timing) -> Self {
        if !self.usable() {
            return self;
        }
        let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) else {
            return self.reschedule(timing);
        };
        let overdue = now.since(deadline);
        let seldom = if self.paused_since().is_some() { SELDOM_PAUSED } else { SELDOM_RUNNING };
        let least = if self.paused_since().is_some() { seldom } else { timing.deadline_grace.min(seldom) };
        self.look_at(now.plus(overdue.clamp(least, seldom)), now)
    }

    fn look_at(mut self, look: UnixMillis, now: UnixMillis) -> Self {
        // The end of a claim is not put off by a look at the deadline.
        self.due = self.claim_until.map(|claim| claim.max(now).min(look)).or(Some(look));
        self
    }

    /// Sets when a live entry must be looked at: at the end of a claim, or a little after its deadline.
    pub(super) fn reschedule(mut self, timing: &Timing) -> Self {
        if self.usable() {
            let deadline = self.deadline.map(|deadline| deadline.plus(timing.deadline_grace));
            self.due = match (self.claim_until, deadline) {
                (Some(claim), Some(deadline)) => Some(claim.min(deadline)),
                (claim, deadline) => claim.or(deadline),
            };
        }
        self
    }
}

#[cfg(test)]
mod tests;
