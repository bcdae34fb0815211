//! A create on its way: dispatched, then done, refused or lost.

use std::sync::PoisonError;

use super::memory::Seen;
use super::{Decision, Ledger, LedgerError, Step, entry_in, erase, marker_in, rewrite};
use crate::ids::{LeaseId, Marker};
use crate::rules::entry::{Actor, Birth, Entry, State, Unfit};
use crate::store::schema::Key;
use crate::store::{Batch, Snapshot, Version};
use crate::time::UnixMillis;

/// How many entries are read at once where all must be looked at.
pub(super) const PAGE: usize = 500;
/// Creates that were not sent and may hold a slot, at most.
const MOST_UNSENT: usize = 1024;

/// Where a sandbox is born: its entry, and who has its name so far.
struct Birthplace {
    seen: Seen,
    name_version: Version,
    displaced: Option<(Entry, Version)>,
}

impl Ledger {
    /// reserved → dispatched. Only after this may a byte go upstream.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; `Ok(None)` if the reservation is no longer there (it lapsed).
    pub async fn dispatch(&self, marker: &Marker) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        let outcome = self
            .change(marker, |entry, now| match entry.dispatch(now, &timing) {
                Ok(next) => Step::Write(Box::new(next.clone()), None, Some(next)),
                Err(_) => Step::Keep(None),
            })
            .await?;
        Ok(outcome.flatten())
    }

    /// dispatched (or already found by the reconciler) → live: Cube said so to the create that began with `lease`. What is
    /// returned may be another holder's by now.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn done(
        &self,
        marker: &Marker,
        birth: &Birth,
        lease: Option<&LeaseId>,
    ) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        let born = |entry: Entry, now| {
            let late = entry.clone().answered_late(birth.clone());
            entry.answered(birth.clone(), lease, now, &timing).or(late)
        };
        self.give_birth(marker, birth, born).await
    }

    /// dispatched → killing: Cube said so, but nobody awaits the answer and nothing could claim the sandbox. One commit:
    /// a crash in between would leave it alive and nobody's.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn done_for_nobody(
        &self,
        marker: &Marker,
        birth: &Birth,
    ) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        let born = |entry: Entry, now| {
            entry.answered(birth.clone(), None, now, &timing)?.condemn(Actor::Abandoned, now)
        };
        let entry = self.give_birth(marker, birth, born).await?;
        self.wake();
        Ok(entry)
    }

    /// ambiguous → live or killing: a listing showed the marker.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn found(&self, marker: &Marker, birth: &Birth) -> Result<Option<Entry>, LedgerError> {
        let timing = self.settings.timing;
        self.give_birth(marker, birth, |entry, now| entry.found(birth.clone(), now, &timing)).await
    }

    /// Writes the sandbox's name together with the entry. If the inventory took the sandbox for one made round the
    /// warden meanwhile (its labels were not shown), that record gives way: one sandbox, one entry.
    pub(super) async fn give_birth(
        &self,
        marker: &Marker,
        birth: &Birth,
        rule: impl Fn(Entry, UnixMillis) -> Result<Entry, Unfit>,
    ) -> Result<Option<Entry>, LedgerError> {
        let name = Key::Sandbox(birth.sandbox.clone());
        // The create's own answer mostly comes first: its entry is in hand, and nobody has the name yet.
        let mut in_hand =
            self.in_hand(marker).map(|seen| Birthplace { seen, name_version: 0, displaced: None });
        for _ in 0..super::ATTEMPTS {
            let place = if in_hand.is_some() {
                in_hand.take()
            } else {
                self.look_at_birthplace(marker, &name).await?
            };
            let Some(Birthplace { seen, name_version, displaced }) = place else { return Ok(None) };
            let next = match rule(seen.entry.clone(), seen.now) {
                Ok(next) => inherit(next, displaced.as_ref().map(|(other, _)| other), seen.now),
                Err(_) if seen.until.is_some() => continue,
                Err(_) => return Ok(Some(seen.entry)),
            };
            let mut batch = rewrite(&seen.entry, seen.version, &next);
            batch.until = seen.until;
            batch.expect.push((name.clone(), name_version));
            batch.put.push((name.clone(), marker.as_str().into()));
            if let Some((other, version)) = &displaced {
                displace(other, *version, &mut batch);
            }
            let decision = Decision::about(&next, next.state.name(), "the sandbox exists");
            self.record(&mut batch, decision, seen.now);
            if self.commit(batch, &next).await? {
                return Ok(Some(next));
            }
        }
        Err(LedgerError::Contended(Key::Entry(marker.clone()).to_string()))
    }

    async fn look_at_birthplace(
        &self,
        marker: &Marker,
        name: &Key,
    ) -> Result<Option<Birthplace>, LedgerError> {
        let keys = [Key::Entry(marker.clone()), name.clone()];
        let Snapshot { now, records, .. } = self.read(&keys).await?;
        let Some((entry, version)) = entry_in(&keys[0], &records[0])? else { return Ok(None) };
        let displaced = match marker_in(name, &records[1])?.filter(|other| other != marker) {
            Some(other) => self.versioned(&other).await?,
            None => None,
        };
        let seen = Seen { entry, version, now, until: None };
        Ok(Some(Birthplace { seen, name_version: records[1].version, displaced }))
    }

    /// reserved, dispatched → refused: Cube definitely did not make it, or it was never sent. The slot is back at once.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn refused(&self, marker: &Marker, why: &str) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| match entry.refuse(now, &timing) {
            Ok(next) => {
                let decision = Decision::about(&next, "released", why);
                Step::Write(Box::new(next), Some(decision), ())
            }
            Err(_) => Step::Keep(()),
        })
        .await?;
        Ok(())
    }

    /// A create was not sent, because nobody knows whether its slot was taken. Whatever it holds is given back by a task.
    /// Of a long outage only the first matter: these were on their way when it began.
    pub fn never_sent(&self, marker: &Marker) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        if unsent.len() < MOST_UNSENT {
            unsent.push(marker.clone());
        }
        drop(unsent);
        self.wake();
    }

    /// Gives back the slots of creates that were not sent.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; those that are left are remembered.
    pub async fn give_back(&self) -> Result<(), LedgerError> {
        let last = || self.unsent.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
        while let Some(marker) = last() {
            match self.refused(&marker, "it was not sent").await {
                Err(error) if !error.is_corrupt() => return Err(error),
                // What cannot be read is reported by whoever looks at what is due.
                Ok(()) | Err(_) => {}
            }
            self.unsent.lock().unwrap_or_else(PoisonError::into_inner).retain(|unsent| *unsent != marker);
        }
        Ok(())
    }

    /// dispatched → ambiguous: it may have happened. Still charged; the reconciler looks for it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn lost(&self, marker: &Marker, why: &str) -> Result<(), LedgerError> {
        self.change(marker, |entry, now| match entry.lose(now) {
            Ok(next) => {
                let decision = Decision::about(&next, "ambiguous", why);
                Step::Write(Box::new(next), Some(decision), ())
            }
            Err(_) => Step::Keep(()),
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// A trusted listing that began after dispatch did not show it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn missed(&self, marker: &Marker) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| match entry.missed(now, &timing) {
            Ok(next) => {
                let decision =
                    (!next.charged()).then(|| Decision::about(&next, "released", "it never came to be"));
                Step::Write(Box::new(next), decision, ())
            }
            Err(_) => Step::Keep(()),
        })
        .await?;
        Ok(())
    }

    /// The listing could not be made or trusted; the search goes on later.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn search_failed(&self, marker: &Marker) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| match entry.search_failed(now, &timing) {
            Ok(next) => Step::Write(Box::new(next), None, ()),
            Err(_) => Step::Keep(()),
        })
        .await?;
        Ok(())
    }

    /// A reservation whose time is over, or a create whose process never settled it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn overdue(&self, marker: &Marker) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| {
            let next = match entry.state {
                State::Reserved => entry.lapse(now, &timing),
                State::Dispatched => entry.lose(now),
                State::Live(_) if entry.claim_until.is_some_and(|until| until <= now) => {
                    entry.condemn(Actor::Recovery, now)
                }
                _ => return Step::Keep(()),
            };
            match next {
                Ok(next) => {
                    let decision = Decision::about(&next, next.state.name(), "its time is over");
                    Step::Write(Box::new(next), Some(decision), ())
                }
                Err(_) => Step::Keep(()),
            }
        })
        .await?;
        Ok(())
    }
}

/// What was condemned under the record that gives way stays condemned: from killing there is no way back.
fn inherit(next: Entry, displaced: Option<&Entry>, now: UnixMillis) -> Entry {
    match displaced.map(|other| &other.state) {
        Some(State::Killing(kill) | State::Quarantined(kill)) => {
            next.clone().condemn(kill.actor, now).unwrap_or(next)
        }
        _ => next,
    }
}

pub(super) fn displace(other: &Entry, version: Version, batch: &mut Batch) {
    let gone = erase(other, version);
    batch.expect.extend(gone.expect);
    batch.remove.extend(gone.remove);
    batch.leave.extend(gone.leave);
    batch.appointments.extend(gone.appointments);
}
