//! Leases: an owner's exclusive claim on one entry. A new holder raises the generation, which fences out the one before.
//!
//! ```text
//! holder A (g1) ──► holder B (g2) ──► ...        acquire: only from live
//!      └── its lease id is sealed by whoever overtakes
//! ```
//!
//! Must stay true: a generation is never issued twice, whatever the clock does; nothing but a sign of life that the warden
//! saw keeps a lease. Deliberately absent: the upstream's answer to a renewal (the caller reads it and says what it was).

use std::time::Duration;

use super::{Entry, Timing, Unfit};
use crate::ids::{Generation, LeaseId};
use crate::time::UnixMillis;

/// The generation after `last` (none: the first), issued at `now`: it rises also where time stands still or stepped back,
/// and where a ledger forgot the last one.
#[must_use]
pub fn generation_after(last: Option<Generation>, now: UnixMillis) -> Generation {
    Generation(last.map_or(0, |last| last.0.saturating_add(1)).max(now.0))
}

/// What keeps a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    /// Its holder beats: silence ends it.
    Heartbeats,
    /// Its holder is an unmodified client that only calls: silence says nothing.
    Calls,
}

/// An exclusive claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Its name.
    pub id: LeaseId,
    /// What keeps it.
    pub keeper: Keeper,
    /// The timeout that it is renewed with upstream (none: it never ends there).
    pub length: Option<Duration>,
    /// When it was last renewed upstream, or made.
    pub renewed: UnixMillis,
    /// Since when Cube does not honour renewals.
    pub failing: Option<UnixMillis>,
}

impl Lease {
    /// A lease that begins now.
    #[must_use]
    pub fn new(id: LeaseId, keeper: Keeper, length: Option<Duration>, now: UnixMillis) -> Self {
        Self { id, keeper, length, renewed: now, failing: None }
    }

    /// Whether it is time to renew it upstream: after a third of its length, and at each beat while that fails.
    #[must_use]
    pub fn wants_renewal(&self, now: UnixMillis) -> bool {
        let third = self.length.map(|length| length / 3);
        third.is_some_and(|third| self.failing.is_some() || now.since(self.renewed) >= third)
    }
}

/// A holder has the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// As it is now.
    pub entry: Entry,
    /// The lease that was overtaken: it may never act again.
    pub sealed: Option<LeaseId>,
}

impl Entry {
    /// Since when the lease has lapsed, if it has: silent for `root_fresh`, or that long after Cube stopped honouring its
    /// renewals. A lease that is kept by calls does not lapse by silence.
    #[must_use]
    pub fn lease_lapsed(&self, now: UnixMillis, timing: &Timing) -> Option<UnixMillis> {
        let lease = self.lease.as_ref()?;
        let silent = (lease.keeper == Keeper::Heartbeats).then_some(self.last_sign);
        let ended = [silent, lease.failing].into_iter().flatten().min()?.plus(timing.root_fresh);
        (ended <= now).then_some(ended)
    }

    /// Whether a lease keeps it.
    #[must_use]
    pub fn leased(&self, now: UnixMillis, timing: &Timing) -> bool {
        let beats = self.lease.as_ref().is_some_and(|lease| lease.keeper == Keeper::Heartbeats);
        beats && self.lease_lapsed(now, timing).is_none()
    }

    /// Whether it is held by exactly this lease; or by none, if that is what is asked.
    #[must_use]
    pub fn is_held_by(&self, lease: Option<&LeaseId>) -> bool {
        self.lease.as_ref().map(|held| &held.id) == lease
    }

    /// A holder takes it: the present one again, or a new one under a new generation. Where its create was lost and found,
    /// nobody holds it yet, and whoever takes it is its first holder.
    ///
    /// # Errors
    /// [`Unfit`] unless live.
    pub fn acquire(mut self, lease: Lease, now: UnixMillis, timing: &Timing) -> Result<Acquired, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        let unclaimed = self.claim_until.take().is_some();
        self.last_sign = now;
        self.claims = self.claims.max(1);
        if self.lease.as_ref().is_some_and(|held| held.id == lease.id) {
            return Ok(Acquired { entry: self.reschedule(timing), sealed: None });
        }
        if !unclaimed {
            self.holders = self.holders.saturating_add(1);
            self.claims = self.claims.saturating_add(1);
        }
        self.generation = generation_after(Some(self.generation), now);
        let sealed = self.lease.replace(lease).map(|overtaken| overtaken.id);
        Ok(Acquired { entry: self.reschedule(timing), sealed })
    }

    /// The holder shows that it lives. A lapsed lease that nobody overtook lives again.
    ///
    /// # Errors
    /// [`Unfit`] unless live.
    pub fn beat(mut self, now: UnixMillis) -> Result<Self, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        self.last_sign = now;
        self.claims = self.claims.max(1);
        Ok(self)
    }

    /// Cube was asked to renew and showed this end: the lease goes on, or begins to end. What was asked for a holder that is
    /// gone by now changes nothing.
    #[must_use]
    pub fn renewed(
        mut self,
        lease: &LeaseId,
        until: Result<Option<UnixMillis>, ()>,
        now: UnixMillis,
        timing: &Timing,
    ) -> Self {
        if !self.usable() {
            return self;
        }
        let Some(held) = self.lease.as_mut().filter(|held| held.id == *lease) else { return self };
        let Ok(deadline) = until else {
            held.failing.get_or_insert(now);
            return self;
        };
        (held.renewed, held.failing) = (now, None);
        self.deadline = deadline;
        self.reschedule(timing)
    }

    /// Somebody who cannot prove to be the present holder gives up a claim.
    ///
    /// # Errors
    /// [`Unfit`] unless live.
    pub fn drop_claim(mut self, timing: &Timing) -> Result<Self, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        self.claims = self.claims.saturating_sub(1);
        Ok(self.reschedule(timing))
    }
}

#[cfg(test)]
mod tests;
