//! The write path in whole: the pool and its lanes, a breaker for creates and one for deletes, recovery.
//!
//! Must stay true: a create goes only if its breaker, its payment and the pool all let it, asked at the last moment; a delete
//! is never refused: while its breaker is open, one is always on its way and the others wait; renewals and connects wait for the
//! pool alone. The probe of creates goes beside the pool: it neither waits for a delete that hangs nor makes one wait. Whoever is let go has one [`Ticket`], and what came of it is told once.

use std::time::Duration;

use super::breaker::{self, Breaker, Pass, Told};
use super::lanes::{Lane, Pool, Taken};
use super::recovery::{self, Paid, Recovery};
use crate::time::UnixMillis;

/// Everything that the write path goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Writes at once, at most.
    pub most: u32,
    /// The breaker of creates. That of deletes is the same, without a wait: it always probes.
    pub breaker: breaker::Limits,
}

/// Leave to send one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its lane.
    pub lane: Lane,
    taken: Taken,
    pass: Option<Pass>,
    paid: Paid,
}

/// Why creates are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Creates fail.
    Open,
    /// Condemned sandboxes stand in the way.
    Recovering,
}

/// Creates are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut {
    /// Why.
    pub cause: Cause,
    /// Before this time it is of no use to ask again.
    pub wait: Duration,
}

/// What somebody who wants to write is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go.
    Go(Ticket),
    /// Wait for your turn.
    Wait,
    /// Not now.
    Shut(Shut),
}

/// Something that happened, for the log and the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The breaker of this lane moved.
    Breaker(Lane, breaker::Change),
    /// Recovery began or ended.
    Recovery(recovery::Change),
    /// The pool shrank to this limit.
    Shrank(u32),
}

/// What is to be seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The breaker of creates.
    pub creates: breaker::State,
    /// The breaker of deletes.
    pub deletes: breaker::State,
    /// Writes at once, at most, now.
    pub limit: u32,
    /// Writes on their way, by lane.
    pub in_use: [u32; 4],
    /// Writes that wait, by lane.
    pub waiting: [u32; 4],
    /// Whether creates are paid with deletes.
    pub recovering: bool,
    /// Confirmed deletes that are not spent.
    pub credit: u32,
    /// Condemned sandboxes, without the quarantined ones.
    pub backlog: u64,
    /// Deletes that were confirmed within the last minute.
    pub drained: u32,
}

/// The write path of one upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WritePath {
    creates: Breaker,
    deletes: Breaker,
    pool: Pool,
    recovery: Recovery,
}

/// The events of one step.
pub type Events = Vec<Event>;

