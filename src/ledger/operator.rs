//! The operator's word: hold, let go, release for judgement. An end by an operator is `condemn`, as anybody's.

use super::{Decision, Ledger, LedgerError, Step};
use crate::ids::Marker;
use crate::rules::entry::{Actor, Entry};

/// What became of an operator's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heeded {
    /// It holds from now on.
    Yes,
    /// It was so already.
    Already,
    /// The entry is condemned or dead.
    TooLate,
    /// There is no such entry.
    NotFound,
}

impl Ledger {
    /// Keeps the sandbox from every decision of the wardens, until [`unhold`](Self::unhold).
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn hold(&self, marker: &Marker, reason: &str) -> Result<Heeded, LedgerError> {
        self.heed(marker, "held", reason, |entry, now| match entry.keep(reason, now) {
            Ok(next) => Ok(next),
            Err(_) => Err(Heeded::TooLate),
        })
        .await
    }

    /// Takes a hold back.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn unhold(&self, marker: &Marker) -> Result<Heeded, LedgerError> {
        let why = "the operator keeps it no longer";
        self.heed(marker, "unheld", why, |entry, _now| entry.let_go().ok_or(Heeded::Already)).await
    }

    /// Lets what was found, not made, be judged.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn release_import(&self, marker: &Marker) -> Result<Heeded, LedgerError> {
        let why = "an operator released it for judgement";
        self.heed(marker, "released_import", why, |entry, now| {
            if !entry.charged() || entry.kill().is_some() {
                return Err(Heeded::TooLate);
            }
            entry.release(now).ok_or(Heeded::Already)
        })
        .await
    }

    async fn heed(
        &self,
        marker: &Marker,
        kind: &str,
        why: &str,
        rule: impl Fn(Entry, crate::time::UnixMillis) -> Result<Entry, Heeded>,
    ) -> Result<Heeded, LedgerError> {
        let heeded = self.change(marker, |entry, now| match rule(entry, now) {
            Ok(next) => {
                let decision = Decision::about(&next, kind, why).by(Actor::Operator);
                Step::Write(Box::new(next), Some(decision), Heeded::Yes)
            }
            Err(heeded) => Step::Keep(heeded),
        });
        Ok(heeded.await?.unwrap_or(Heeded::NotFound))
    }
}
