//! Taking a slot: the check and the hold are one commit.

use super::{ATTEMPTS, Decision, IdempotencyKey, LeasePlan, Ledger, LedgerError, OwnerClaim, found};
use crate::ids::{Bucket, Marker, OwnerId, TenantName};
use crate::rules::entry::{Entry, Origin, Shape, State};
use crate::store::schema::{Key, Set};
use crate::store::{Batch, Committed, Version};
use crate::time::UnixMillis;

/// How many may be held; `None`: counted, not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// In the bucket.
    pub bucket: Option<u64>,
    /// In the whole ledger.
    pub global: Option<u64>,
}

/// What a create asks the ledger for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Unique per create.
    pub marker: Marker,
    /// Where it is counted.
    pub bucket: Bucket,
    /// Whose it will be.
    pub owner: OwnerId,
    /// Which tenant asks.
    pub tenant: Option<TenantName>,
    /// The template it names.
    pub template: String,
    /// The client's metadata as it came, if it is not larger than the ledger keeps.
    pub metadata: Option<String>,
    /// The Idempotency-Key it came with.
    pub key: Option<IdempotencyKey>,
    /// Its `x-request-id`, for the log.
    pub request: Option<String>,
    /// The owner's claim and the lease it begins with, where holders have leases.
    pub lease: Option<(OwnerClaim, LeasePlan)>,
}

/// Which limit was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullWhere {
    /// The bucket's own.
    Bucket,
    /// The one over all buckets.
    Global,
}

/// No slot was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Which limit was met.
    pub limit_of: FullWhere,
    /// How many slots are held there.
    pub held: u64,
}

/// What became of an ask.
#[derive(Clone, Debug)]
pub enum Reserved {
    /// A slot is held.
    Slot(Box<Entry>),
    /// None was free.
    Full(Full),
    /// Somebody else used the Idempotency-Key, or claimed the owner, meanwhile: look it up again.
    Taken,
}

impl Ledger {
    /// Takes a slot for a create if bucket and ledger have one, in one atomic step.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails. Asking again with the same marker is safe: the slot is taken once.
    pub async fn reserve(&self, ask: &Ask, limits: Limits) -> Result<Reserved, LedgerError> {
        self.take(ask, Some(limits), |reserved, _now| reserved).await
    }

    /// Takes a slot whatever any limit says: for whoever only watches, and must count what goes by.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_unlimited(&self, ask: &Ask) -> Result<Reserved, LedgerError> {
        self.take(ask, None, |reserved, _now| reserved).await
    }

    /// [`reserve`](Self::reserve) and [`dispatch`](Self::dispatch) in one commit, for a create that goes upstream as soon as
    /// it has its slot: after this a byte may go.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails: it may stand there as dispatched all the same, and nothing was sent.
    ///
    /// # Panics
    /// Never: what is reserved can be dispatched.
    pub async fn reserve_dispatched(&self, ask: &Ask, limits: Limits) -> Result<Reserved, LedgerError> {
        let timing = self.settings.timing;
        let dispatched = |reserved: Entry, now| {
            reserved.dispatch(now, &timing).expect("an entry that is reserved can be dispatched")
        };
        self.take(ask, Some(limits), dispatched).await
    }

    async fn take(
        &self,
        ask: &Ask,
        limits: Option<Limits>,
        ready: impl Fn(Entry, UnixMillis) -> Entry,
    ) -> Result<Reserved, LedgerError> {
        for _ in 0..ATTEMPTS {
            let (now, until) = self.time().await?;
            let entry = ready(self.reserved(ask, now), now);
            // Where nothing is limited, no change of limits can be missed.
            let expected = limits.and_then(|_| self.limits_expected());
            let limits = limits.map_or_else(Limits::default, |own| self.in_force(&ask.bucket, own));
            let mut batch = Batch { until, ..slot_batch(ask, &entry, limits, expected.clone()) };
            let decision = Decision::about(&entry, "admitted", "slot taken").asked_by(ask.request.as_deref());
            self.record(&mut batch, decision, now);
            match self.write(batch).await? {
                Committed::Done(version) => {
                    self.memory.wrote(&entry, version);
                    return Ok(Reserved::Slot(Box::new(entry)));
                }
                Committed::Full { set, held } => {
                    let limit_of = if set == Set::AllSlots { FullWhere::Global } else { FullWhere::Bucket };
                    return Ok(Reserved::Full(Full { limit_of, held }));
                }
                Committed::Moved if self.limits_moved(expected.as_ref()).await? => {}
                Committed::Moved => match self.entry(&ask.marker).await? {
                    // The reply to an earlier attempt was lost: it is ours already.
                    Some(ours) if ours.state == entry.state => return Ok(Reserved::Slot(Box::new(ours))),
                    // It was, and its time is over.
                    Some(_) => break,
                    None if ask.key.is_some() || ask.lease.is_some() => return Ok(Reserved::Taken),
                    // It was later than this process knew, and now it knows.
                    None => {}
                },
            }
        }
        Err(LedgerError::Contended(Key::Entry(ask.marker.clone()).to_string()))
    }

    /// A slot that is asked for, as it will be held.
    fn reserved(&self, ask: &Ask, now: UnixMillis) -> Entry {
        let last = ask.lease.as_ref().and_then(|(claim, _)| claim.last);
        Entry {
            marker: ask.marker.clone(),
            upstream: self.settings.upstream.clone(),
            bucket: ask.bucket.clone(),
            owner: ask.owner.clone(),
            tenant: ask.tenant.clone(),
            origin: Origin::Created,
            instance: self.instance.clone(),
            generation: self.next_generation(last, now),
            holders: 1,
            claims: 1,
            lease: ask.lease.as_ref().map(|(_, plan)| plan.begin(now)),
            asked_for: ask.lease.as_ref().map(|(_, plan)| plan.asked_for.clone()),
            incarnation: 0,
            hold: None,
            released: None,
            sandbox: None,
            template: ask.template.clone(),
            shape: Shape::default(),
            metadata: ask.metadata.clone(),
            claim: ask.key.as_ref().map(|key| key.record.clone()),
            answer: None,
            asked: now,
            dispatched: None,
            first_seen: None,
            last_sign: now,
            deadline: None,
            claim_until: None,
            operations: Vec::new(),
            state: State::Reserved,
            due: Some(now.plus(self.settings.timing.reserved)),
        }
    }
}

/// The check and the hold, by the limits as they are known.
fn slot_batch(ask: &Ask, entry: &Entry, limits: Limits, expected: Option<(Key, Version)>) -> Batch {
    let mut batch = found(entry);
    batch.expect.extend(expected);
    batch.room.extend(limits.bucket.map(|limit| (Set::Slots(ask.bucket.clone()), limit)));
    batch.room.extend(limits.global.map(|limit| (Set::AllSlots, limit)));
    if let Some(key) = &ask.key {
        key.claim_in(&mut batch, entry, entry.asked);
    }
    if let Some((claim, plan)) = &ask.lease {
        claim.take_in(&mut batch, entry, plan);
    }
    batch
}
