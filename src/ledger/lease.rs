//! Leases: which entry an owner holds, under which generation, and which lease ids may never act again.
//!
//! Must stay true: an owner's claim is taken in the commit that takes the slot, so that two creates of one owner become one
//! sandbox; whoever overtakes or ends a lease seals its id in the same commit; a sealed id never acquires, beats or
//! releases again. Deliberately absent: waking and renewing upstream (the calls do that and say what Cube answered).

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Decision, Ledger, LedgerError, Step, bytes_in, corrupt, entry_in, rewrite};
use crate::ids::{Bucket, Generation, LeaseId, Marker, OwnerId};
use crate::rules::delete::{self, Decision as May, Shown};
use crate::rules::entry::{Actor, Entry, Keeper, Lease, Timing, Unfit};
use crate::store::schema::{self, Key, Sealed};
use crate::store::{Appointment, Batch, Snapshot, Version};
use crate::time::UnixMillis;

/// How long a sealed lease id is remembered: longer than any client could come back.
pub(super) const SEALED_FOR: Duration = Duration::from_secs(30 * 24 * 3600);
/// What the appointments of seals begin with; markers begin otherwise.
pub(super) const SEAL: &str = "z:";

/// The lease that a create or an acquirer would hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasePlan {
    /// Its name.
    pub id: LeaseId,
    /// What keeps it.
    pub keeper: Keeper,
    /// The timeout it is renewed with upstream (none: never ends there).
    pub length: Option<Duration>,
    /// Hash of what is asked for, metadata and timeout apart.
    pub asked_for: String,
}

impl LeasePlan {
    /// The lease, from `now` on.
    #[must_use]
    pub fn begin(&self, now: UnixMillis) -> Lease {
        Lease::new(self.id.clone(), self.keeper, self.length, now)
    }
}

/// An owner that holds nothing, as read: whoever reserves with this claims it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerClaim {
    version: Version,
    /// The last generation that its owner's record knows.
    pub(super) last: Option<Generation>,
}

impl OwnerClaim {
    /// Adds to a batch that `entry` is what its owner holds, by a lease that is not sealed.
    pub(super) fn take_in(&self, batch: &mut Batch, entry: &Entry, plan: &LeasePlan) {
        let owner = Key::Owner(entry.bucket.clone(), entry.owner.clone());
        let record = schema::Holding { marker: entry.marker.to_string(), generation: entry.generation.0 };
        batch.expect.push((owner.clone(), self.version));
        batch.expect.push((sealed_key(&entry.bucket, &entry.owner, &plan.id), 0));
        batch.put.push((owner, schema::encode(&record)));
    }
}

/// What an owner holds.
#[derive(Clone, Debug)]
pub enum Holding {
    /// Nothing that lives: the claim may be taken.
    Free(OwnerClaim),
    /// A create on its way: whoever comes now joins it.
    OnItsWay(Box<Entry>),
    /// A living sandbox.
    Held(Box<Entry>),
    /// The lease id that was presented is sealed.
    Sealed,
}

/// What became of an acquisition.
#[derive(Clone, Debug)]
pub enum Acquired {
    /// It is held under the entry's generation.
    Yes(Box<Entry>),
    /// The sandbox asked for is another than the one that lives.
    Other,
    /// The lease id is sealed.
    Sealed,
    /// It died meanwhile: look again.
    Dead,
}

/// What became of what a holder asked for by its lease.
#[derive(Clone, Debug)]
pub enum ByHolder {
    /// It is done.
    Done(Box<Entry>),
    /// The lease id is sealed.
    Sealed,
    /// The owner does not hold that lease.
    Mismatch,
    /// Its create is still on its way.
    Later,
}

