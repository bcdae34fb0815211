//! The guard before upstream writes: holds the rules of the write path under one short lock, and the lines of those who wait.
//!
//! Must stay true: whoever is let go holds a [`Place`] and tells it what came of the write; however it ends, also by a panic or a
//! dropped future, the place comes back and the next in line is looked at. The lock is held for some arithmetic and never
//! across a wait. Each change is logged once, with its reason. Deliberately absent: who may wait how long, and what a refused
//! caller is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Response;
use tokio::sync::oneshot;

use super::outcome::{self, Asked, Outcome};
use super::transport::TransportError;
use crate::rules::breaker::{self, Told};
use crate::rules::lanes::Lane;
use crate::rules::recovery;
use crate::rules::write_path::{Answer, Event, Events, Limits, Shut, Ticket, View, WritePath};
use crate::time::Clock;

/// Told of each event, for the counters.
pub type Observe = Arc<dyn Fn(Event) + Send + Sync>;

/// Reads an answer to a write by the one table, as far as the write path is concerned.
#[must_use]
pub fn told(asked: Asked, answer: &Result<Response<Bytes>, TransportError>) -> Told {
    match answer {
        Ok(answer) => match outcome::outcome(asked, answer.status().as_u16(), answer.body()) {
            Outcome::Done => Told::Done,
            Outcome::Refused { slow_down: true } => Told::SlowDown,
            Outcome::Refused { slow_down: false } => Told::Refused,
            Outcome::Unknown => Told::Unclear,
        },
        Err(TransportError::NotSent(_)) => Told::Unsent,
        Err(TransportError::Lost(_)) => Told::Unclear,
    }
}

/// The guard of one upstream.
pub struct Guard {
    inner: Mutex<Inner>,
    clock: Arc<dyn Clock>,
    observe: Observe,
}

struct Inner {
    path: WritePath,
    /// Who waits, by lane, first come first.
    lines: [VecDeque<oneshot::Sender<Result<Place, Shut>>>; 4],
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// What somebody who wants to write gets at once.
#[derive(Debug)]
pub enum Entered {
    /// A place.
    Now(Place),
    /// A place in line.
    InLine(InLine),
}

/// A place in line; whoever drops it has left.
#[derive(Debug)]
pub struct InLine(oneshot::Receiver<Result<Place, Shut>>);

impl InLine {
    /// Ready when it is its turn.
    ///
    /// # Errors
    /// [`Shut`] if creates are not sent any more.
    ///
    /// # Panics
    /// Never: the guard lives as long as somebody holds it, and answers everybody in its lines.
    pub async fn turn(self) -> Result<Place, Shut> {
        self.0.await.expect("the guard answers whoever waits, and outlives them by their own handle on it")
    }
}

/// Leave to send one write. It comes back when dropped.
#[must_use]
#[derive(Debug)]
pub struct Place {
    guard: Arc<Guard>,
    ticket: Ticket,
    told: Told,
}

impl Place {
    /// It is being sent: from here on whoever gives up leaves something unclear behind.
    pub(super) fn sends(&mut self) {
        self.told = Told::Abandoned;
    }

    /// What came of it. Of several writes in one place the last counts.
    pub(super) fn tell(&mut self, told: Told) {
        self.told = told;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.guard.leave(self.ticket, self.told);
    }
}

impl Guard {
    /// A guard with everything closed and empty.
    #[must_use]
    pub fn new(limits: Limits, clock: Arc<dyn Clock>, observe: Observe) -> Self {
        let inner = Inner { path: WritePath::new(limits), lines: Default::default() };
        Self { inner: Mutex::new(inner), clock, observe }
    }

    /// Would a create be let go now, if there were room? Asked before it takes a slot.
    ///
    /// # Errors
    /// [`Shut`].
    pub fn check_create(&self) -> Result<(), Shut> {
        self.step(|inner, events| inner.path.check_create(self.clock.now(), events))
    }

    /// Takes a place, or one in line.
    ///
    /// # Errors
    /// [`Shut`], for creates only.
    pub fn enter(self: &Arc<Self>, lane: Lane) -> Result<Entered, Shut> {
        let answer = self.step(|inner, events| {
            let queue = &mut inner.lines[lane.index()];
            forget_leavers(queue);
            match inner.path.enter(lane, !queue.is_empty(), self.clock.now(), events) {
                Answer::Go(ticket) => Ok(Ok(ticket)),
                Answer::Shut(shut) => Err(shut),
                Answer::Wait => {
                    let (turn, waits) = oneshot::channel();
                    queue.push_back(turn);
                    Ok(Err(waits))
                }
            }
        })?;
        Ok(match answer {
            Ok(ticket) => Entered::Now(self.place(ticket)),
            Err(waits) => Entered::InLine(InLine(waits)),
        })
    }

    /// A place for a delete, however long it takes.
    pub async fn delete(self: &Arc<Self>) -> Place {
        self.unrefused(Lane::Delete).await
    }