impl WritePath {
    /// Everything closed and empty.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let always = breaker::Limits { wait: Duration::ZERO, wait_most: Duration::ZERO, ..limits.breaker };
        Self {
            creates: Breaker::new(limits.breaker),
            deletes: Breaker::new(always),
            pool: Pool::new(limits.most, limits.breaker.probe_deadline),
            recovery: Recovery::new(limits.breaker.wait, limits.most),
        }
    }

    /// Would a create be let go now, if there were room? Asked before it takes a slot.
    ///
    /// # Errors
    /// [`Shut`].
    pub fn check_create(&mut self, now: UnixMillis, events: &mut Events) -> Result<(), Shut> {
        self.pass_time(now, events);
        self.creates.check(now).map_err(|shut| self.open(shut, now))?;
        if !self.creates.is_closed() {
            return Ok(());
        }
        self.recovery.check(now).map_err(|wait| self.recovering(wait, now))
    }

    /// Somebody wants to write; `queued` says whether others of that lane wait already.
    pub fn enter(&mut self, lane: Lane, queued: bool, now: UnixMillis, events: &mut Events) -> Answer {
        self.pass_time(now, events);
        if lane == Lane::Create
            && let Err(shut) = self.check_create(now, events)
        {
            return Answer::Shut(shut);
        }
        if queued || !self.may_go(lane, now) {
            return Answer::Wait;
        }
        self.let_go(lane, now, events).map_or_else(Answer::Shut, Answer::Go)
    }

    /// Of the lanes in which somebody waits, the one whose first may go or must be told that it may not.
    pub fn next(
        &mut self,
        waits: impl Fn(Lane) -> bool,
        now: UnixMillis,
        events: &mut Events,
    ) -> Option<Lane> {
        self.pass_time(now, events);
        let shut = waits(Lane::Create) && self.check_create(now, events).is_err();
        if shut || (waits(Lane::Create) && self.probes_creates()) {
            return Some(Lane::Create);
        }
        let probes = self.deletes.check(now).is_ok();
        self.pool.next(|lane| waits(lane) && (lane != Lane::Delete || probes))
    }

    fn may_go(&self, lane: Lane, now: UnixMillis) -> bool {
        match lane {
            Lane::Create => self.probes_creates() || self.pool.has_room(lane),
            Lane::Delete => self.deletes.check(now).is_ok() && self.pool.has_room(lane),
            Lane::Renew | Lane::Connect => self.pool.has_room(lane),
        }
    }

    /// A create that goes now is the probe, for creates that may not go are never asked about.
    fn probes_creates(&self) -> bool {
        !self.creates.is_closed()
    }

    /// Lets one go that [`WritePath::next`] has named.
    ///
    /// # Errors
    /// [`Shut`], for creates only.
    pub fn let_go(&mut self, lane: Lane, now: UnixMillis, events: &mut Events) -> Result<Ticket, Shut> {
        let (pass, paid) = match lane {
            Lane::Create => {
                self.check_create(now, events)?;
                let (pass, change) = self.creates.begin(now).map_err(|shut| self.open(shut, now))?;
                events.extend(change.map(|change| Event::Breaker(lane, change)));
                // A probe tells whether deletes could pay for anything; it costs nothing itself.
                let paid = if pass.probe { Ok(Paid::Nothing) } else { self.recovery.pay(now) };
                (Some(pass), paid.map_err(|wait| self.recovering(wait, now))?)
            }
            Lane::Delete => (self.begin_delete(now, events), Paid::Nothing),
            Lane::Renew | Lane::Connect => (None, Paid::Nothing),
        };
        let beside = lane == Lane::Create && pass.is_some_and(|pass| pass.probe);
        let taken = if beside { self.pool.beside() } else { self.pool.take(lane, now) };
        Ok(Ticket { lane, taken, pass, paid })
    }

    fn begin_delete(&mut self, now: UnixMillis, events: &mut Events) -> Option<Pass> {
        let (pass, change) = self.deletes.begin(now).ok()?;
        events.extend(change.map(|change| Event::Breaker(Lane::Delete, change)));
        Some(pass)
    }

    /// One goes without asking, and is only watched: where nothing may be refused or delayed.
    pub fn watch(&mut self, lane: Lane, now: UnixMillis, events: &mut Events) -> Ticket {
        self.pass_time(now, events);
        let breaker = match lane {
            Lane::Create => Some(&mut self.creates),
            Lane::Delete => Some(&mut self.deletes),
            Lane::Renew | Lane::Connect => None,
        };
        let begun = breaker.map(|breaker| breaker.begin(now).unwrap_or((breaker.unasked(), None)));
        let (pass, change) = begun.map_or((None, None), |(pass, change)| (Some(pass), change));
        events.extend(change.map(|change| Event::Breaker(lane, change)));
        Ticket { lane, taken: self.pool.take(lane, now), pass, paid: Paid::Nothing }
    }

    /// What became of a write.
    pub fn leave(&mut self, ticket: Ticket, told: Told, now: UnixMillis, events: &mut Events) {
        self.pass_time(now, events);
        if self.pool.give_back(ticket.taken, told, now) {
            events.push(Event::Shrank(self.pool.limit()));
        }
        if ticket.lane == Lane::Delete && told == Told::Done {
            self.recovery.earn(now);
        }
        if matches!(told, Told::Refused | Told::SlowDown | Told::Unsent) {
            self.recovery.pay_back(ticket.paid);
        }
        let breaker = if ticket.lane == Lane::Create { &mut self.creates } else { &mut self.deletes };
        let change = ticket.pass.and_then(|pass| breaker.tell(pass, told, now));
        events.extend(change.map(|change| Event::Breaker(ticket.lane, change)));
        self.judge(now, events);
    }

    /// So many condemned sandboxes stand, without the quarantined ones.
    pub fn counted(&mut self, backlog: u64, now: UnixMillis, events: &mut Events) {
        self.pass_time(now, events);
        self.recovery.counted(backlog);
        self.judge(now, events);
    }

    fn judge(&mut self, now: UnixMillis, events: &mut Events) {
        let troubled = !self.creates.is_closed() || !self.deletes.is_closed();
        let change = self.recovery.judge(u64::from(self.pool.delete_share()), troubled, now);
        events.extend(change.map(Event::Recovery));
    }

    fn pass_time(&mut self, now: UnixMillis, events: &mut Events) {
        self.pool.pass_time(now);
        let creates = self.creates.pass_time(now).map(|change| Event::Breaker(Lane::Create, change));
        let deletes = self.deletes.pass_time(now).map(|change| Event::Breaker(Lane::Delete, change));
        events.extend(creates.into_iter().chain(deletes));
    }

    /// The breaker's own wait; where a backlog stands as well, not before that is gone.
    fn open(&mut self, breaker::Shut(wait): breaker::Shut, now: UnixMillis) -> Shut {
        let share = u64::from(self.pool.delete_share());
        let drains = self.recovery.is_on().then(|| self.recovery.until_drained(share, now)).flatten();
        Shut { cause: Cause::Open, wait: wait.max(drains.unwrap_or_default()) }
    }

    /// Until the backlog is gone, or where nothing drains, until one goes unpaid.
    fn recovering(&mut self, wait: Duration, now: UnixMillis) -> Shut {
        let drains = self.recovery.until_drained(u64::from(self.pool.delete_share()), now);
        Shut { cause: Cause::Recovering, wait: drains.unwrap_or(wait) }
    }

    /// What is to be seen.
    pub fn view(&mut self, waiting: [u32; 4], now: UnixMillis, events: &mut Events) -> View {
        self.pass_time(now, events);
        let mut in_use = self.pool.in_use();
        in_use[Lane::Create.index()] +=
            u32::from(matches!(self.creates.state(), breaker::State::HalfOpen { .. }));
        View {
            creates: self.creates.state(),
            deletes: self.deletes.state(),
            limit: self.pool.limit(),
            in_use,
            waiting,
            recovering: self.recovery.is_on(),
            credit: self.recovery.credit(),
            backlog: self.recovery.backlog(),
            drained: self.recovery.drained(now),
        }
    }
}

#[cfg(test)]
mod tests;