fn sealed_key(bucket: &Bucket, owner: &OwnerId, lease: &LeaseId) -> Key {
    let mut hasher = Sha256::new();
    for part in [bucket.to_string().as_str(), owner.as_str(), lease.as_str()] {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    Key::Sealed(hex::encode(hasher.finalize()))
}

/// Seals the lease that ends with this step, if one does: overtaken, or ended by its holder, its client or an operator.
pub(super) fn seal_in(batch: &mut Batch, old: &Entry, new: &Entry, now: UnixMillis) {
    let Some(lease) = &old.lease else { return };
    let overtaken = new.lease.as_ref().is_none_or(|held| held.id != lease.id);
    let ended = old.usable() && new.kill().is_some_and(|kill| !kill.actor.yields());
    if !(overtaken || ended) {
        return;
    }
    let key = sealed_key(&old.bucket, &old.owner, &lease.id);
    let forgotten = Some(now.plus(SEALED_FOR));
    batch.appointments.push(Appointment { member: key.to_string(), was: None, is: forgotten });
    batch.put.push((key, schema::encode(&Sealed { since: now.0 })));
}

impl Ledger {
    /// A new name for a lease.
    ///
    /// # Panics
    /// Never: sixteen random bytes are a lease id.
    #[must_use]
    pub fn new_lease_id(&self) -> LeaseId {
        LeaseId::new(&self.chance.hex(16)).expect("thirty-two hexadecimal digits are a lease id")
    }

    /// What an owner holds; and whether the lease id that a caller presents may act at all.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn holding(
        &self,
        bucket: &Bucket,
        owner: &OwnerId,
        lease: Option<&LeaseId>,
    ) -> Result<Holding, LedgerError> {
        let mut keys = vec![Key::Owner(bucket.clone(), owner.clone())];
        keys.extend(lease.map(|lease| sealed_key(bucket, owner, lease)));
        let Snapshot { records, .. } = self.read(&keys).await?;
        if records.get(1).is_some_and(|sealed| sealed.version != 0) {
            return Ok(Holding::Sealed);
        }
        let free = |last| Holding::Free(OwnerClaim { version: records[0].version, last });
        let Some(bytes) = bytes_in(&keys[0], &records[0])? else { return Ok(free(None)) };
        let held: schema::Holding = schema::decode(bytes).map_err(|what| corrupt(&keys[0], what))?;
        let marker = Marker::new(&held.marker).map_err(|error| corrupt(&keys[0], error.to_string()))?;
        let entry = self.entry(&marker).await?.filter(|entry| self.is_here(entry));
        let last = entry.as_ref().map_or(Generation(held.generation), |entry| entry.generation);
        Ok(match entry {
            Some(entry) if entry.usable() => Holding::Held(Box::new(entry)),
            Some(entry) if entry.charged() && entry.kill().is_none() => Holding::OnItsWay(Box::new(entry)),
            _ => free(Some(last)),
        })
    }

    /// The living entry of `marker` goes to a holder with this plan, under a new generation unless it is the present holder.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn acquire(&self, marker: &Marker, plan: &LeasePlan) -> Result<Acquired, LedgerError> {
        let timing = self.settings.timing;
        let key = Key::Entry(marker.clone());
        for _ in 0..super::ATTEMPTS {
            let Some(read) = self.entry(marker).await? else { return Ok(Acquired::Dead) };
            let keys = [key.clone(), sealed_key(&read.bucket, &read.owner, &plan.id)];
            let Snapshot { now, records, .. } = self.read(&keys).await?;
            let Some((entry, version)) = entry_in(&key, &records[0])? else { return Ok(Acquired::Dead) };
            if records[1].version != 0 {
                return Ok(Acquired::Sealed);
            }
            if entry.asked_for.as_ref().is_some_and(|asked_for| *asked_for != plan.asked_for) {
                return Ok(Acquired::Other);
            }
            let Ok(acquired) = entry.clone().acquire(plan.begin(now), now, &timing) else {
                return Ok(Acquired::Dead);
            };
            let next = acquired.entry;
            let mut batch = rewrite(&entry, version, &next);
            seal_in(&mut batch, &entry, &next, now);
            batch.expect.push((keys[1].clone(), 0));
            if next.generation != entry.generation {
                self.record(&mut batch, Decision::about(&next, "reused", "its owner asked again"), now);
            }
            if self.commit(batch, &next).await? {
                return Ok(Acquired::Yes(Box::new(next)));
            }
        }
        Err(LedgerError::Contended(key.to_string()))
    }

    /// The holder of a lease shows that it lives.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn lease_beat(
        &self,
        bucket: &Bucket,
        owner: &OwnerId,
        lease: &LeaseId,
    ) -> Result<ByHolder, LedgerError> {
        let held = self.held_by(bucket, owner, lease).await?;
        let Ok(marker) = held else { return Ok(held.err().unwrap_or(ByHolder::Mismatch)) };
        let beaten = self
            .change(&marker, |entry, now| {
                if !holds(&entry, lease) {
                    return Step::Keep(ByHolder::Mismatch);
                }
                match entry.beat(now) {
                    Ok(next) => Step::Write(Box::new(next.clone()), None, ByHolder::Done(Box::new(next))),
                    Err(Unfit::State(_) | Unfit::Busy | Unfit::Newborn) => Step::Keep(ByHolder::Later),
                }
            })
            .await?;
        Ok(beaten.unwrap_or(ByHolder::Mismatch))
    }

    /// Cube was asked to renew the lease and showed this end (or did not honour it).
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn lease_renewed(
        &self,
        marker: &Marker,
        lease: &LeaseId,
        until: Result<Option<UnixMillis>, ()>,
    ) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| {
            let next = entry.clone().renewed(lease, until, now, &timing);
            let failing = |entry: &Entry| entry.lease.as_ref().is_some_and(|lease| lease.failing.is_some());
            let fails_now = failing(&next) && !failing(&entry);
            let decision =
                fails_now.then(|| Decision::about(&next, "renewal_failed", "Cube did not move the end"));
            if next == entry { Step::Keep(()) } else { Step::Write(Box::new(next), decision, ()) }
        })
        .await?;
        Ok(())
    }

    /// The holder of a lease releases it: its sandbox is condemned.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn release(
        &self,
        bucket: &Bucket,
        owner: &OwnerId,
        lease: &LeaseId,
    ) -> Result<ByHolder, LedgerError> {
        let timing = self.settings.timing;
        let held = self.held_by(bucket, owner, lease).await?;
        let Ok(marker) = held else { return Ok(held.err().unwrap_or(ByHolder::Mismatch)) };
        let shown = Shown { lease: Some(lease.clone()), ..Shown::nothing() };
        let released = self
            .change(&marker, |entry, now| {
                match delete::decide(Actor::Holder, &shown, &entry, now, &timing) {
                    May::Allow => {}
                    May::Join => return Step::Keep(ByHolder::Done(Box::new(entry))),
                    May::Later => return Step::Keep(ByHolder::Later),
                    _ => return Step::Keep(ByHolder::Mismatch),
                }
                let Ok(next) = entry.condemn(Actor::Holder, now) else {
                    return Step::Keep(ByHolder::Mismatch);
                };
                let decision = Decision::about(&next, "condemned", "lease released").by(Actor::Holder);
                Step::Write(Box::new(next.clone()), Some(decision), ByHolder::Done(Box::new(next)))
            })
            .await?;
        self.wake();
        Ok(released.unwrap_or(ByHolder::Mismatch))
    }

    /// Somebody who cannot prove to be the present holder gives up a claim; what nobody claims and nothing keeps goes.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn drop_claim(&self, marker: &Marker, why: &str) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| {
            let Ok(dropped) = entry.drop_claim(&timing) else { return Step::Keep(()) };
            let left = dropped.claims;
            let (next, decision) = deferred(dropped, now, &timing);
            let decision = decision.unwrap_or_else(|| {
                Decision::about(&next, "deferred", why).by(Actor::Client).with("claims_left", left)
            });
            Step::Write(Box::new(next), Some(decision), ())
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Forgets a seal whose time is over.
    pub(super) async fn forget_seal(&self, member: &str) -> Result<(), LedgerError> {
        let key = Key::Sealed(member.strip_prefix(SEAL).unwrap_or(member).to_owned());
        let Snapshot { records, .. } = self.store.read(std::slice::from_ref(&key)).await?;
        let sealed: Option<Sealed> =
            bytes_in(&key, &records[0])?.and_then(|bytes| schema::decode(bytes).ok());
        // An appointment is only taken away by who names its time.
        let was = sealed.map(|sealed| UnixMillis(sealed.since).plus(SEALED_FOR));
        let batch = Batch {
            remove: vec![key],
            appointments: vec![Appointment { member: member.to_owned(), was, is: None }],
            ..Batch::default()
        };
        self.write(batch).await?;
        Ok(())
    }

    /// Which entry the owner holds by exactly this lease; else what to tell.
    async fn held_by(
        &self,
        bucket: &Bucket,
        owner: &OwnerId,
        lease: &LeaseId,
    ) -> Result<Result<Marker, ByHolder>, LedgerError> {
        Ok(match self.holding(bucket, owner, Some(lease)).await? {
            Holding::Sealed => Err(ByHolder::Sealed),
            Holding::Held(entry) | Holding::OnItsWay(entry) if holds(&entry, lease) => Ok(entry.marker),
            Holding::Free(_) | Holding::Held(_) | Holding::OnItsWay(_) => Err(ByHolder::Mismatch),
        })
    }
}

fn holds(entry: &Entry, lease: &LeaseId) -> bool {
    entry.lease.as_ref().is_some_and(|held| held.id == *lease)
}

/// What nobody claims any more is condemned once nothing keeps it.
pub(super) fn deferred(entry: Entry, now: UnixMillis, timing: &Timing) -> (Entry, Option<Decision>) {
    if delete::decide(Actor::Deferred, &Shown::nothing(), &entry, now, timing) != May::Allow {
        return (entry, None);
    }
    match entry.clone().condemn(Actor::Deferred, now) {
        Ok(next) => {
            let why = "every claim was given up and nothing keeps it";
            let decision = Decision::about(&next, "condemned", why).by(Actor::Deferred);
            (next, Some(decision))
        }
        Err(_) => (entry, None),
    }
}