    /// A place for the warden's own wake-up of what it deletes.
    pub async fn wake(self: &Arc<Self>) -> Place {
        self.unrefused(Lane::Connect).await
    }

    /// A place for the warden's own renewal of a lease.
    pub async fn renew(self: &Arc<Self>) -> Place {
        self.unrefused(Lane::Renew).await
    }

    async fn unrefused(self: &Arc<Self>, lane: Lane) -> Place {
        let place = match self.enter(lane) {
            Ok(Entered::Now(place)) => Ok(place),
            Ok(Entered::InLine(waits)) => waits.turn().await,
            Err(shut) => Err(shut),
        };
        // Only creates are ever refused. Should a rule forget that, this one goes unasked rather than not at all.
        place.unwrap_or_else(|_shut| self.watch(lane))
    }

    /// A place without asking: where nothing may be refused or delayed, writes are only watched.
    pub fn watch(self: &Arc<Self>, lane: Lane) -> Place {
        let ticket = self.step(|inner, events| inner.path.watch(lane, self.clock.now(), events));
        self.place(ticket)
    }

    /// So many condemned sandboxes stand, without the quarantined ones. Called again and again: it also lets time pass.
    pub fn counted(self: &Arc<Self>, backlog: u64) {
        self.step(|inner, events| inner.path.counted(backlog, self.clock.now(), events));
        self.call_next();
    }

    /// What is to be seen.
    #[must_use]
    pub fn view(&self) -> View {
        self.step(|inner, events| {
            let waits =
                |line: &VecDeque<oneshot::Sender<_>>| line.iter().filter(|turn| !turn.is_closed()).count();
            let waiting = inner.lines.each_ref().map(|line| u32::try_from(waits(line)).unwrap_or(u32::MAX));
            inner.path.view(waiting, self.clock.now(), events)
        })
    }

    fn place(self: &Arc<Self>, ticket: Ticket) -> Place {
        Place { guard: Arc::clone(self), ticket, told: Told::Unsent }
    }

    fn leave(self: &Arc<Self>, ticket: Ticket, told: Told) {
        self.step(|inner, events| inner.path.leave(ticket, told, self.clock.now(), events));
        self.call_next();
    }

    /// Calls everybody whose turn it is. What nobody took comes back by its drop, outside of the lock.
    fn call_next(self: &Arc<Self>) {
        loop {
            let called = self.step(|inner, events| {
                let now = self.clock.now();
                inner.lines.iter_mut().for_each(forget_leavers);
                let lane = inner.path.next(|lane| !inner.lines[lane.index()].is_empty(), now, events)?;
                let turn = inner.lines[lane.index()].pop_front()?;
                Some((turn, inner.path.let_go(lane, now, events)))
            });
            let Some((turn, ticket)) = called else { return };
            // Whoever left at this very moment takes nothing: the place is dropped here, and calls the next.
            let _taken = turn.send(ticket.map(|ticket| self.place(ticket)));
        }
    }

    /// One step of the rules; what happened is told after the lock is free.
    fn step<T>(&self, step: impl FnOnce(&mut Inner, &mut Events) -> T) -> T {
        let mut events = Events::new();
        let result = step(&mut self.lock(), &mut events);
        for event in events {
            log(event);
            (self.observe)(event);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever has left the head of a line makes room for the next.
fn forget_leavers(line: &mut VecDeque<oneshot::Sender<Result<Place, Shut>>>) {
    while line.pop_front_if(|turn| turn.is_closed()).is_some() {}
}

fn log(event: Event) {
    match event {
        Event::Breaker(lane, change) => log_breaker(lane.name(), change),
        Event::Recovery(recovery::Change::Began(backlog)) => {
            tracing::warn!(
                backlog,
                "condemned sandboxes pile up: creates follow confirmed deletes until they are gone"
            );
        }
        Event::Recovery(recovery::Change::Ended(backlog)) => {
            tracing::info!(backlog, "the backlog of deletes is gone: creates flow freely");
        }
        Event::Shrank(limit) => tracing::info!(limit, "a write was lost: fewer writes go to Cube at once"),
    }
}

fn log_breaker(path: &'static str, change: breaker::Change) {
    match change {
        breaker::Change::OpenedByRow(failures) => {
            tracing::error!(path, failures, "writes fail one after the other: the breaker opens");
        }
        breaker::Change::OpenedByShare(failures, outcomes) => {
            tracing::error!(path, failures, outcomes, "too many writes fail: the breaker opens");
        }
        breaker::Change::Probes => tracing::debug!(path, "a probe goes"),
        breaker::Change::ProbeEnded(told) => tracing::debug!(path, ?told, "the probe closed nothing"),
        breaker::Change::Closed => tracing::info!(path, "a probe was done: the breaker closes"),
    }
}

#[cfg(test)]
mod tests;
