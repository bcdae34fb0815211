//! May this create begin: a slot in its bucket and in the whole ledger, at once or after waiting in line.

use std::sync::PoisonError;
use std::time::Duration;

use super::context::{Ask, Governor, unavailable};
use crate::ids::{Bucket, Generation, Marker};
use crate::ledger::{self, BucketCounts, Full, FullWhere, LedgerError, Limits, Reserved};
use crate::rules::admission;
use crate::rules::entry::Entry;
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

/// Waiters try again on a notification, and this often: notifications are hints.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// A create needs at least this much of its client's patience, else it is not sent.
pub(super) const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// How long something is paused before retention is suggested.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Proof that the ledger has let a create go upstream. It holds a slot and must be settled; what becomes of one that is
/// dropped is for the reconciler to find out.
#[must_use]
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) marker: Marker,
    /// Its holder's; another's once somebody has taken the sandbox.
    pub(super) generation: Generation,
}

/// What became of an admission.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It may begin.
    Permit(Permit),
    /// Somebody else used the Idempotency-Key, or claimed the owner, meanwhile: look it up again.
    Taken,
}

/// Why a create leaves the line.
enum Leaves {
    Drained,
    CallerGone,
    PatienceOver,
}

/// One try.
enum Try {
    Admitted(Admitted),
    Full(Full),
}

impl Governor {
    /// Takes a slot, waiting in line if need be.
    pub(super) async fn admit(&self, ask: &Ask, wish: &ledger::Ask) -> Result<Admitted, Refusal> {
        let own = limits(ask, &wish.bucket);
        // What is told; what is asked is for the ledger to say, which may know better by then.
        let limits = self.ledger.in_force(&wish.bucket, own);
        let line = self.waiting.line(&wish.bucket);
        let mut full = None;
        if line.is_empty() {
            full = match self.try_admit(wish, own).await? {
                Try::Admitted(admitted) => return Ok(admitted),
                Try::Full(full) => Some(full),
            };
        }
        if limits.bucket == Some(0) {
            return Err(self.capacity(ask, wish, limits, full).await);
        }
        let Some(place) = line.join(ask.settings.admission.max_waiting) else {
            return Err(self.capacity(ask, wish, limits, full).await);
        };
        let _counted = self.metrics.waiting(ask.settings.policies.label(&wish.bucket));
        let leaves = self.leaves(ask);
        tokio::pin!(leaves);
        // In line already: however long Cube takes to say what it has ended, nobody waits longer than they may.
        let in_turn = async {
            self.deeds.ask_overdue(&wish.bucket).await;
            place.turn().await
        };
        let _turn = tokio::select! {
            biased;
            why = &mut leaves => return Err(self.left(why, ask, wish, limits, full).await),
            turn = in_turn => turn,
        };
        let mut changes = self.ledger.changes();
        loop {
            changes.mark_unchanged();
            // Never broken off: a try that was let go could take a slot that nobody knows of.
            full = match self.try_admit(wish, own).await? {
                Try::Admitted(Admitted::Permit(permit)) if ask.caller.is_gone() => {
                    return Err(self.hand_on(permit).await);
                }
                Try::Admitted(admitted) => return Ok(admitted),
                Try::Full(full) => Some(full),
            };
            tokio::select! {
                biased;
                why = &mut leaves => return Err(self.left(why, ask, wish, limits, full).await),
                _hint = changes.changed() => {}
                () = self.clock.sleep(TRY_AGAIN) => {}
            }
        }
    }

    /// Ready when this create must wait no longer.
    async fn leaves(&self, ask: &Ask) -> Leaves {
        tokio::select! {
            biased;
            () = self.drained() => Leaves::Drained,
            () = ask.caller.gone() => Leaves::CallerGone,
            () = self.clock.sleep(self.patience(ask)) => Leaves::PatienceOver,
        }
    }

    /// A slot came free at the very moment its caller left: it goes on to the next.
    async fn hand_on(&self, permit: Permit) -> Refusal {
        match self.ledger.refused(&permit.marker, "its caller had left the line").await {
            Ok(()) => caller_left(),
            Err(error) => self.not_sent(&permit.marker, &error),
        }
    }

    async fn left(
        &self,
        why: Leaves,
        ask: &Ask,
        wish: &ledger::Ask,
        limits: Limits,
        full: Option<Full>,
    ) -> Refusal {
        match why {
            Leaves::Drained => draining(),
            Leaves::CallerGone => caller_left(),
            Leaves::PatienceOver => self.capacity(ask, wish, limits, full).await,
        }
    }

