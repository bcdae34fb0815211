//! From a reservation to a sandbox, or to the proof that there is none.

use super::{Activity, Actor, Birth, Entry, Proof, State, Timing, Unfit};
use crate::ids::LeaseId;
use crate::time::UnixMillis;

impl Entry {
    /// reserved → dispatched: from here on bytes may go upstream.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn dispatch(mut self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        match self.state {
            State::Reserved => {}
            _ => return Err(self.unfit()),
        }
        self.state = State::Dispatched;
        self.dispatched = Some(now);
        self.due = Some(now.plus(timing.settle));
        Ok(self)
    }

    /// dispatched, ambiguous → live: it exists.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn born(mut self, birth: Birth, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        match self.state {
            State::Dispatched | State::Ambiguous { .. } => {}
            _ => return Err(self.unfit()),
        }
        self.sandbox = Some(birth.sandbox);
        self.answer = birth.answer;
        self.deadline = birth.deadline;
        self.first_seen = Some(now);
        self.last_sign = now;
        self.state = State::Live(Activity::Running);
        Ok(self.reschedule(timing))
    }

    /// reserved, dispatched → refused: Cube definitely did not make it.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn refuse(mut self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        match self.state {
            State::Reserved | State::Dispatched => {}
            _ => return Err(self.unfit()),
        }
        self.state = State::Refused;
        self.forget();
        self.due = Some(now.plus(timing.tombstone));
        Ok(self)
    }

    /// reserved → gone: nothing was ever sent.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn lapse(self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        match self.state {
            State::Reserved => Ok(self.bury(Proof::NeverSent, now, timing)),
            _ => Err(self.unfit()),
        }
    }

    /// dispatched → ambiguous: the answer was lost, or its process died.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn lose(mut self, now: UnixMillis) -> Result<Self, Unfit> {
        match self.state {
            State::Dispatched => {}
            _ => return Err(self.unfit()),
        }
        self.state = State::Ambiguous { misses: 0 };
        self.due = Some(now);
        Ok(self)
    }

    /// ambiguous → live (claimable by its key or its owner, for a while) or killing (nobody could claim it): a listing showed its marker.
    ///
    /// # Errors
    /// [`Unfit`] in any other state.
    pub fn found(self, birth: Birth, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        match self.state {
            State::Ambiguous { .. } => {}
            _ => return Err(self.unfit()),
        }
        let claimable = self.claim.is_some() || self.lease.is_some();
        let mut live = self.born(birth, now, timing)?;
        if claimable {
            live.claim_until = Some(now.plus(timing.claim));
            return Ok(live.reschedule(timing));
        }
        live.condemn(Actor::Recovery, now)
    }

    /// The create's own answer: dispatched, ambiguous → live; and what the reconciler had found already is no longer
    /// waiting for a claim, for its client has it. The create began with `lease`; whoever retried it by its key before that
    /// keeps the end it was granted.
    ///
    /// # Errors
    /// [`Unfit`] in any other state, if it lives under another id, or if another holder has taken it meanwhile.
    pub fn answered(
        mut self,
        birth: Birth,
        lease: Option<&LeaseId>,
        now: UnixMillis,
        timing: &Timing,
    ) -> Result<Self, Unfit> {
        let found = self.usable() && self.sandbox.as_ref() == Some(&birth.sandbox);
        if found && !self.is_held_by(lease) {
            return Err(self.unfit());
        }
        if !found {
            return self.born(birth, now, timing);
        }
        self.answer = birth.answer;
        if self.claim_until.is_some() {
            self.deadline = birth.deadline;
        }
        self.claimed(now, timing)
    }

    /// The answer of a create whose sandbox another holder has taken meanwhile: what Cube gives only once is kept for that
    /// one, and nothing else changes.
    ///
    /// # Errors
    /// [`Unfit`] unless it lives under the same id and has no answer yet.
    pub fn answered_late(mut self, birth: Birth) -> Result<Self, Unfit> {
        if !self.usable() || self.sandbox.as_ref() != Some(&birth.sandbox) || self.answer.is_some() {
            return Err(self.unfit());
        }
        self.answer = birth.answer;
        Ok(self)
    }

    /// A retry proved to be the same: the found create is its own again.
    ///
    /// # Errors
    /// [`Unfit`] unless live.
    pub fn claimed(mut self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        self.claim_until = None;
        self.last_sign = now;
        Ok(self.reschedule(timing))
    }

    /// A trusted listing did not show it. Three of them after the last moment at which the create could still arrive, the
    /// last at least `horizon` after dispatch: it never came.
    ///
    /// # Errors
    /// [`Unfit`] unless ambiguous.
    pub fn missed(mut self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        let State::Ambiguous { misses } = self.state else { return Err(self.unfit()) };
        let dispatched = self.dispatched.unwrap_or(self.asked);
        let horizon = dispatched.plus(timing.horizon);
        // What is not there before it can be says nothing.
        let misses = misses.saturating_add(u32::from(now >= dispatched.plus(timing.settle)));
        if misses >= 3 && now >= horizon {
            return Ok(self.bury(Proof::NeverCame, now, timing));
        }
        self.state = State::Ambiguous { misses };
        self.due = Some(timing.next_search(now));
        Ok(self)
    }

    /// The search could not be made; again later.
    ///
    /// # Errors
    /// [`Unfit`] unless ambiguous.
    pub fn search_failed(mut self, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        let State::Ambiguous { .. } = self.state else { return Err(self.unfit()) };
        self.due = Some(timing.next_search(now));
        Ok(self)
    }
}
