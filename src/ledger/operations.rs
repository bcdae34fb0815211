//! Calls that touch a sandbox are registered on its entry while they are under way.
//!
//! The registration is what keeps a collector away and what makes a delete wait for its proof. It lapses by itself.

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
            .await?;
        Ok(began.unwrap_or(Began::Dead))
    }

    /// The call has ended with `effect`. Returns the entry as it is now: it may have been condemned meanwhile.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; the registration then lapses by itself.
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
            .await?;
        if entry.as_ref().is_some_and(|entry| !entry.usable()) {
            self.wake();
        }
        Ok(entry)
    }
}