    /// Ready once this warden is going away.
    async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        // An error means that the governor is gone, and nobody waits.
        let _gone = draining.wait_for(|draining| *draining).await;
    }

    /// Would a create find a slot now? For shadow mode, which takes one anyway.
    pub(super) async fn would_fit(&self, ask: &Ask, bucket: &Bucket) -> Result<(), Refusal> {
        let limits = self.ledger.in_force(bucket, limits(ask, bucket));
        let counts =
            self.ledger.counts(std::slice::from_ref(bucket)).await.map_err(|error| unavailable(&error))?;
        let held = counts.buckets.first().map_or(0, BucketCounts::held);
        let fits =
            admission::admits(held, limits.bucket) && admission::admits(counts.all.held(), limits.global);
        let message = || format!("bucket {bucket}: no slot is free, {held} are held");
        if fits { Ok(()) } else { Err(Refusal::new(Reason::CapacityExceeded, message())) }
    }

    /// How long this create may wait: the configured wait, and never so long that its client would not live to see the
    /// answer.
    fn patience(&self, ask: &Ask) -> Duration {
        let admission = &ask.settings.admission;
        let passed = self.clock.now().since(ask.arrived);
        let left = admission.patience.saturating_sub(passed).saturating_sub(LEAST_PATIENCE);
        admission.wait.min(left)
    }

    async fn try_admit(&self, wish: &ledger::Ask, limits: Limits) -> Result<Try, Refusal> {
        match self.ledger.reserve_dispatched(wish, limits).await {
            Ok(Reserved::Slot(entry)) => {
                let permit = Permit { marker: entry.marker, generation: entry.generation };
                Ok(Try::Admitted(Admitted::Permit(permit)))
            }
            Ok(Reserved::Taken) => Ok(Try::Admitted(Admitted::Taken)),
            Ok(Reserved::Full(full)) => Ok(Try::Full(full)),
            Err(error) => Err(self.not_sent(&wish.marker, &error)),
        }
    }

    /// It may stand in the ledger as dispatched, and nothing was sent: whatever it holds is given back soon.
    fn not_sent(&self, marker: &Marker, error: &LedgerError) -> Refusal {
        self.ledger.never_sent(marker);
        unavailable(error)
    }

    /// The refusal of a create that found no slot, with what would help as evidence. Of the global limit nothing is
    /// shown: its numbers are other tenants' too.
    async fn capacity(&self, ask: &Ask, wish: &ledger::Ask, limits: Limits, full: Option<Full>) -> Refusal {
        let after = 1 + u32::try_from(self.ledger.jitter(20)).unwrap_or(0);
        let Fullness { held, paused, paused_for_a_day, .. } = self.fullness(&wish.bucket).await;
        let has_room = |limit| u64::try_from(held).is_ok_and(|held| held < limit);
        // Whoever never had its turn was not told which of the two limits it is.
        let global = full
            .map_or_else(|| limits.bucket.is_none_or(has_room), |full| full.limit_of == FullWhere::Global);
        if global {
            let message = "all slots of this platform are taken; try again later";
            return Refusal::new(Reason::CapacityExceeded, message).with("limit_of", "platform").after(after);
        }
        let limit = limits.bucket.unwrap_or_default();
        let keeps_paused = ask.settings.policies.of(&wish.bucket).retention.is_none();
        let freed = if keeps_paused { paused_for_a_day } else { 0 };
        let refusal =
            Refusal::new(Reason::CapacityExceeded, full_message(&wish.bucket, limit, paused, freed))
                .with("bucket", wish.bucket.to_string())
                .with("limit", limit)
                .with("held", held)
                .with("paused", paused);
        if limit == 0 { refusal.after(120).never_retry() } else { refusal.after(after) }
    }
}

fn caller_left() -> Refusal {
    Refusal::new(Reason::CapacityExceeded, "the caller left the line")
}

fn draining() -> Refusal {
    Refusal::new(Reason::Draining, "this warden is being restarted; try again in a moment")
}

fn limits(ask: &Ask, bucket: &Bucket) -> Limits {
    Limits {
        bucket: ask.settings.policies.of(bucket).limit.map(u64::from),
        global: ask.settings.admission.global_limit.map(u64::from),
    }
}

/// What happened, and what would help.
fn full_message(bucket: &Bucket, limit: u64, paused: usize, freed: usize) -> String {
    let mut says = vec![format!("bucket {bucket}: all of its {limit} slots are taken")];
    if paused > 0 {
        says.push(format!("{paused} of {limit} are paused"));
    }
    if freed > 0 {
        says.push(format!("retention 24h would free {freed}"));
    }
    let advice =
        if limit == 0 { "ask your operator for a limit" } else { "end a sandbox or try again later" };
    says.push(advice.to_owned());
    says.join("; ")
}

/// What a refusal tells of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fullness {
    at: UnixMillis,
    held: usize,
    paused: usize,
    paused_for_a_day: usize,
}

impl Governor {
    /// How full a bucket is; not counted anew for each of a thousand refusals in a second.
    async fn fullness(&self, bucket: &Bucket) -> Fullness {
        let now = self.clock.now();
        let fresh = |seen: &Fullness| now.since(seen.at) < TRY_AGAIN && seen.at <= now;
        let known = self.fullness.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).copied();
        if let Some(known) = known.filter(fresh) {
            return known;
        }
        let entries = self.ledger.charged(Some(bucket)).await.map(|(entries, _)| entries).unwrap_or_default();
        let since: Vec<UnixMillis> = entries.iter().filter_map(Entry::paused_since).collect();
        let long = since.iter().filter(|since| now.since(**since) >= DAY).count();
        let seen = Fullness { at: now, held: entries.len(), paused: since.len(), paused_for_a_day: long };
        let mut fullness = self.fullness.lock().unwrap_or_else(PoisonError::into_inner);
        fullness.retain(|_, seen| fresh(seen));
        fullness.insert(bucket.clone(), seen);
        seen
    }
}
