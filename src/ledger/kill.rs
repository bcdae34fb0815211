//! Ends: the intent is written down first; a task carries it out; only proof frees the slot.

use std::time::Duration;

use super::{Cause, Decision, Ledger, LedgerError, Step};
use crate::ids::{Marker, SandboxId};
use crate::rules::delete::{self, Decision as May, Shown};
use crate::rules::entry::{Actor, Birth, Entry, KillFailure, Proof, State, Struck, Unfit};
use crate::time::UnixMillis;

/// What became of a wish to end a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condemned {
    /// It is condemned, by this wish or an earlier one.
    Yes,
    /// It has ended, and whoever asked for that is told so now.
    Ended,
    /// Dead already, or never there.
    NotFound,
    /// A stale generation or lease; nothing was done.
    Fenced,
    /// It has had several holders, and which one asks is not shown; nothing was done.
    Unproven,
    /// Something keeps it; nothing was done.
    Kept,
    /// Not now: it is not born yet, or a call is under way.
    Later,
}

/// How one try to kill went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReport {
    /// Cube gave proof.
    Proof(Proof),
    /// Cube said when to ask again.
    Wait(Duration),
    /// A DELETE went out, and nobody knows what came of it.
    Unclear,
    /// Cube refused, or could not be asked.
    Failed,
}

impl KillReport {
    /// Whether this try reached the sandbox. Only after a DELETE without an answer is a GET asked for proof.
    fn struck(self) -> Struck {
        match self {
            Self::Proof(Proof::Deleted) => Struck::Surely,
            Self::Proof(Proof::GetNotFound) | Self::Unclear => Struck::Maybe,
            Self::Proof(_) | Self::Wait(_) | Self::Failed => Struck::Never,
        }
    }
}

impl Ledger {
    /// Condemns the sandbox for `actor`, who shows `shown`. The decision runs inside the commit.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn condemn(
        &self,
        marker: &Marker,
        actor: Actor,
        shown: &Shown,
        cause: impl Into<Cause<'_>>,
    ) -> Result<Condemned, LedgerError> {
        let timing = self.settings.timing;
        let Cause { why, request } = cause.into();
        let condemned = self
            .change(marker, |entry, now| match delete::decide(actor, shown, &entry, now, &timing) {
                May::Allow => match entry.condemn(actor, now) {
                    Ok(next) => {
                        let decision = Decision::about(&next, "condemned", why).by(actor).asked_by(request);
                        Step::Write(Box::new(next), Some(decision), Condemned::Yes)
                    }
                    Err(_) => Step::Keep(Condemned::Later),
                },
                May::Join => match joined(entry, actor, now) {
                    Some(next) => Step::Write(Box::new(next), None, Condemned::Yes),
                    None => Step::Keep(Condemned::Yes),
                },
                // Answered already, or not by a DELETE of ours: that stays a 404.
                May::NotFound => match entry.repay().filter(|_| actor == Actor::Client) {
                    Some(next) => Step::Write(Box::new(next), None, Condemned::Ended),
                    None => Step::Keep(Condemned::NotFound),
                },
                May::Fenced => {
                    // Nothing changes, but the stale wish is evidence worth keeping.
                    let decision = Decision::about(&entry, "fenced", why).by(actor).asked_by(request);
                    Step::Write(Box::new(entry), Some(decision), Condemned::Fenced)
                }
                May::Unproven => Step::Keep(Condemned::Unproven),
                May::Kept => Step::Keep(Condemned::Kept),
                May::Later => Step::Keep(Condemned::Later),
            })
            .await?;
        // A client's call carries its own delete out at once: to ring for each would have every entry that is being killed
        // looked at for every delete.
        if actor != Actor::Client {
            self.wake();
        }
        Ok(condemned.unwrap_or(Condemned::NotFound))
    }

    /// A client that asked for the end of `marker` goes without having been told of it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn owe(&self, marker: &Marker) -> Result<(), LedgerError> {
        self.change(marker, |entry, _now| {
            let next = entry.clone().owe();
            if next == entry { Step::Keep(()) } else { Step::Write(Box::new(next), None, ()) }
        })
        .await
        .map(|_| ())
    }

    /// Writes down how a try to kill went that began when the entry stood as `before`. Returns the entry as it is now.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn kill_tried(
        &self,
        before: &Entry,
        report: KillReport,
        why: &str,
    ) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        self.change(&before.marker, |entry, now| {
            let quarantined = matches!(entry.state, State::Quarantined(_));
            let entry = entry.struck(report.struck());
            let next = match report {
                KillReport::Proof(proof) => match entry.clone().ended(before, proof, now, &timing) {
                    Err(Unfit::Busy) => {
                        let wait = Duration::from_secs(1);
                        entry.kill_failed(KillFailure::InFlight { wait }, now, &timing)
                    }
                    Err(Unfit::Newborn) => entry.kill_failed(KillFailure::TooYoung, now, &timing),
                    settled => settled,
                },
                KillReport::Wait(wait) => entry.kill_failed(KillFailure::NotYet { wait }, now, &timing),
                KillReport::Failed | KillReport::Unclear => {
                    entry.kill_failed(KillFailure::Failed, now, &timing)
                }
            };
            let Ok(next) = next else { return Step::Keep(None) };
            let decision = match &next.state {
                State::Gone { proof, .. } => Some(Decision::about(&next, "gone", proof.name())),
                State::Quarantined(_) if !quarantined => Some(Decision::about(&next, "quarantined", why)),
                _ => None,
            };
            Step::Write(Box::new(next.clone()), decision, Some(next))
        })
        .await
        .map(Option::flatten)
    }

    /// A live entry that a GET no longer finds: gone if the proof holds, else looked at again later.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn not_found(&self, marker: &Marker) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| {
            if !entry.usable() {
                return Step::Keep(entry);
            }
            if let Ok(next) = entry.clone().absent(Proof::GetNotFound, now, &timing) {
                let decision = Decision::about(&next, "gone", Proof::GetNotFound.name());
                return Step::Write(Box::new(next.clone()), Some(decision), next);
            }
            let next = Entry { due: Some(now.plus(timing.search)), ..entry };
            Step::Write(Box::new(next.clone()), None, next)
        })
        .await
    }

    /// Cube shows a dead sandbox alive: it is charged and killed again. False if the entry is not dead.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn resurrected(&self, marker: &Marker, sandbox: &SandboxId) -> Result<bool, LedgerError> {
        let birth = Birth { sandbox: sandbox.clone(), answer: None, deadline: None };
        let risen = std::sync::atomic::AtomicBool::new(false);
        self.give_birth(marker, &birth, |entry, now| {
            let next = entry.resurrect(sandbox.clone(), now);
            risen.store(next.is_ok(), std::sync::atomic::Ordering::Relaxed);
            next
        })
        .await?;
        self.wake();
        Ok(risen.into_inner())
    }
}

/// What somebody's joining changes in a kill: a quarantined one is tried at once, and a client that was owed its end waits
/// for it again. `None`: nothing.
fn joined(entry: Entry, actor: Actor, now: UnixMillis) -> Option<Entry> {
    let waits = entry.clone().repay().filter(|_| actor == Actor::Client);
    let hurries = matches!(entry.state, State::Quarantined(_));
    match (waits, hurries) {
        (waits, false) => waits,
        (waits, true) => waits.unwrap_or(entry).hurry(now).ok(),
    }
}
