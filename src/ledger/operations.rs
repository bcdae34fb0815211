//! Calls that touch a sandbox are registered on its entry while they are under way.
//!
//! The registration is what keeps a collector away and what makes a delete wait for its proof. It lapses by itself; but a
//! process that knows that a call is over, and could not write that down, does so as soon as the ledger can be asked: a
//! delete would wait for minutes otherwise, and hold its slot.

use std::sync::PoisonError;
use std::time::Duration;

use super::{Ledger, LedgerError, Step};
use crate::ids::{Marker, OperationId};
use crate::rules::delete::{self, Decision as May, Reach, Shown};
use crate::rules::entry::{Effect, Entry, Operation};

/// Whether a call may touch the sandbox.
#[derive(Clone, Debug)]
pub enum Began {
    /// It is registered.
    Registered(OperationId),
    /// The entry is dead to callers.
    Dead,
    /// It lives, and the caller shows the generation or lease of an earlier holder.
    Fenced,
    /// It has had several holders, and the caller does not show which one it is.
    Unproven,
}

/// Of so many calls it is remembered that they are over; those of all others lapse.
const MOST_UNWRITTEN: usize = 1024;

/// A call that is over, which the ledger may not know.
#[derive(Clone, Debug)]
pub(super) struct Unwritten {
    marker: Marker,
    operation: OperationId,
    effect: Effect,
}

/// A call that is to be registered.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// What kind of call.
    pub kind: &'a str,
    /// How long it takes upstream at most.
    pub budget: Duration,
    /// What it would do to the life of the sandbox.
    pub reach: Reach,
    /// What its caller shows.
    pub shown: &'a Shown,
}

impl Ledger {
    /// Registers a call, if its caller may make it: what that needs is decided inside the commit.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    ///
    /// # Panics
    /// Never: eight random bytes are an operation id.
    pub async fn begin(&self, marker: &Marker, call: Beginning<'_>) -> Result<Began, LedgerError> {
        let id = OperationId::new(&self.chance.hex(8)).expect("eight bytes are sixteen hexadecimal digits");
        let timing = self.settings.timing;
        let began = self
            .change(marker, |entry, now| {
                match delete::may_touch(call.reach, call.shown, &entry, now, &timing) {
                    May::Fenced => return Step::Keep(Began::Fenced),
                    May::Unproven => return Step::Keep(Began::Unproven),
                    // `Entry::begin` knows what is dead.
                    _ => {}
                }
                let (kind, until) = (call.kind.to_owned(), now.plus(call.budget));
                let operation = Operation { id: id.clone(), kind, until };
                match entry.begin(operation, now) {
                    Ok(next) => Step::Write(Box::new(next), None, Began::Registered(id.clone())),
                    Err(_) => Step::Keep(Began::Dead),
                }
            })
            .await;
        if began.is_err() {
            // It may be registered all the same, and nothing is sent.
            self.remember_ended(marker, &id, Effect::None);
        }
        Ok(began?.unwrap_or(Began::Dead))
    }

    /// The call has ended with `effect`. Returns the entry as it is now: it may have been condemned meanwhile.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; a task writes it down later.
    pub async fn end(
        &self,
        marker: &Marker,
        operation: &OperationId,
        effect: Effect,
    ) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        let entry = self
            .change(marker, |entry, now| {
                let next = entry.end(operation, effect, now, &timing);
                Step::Write(Box::new(next.clone()), None, next)
            })
            .await;
        if entry.is_err() {
            self.remember_ended(marker, operation, effect);
        }
        let entry = entry?;
        if entry.as_ref().is_some_and(|entry| !entry.usable()) {
            self.wake();
        }
        Ok(entry)
    }

    fn remember_ended(&self, marker: &Marker, operation: &OperationId, effect: Effect) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        if unwritten.len() < MOST_UNWRITTEN {
            let (marker, operation) = (marker.clone(), operation.clone());
            unwritten.push(Unwritten { marker, operation, effect });
        }
    }

    /// Writes down which calls are over, as far as that could not be done when they ended.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; those that are left are remembered.
    pub async fn write_ended(&self) -> Result<(), LedgerError> {
        let first = || self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
        let timing = self.settings.timing;
        while let Some(Unwritten { marker, operation, effect }) = first() {
            let step = |entry: Entry, now| match entry.end_late(&operation, effect, now, &timing) {
                Some(next) => Step::Write(Box::new(next), None, ()),
                None => Step::Keep(()),
            };
            match self.change(&marker, step).await {
                Err(error) if !error.is_corrupt() => return Err(error),
                // What cannot be read is reported by whoever looks at what is due.
                Ok(_) | Err(_) => {}
            }
            let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
            unwritten.retain(|other| other.operation != operation);
        }
        Ok(())
    }
}
