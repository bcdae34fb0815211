//! Calls that touch a sandbox are registered on its entry while they are under way.
//!
//! The registration is what keeps a collector away and what makes a delete wait for its proof. It lapses by itself.

use std::time::Duration;

use super::{Ledger, LedgerError, Step};
use crate::ids::{Marker, OperationId};
use crate::rules::entry::{Effect, Entry, Operation};

/// Whether a call may touch the sandbox.
#[derive(Clone, Debug)]
pub enum Began {
    /// It is registered.
    Registered(OperationId),
    /// The entry is dead to callers.
    Dead,
}

impl Ledger {
    /// Registers a call of `kind` that takes at most `budget` upstream.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    ///
    /// # Panics
    /// Never: eight random bytes are an operation id.
    pub async fn begin(&self, marker: &Marker, kind: &str, budget: Duration) -> Result<Began, LedgerError> {
        let id = OperationId::new(&self.chance.hex(8)).expect("eight bytes are sixteen hexadecimal digits");
        let began = self
            .change(marker, |entry, now| {
                let operation = Operation { id: id.clone(), kind: kind.to_owned(), until: now.plus(budget) };
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
