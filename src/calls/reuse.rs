//! A create that was asked for before: by its Idempotency-Key, or by its owner, who holds a living sandbox already.
//!
//! Must stay true: whoever comes while the first is on its way joins it; a key gives the same answer and changes nothing,
//! an owner gives the same sandbox under a new generation, which fences out whoever held it before. No slot is taken.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, Governor, unavailable};
use super::create_sandbox::{Given, named, outcome_unknown};
use super::touch::Touch;
use super::wish::Wish;
use crate::cube::client::{Pace, Seen};
use crate::deeds::Renewal;
use crate::ids::{Marker, SandboxRef};
use crate::ledger::{
    Acquired, Claim, Claiming, Holding, IdempotencyKey, LeasePlan, LedgerError, OwnerClaim, Repeated,
};
use crate::rules::delete::Reach;
use crate::rules::entry::{Effect, Entry, State};
use crate::rules::listing::Answer;
use crate::telemetry::{LeaseEvent, Reconciled};
use crate::verdict::{Reason, Refusal};

/// A sandbox that never ends by itself is woken for this long, in seconds: a year.
const NEVER: u64 = 365 * 24 * 3600;

/// What was there before a create.
pub(super) enum Before<C> {
    /// Nothing: the create may go on with this claim.
    Nothing(Option<C>),
    /// A sandbox, which is the answer.
    Given(Box<Given>),
    /// Something that has come to nothing meanwhile.
    LookAgain,
}

impl Governor {
    /// Whose a key is.
    pub(super) async fn claim_key(
        &self,
        ask: &Ask,
        key: Option<&IdempotencyKey>,
    ) -> Result<Before<IdempotencyKey>, Refusal> {
        let Some(key) = key else { return Ok(Before::Nothing(None)) };
        match self.ledger.claim(key).await.map_err(|error| unavailable(&error))? {
            Claim::Free(key) => Ok(Before::Nothing(Some(key))),
            Claim::Mismatch => Err(mismatch()),
            Claim::Overtaken => Err(self.overtaken()),
            Claim::Same(entry) => match self.join(ask, &entry.marker).await? {
                None => Ok(Before::LookAgain),
                Some(repeated) if repeated.entry.generation != entry.generation => Err(self.overtaken()),
                Some(repeated) => self.given(ask, repeated.entry).await,
            },
        }
    }

    /// What the owner of a wish holds, where owners hold leases.
    pub(super) async fn claim_owner(&self, ask: &Ask, wish: &Wish) -> Result<Before<OwnerClaim>, Refusal> {
        let Some(plan) = &wish.plan else { return Ok(Before::Nothing(None)) };
        let holding = self.ledger.holding(&wish.bucket, wish.owner(), Some(&plan.id)).await;
        match holding.map_err(|error| unavailable(&error))? {
            Holding::Free(claim) => Ok(Before::Nothing(Some(claim))),
            Holding::Sealed => Err(self.sealed()),
            Holding::OnItsWay(entry) => {
                self.born(ask, &entry.marker).await?;
                Ok(Before::LookAgain)
            }
            Holding::Held(entry) => self.take(ask, &entry, plan).await,
        }
    }

    /// The living sandbox of an owner goes to whoever asks now: fenced in the ledger first, then woken and renewed.
    async fn take<C>(&self, ask: &Ask, held: &Entry, plan: &LeasePlan) -> Result<Before<C>, Refusal> {
        let Some(sandbox) = &held.sandbox else { return Ok(Before::LookAgain) };
        if let Some(turned_away) = self.turned_away(ask, sandbox).await {
            let given = Given { entry: held.clone(), answer: turned_away, reused: true };
            return Ok(Before::Given(Box::new(given)));
        }
        let acquired = self.ledger.acquire(&held.marker, plan).await;
        let entry = match acquired.map_err(|error| unavailable(&error))? {
            Acquired::Yes(entry) => *entry,
            Acquired::Sealed => return Err(self.sealed()),
            Acquired::Other => return Err(another()),
            Acquired::Dead => return Ok(Before::LookAgain),
        };
        if held.claim_until.is_some() {
            self.metrics.reconciled(Reconciled::Claimed);
        }
        self.metrics.leased(LeaseEvent::Reused);
        let Some(entry) = self.awake(ask, &entry).await? else { return Ok(Before::LookAgain) };
        match self.deeds.renew(&entry, &self.cube.credential_for(&ask.head.headers)).await {
            Ok(Renewal::Gone) => return Ok(Before::LookAgain),
            Ok(Renewal::NotHonoured(why)) => {
                tracing::warn!(marker = %entry.marker, why, "a reused sandbox could not be renewed");
                self.metrics.leased(LeaseEvent::RenewalFailed);
            }
            Ok(Renewal::Honoured | Renewal::NotNeeded) => {}
            Err(error) => log(&error),
        }
        self.given(ask, entry).await
    }

    /// The entry as Cube shows it now, woken if it is paused; `None` if it is gone. The ledger does not know of what Cube
    /// paused or ended by itself.
    async fn awake(&self, ask: &Ask, entry: &Entry) -> Result<Option<Entry>, Refusal> {
        let seen = self.deeds.ask(entry).await.map_err(|error| unavailable(&error))?;
        let now = self.ledger.entry(&entry.marker).await.map_err(|error| unavailable(&error))?;
        match now.filter(Entry::usable) {
            // Overtaken already: its successor wakes it.
            Some(now) if now.paused_since().is_some() && now.generation == entry.generation => {
                self.wake_for(ask, &now).await
            }
            Some(now) if seen != Answer::Gone => Ok(Some(as_given(entry, now))),
            _ => Ok(None),
        }
    }

    /// Wakes a paused sandbox for its new holder; `None` if it is gone.
    async fn wake_for(&self, ask: &Ask, entry: &Entry) -> Result<Option<Entry>, Refusal> {
        let Some(id) = entry.sandbox.clone() else { return Ok(None) };
        let length = entry.lease.as_ref().and_then(|lease| lease.length);
        let seconds = length.map_or(NEVER, |length| length.as_secs());
        let sandbox = SandboxRef { id, generation: Some(entry.generation) };
        let call = Call::Sandbox { act: Act::Connect, prefix: Prefix::Root, sandbox: sandbox.clone() };
        let body = Bytes::from(format!(r#"{{"timeout":{seconds}}}"#));
        let until = length.map(|length| self.clock.now().plus(length));
        let touch = Touch { ask, call, sandbox: &sandbox, body, pace: Pace::Wake, reach: Reach::Joins };
        let answer = self.touch_raw(&touch, entry, Effect::RunningUntil(until)).await;
        let woken = match answer {
            Ok(answer) if answer.status().is_success() => true,
            Ok(answer) if answer.status() == StatusCode::NOT_FOUND => false,
            Ok(answer) => {
                let message = format!(
                    "the sandbox of this owner is paused and could not be woken (Cube answered {}); try again",
                    answer.status().as_u16()
                );
                return Err(Refusal::new(Reason::UpstreamAnswer, message));
            }
            Err(refusal) if refusal.reason == Reason::NotFound => false,
            Err(refusal) => return Err(refusal),
        };
        let now = self.ledger.entry(&entry.marker).await.map_err(|error| unavailable(&error))?;
        let now = now.filter(|now| woken && now.usable());
        Ok(now.map(|now| as_given(entry, now)))
    }

    /// Waits until a create on its way is born, or has come to nothing.
    async fn born(&self, ask: &Ask, marker: &Marker) -> Result<Option<Entry>, Refusal> {
        let mut changes = self.ledger.changes();
        loop {
            changes.mark_unchanged();
            let entry = self.ledger.entry(marker).await.map_err(|error| unavailable(&error))?;
            match entry.as_ref().map(|entry| &entry.state) {
                Some(State::Live(_)) => return Ok(entry),
                Some(State::Reserved | State::Dispatched | State::Ambiguous { .. }) => {}
                _ => return Ok(None),
            }
            let passed = self.clock.now().since(ask.arrived);
            if passed >= ask.settings.admission.patience {
                return Err(outcome_unknown(marker));
            }
            tokio::select! {
                _hint = changes.changed() => {}
                () = self.clock.sleep(Duration::from_secs(1)) => {}
                () = ask.caller.gone() => return Err(outcome_unknown(marker)),
            }
        }
    }

    /// Waits for the create that this one repeats; `None` if it came to nothing.
    async fn join(&self, ask: &Ask, marker: &Marker) -> Result<Option<Repeated>, Refusal> {
        if self.born(ask, marker).await?.is_none() {
            return Ok(None);
        }
        let claimed = self.ledger.claimed(marker).await.map_err(|error| unavailable(&error))?;
        if claimed.as_ref().is_some_and(|repeated| repeated.claim == Claiming::Now) {
            self.metrics.reconciled(Reconciled::Claimed);
        }
        Ok(claimed)
    }

    /// The answer of an earlier create: as it was kept, else put together from what Cube shows now.
    async fn given<C>(&self, ask: &Ask, entry: Entry) -> Result<Before<C>, Refusal> {
        let Some(sandbox) = &entry.sandbox else { return Err(outcome_unknown(&entry.marker)) };
        let given = |entry: Entry, answer| Ok(Before::Given(Box::new(Given { entry, answer, reused: true })));
        if let Some(turned_away) = self.turned_away(ask, sandbox).await {
            return given(entry, turned_away);
        }
        let body = if let Some(answer) = &entry.answer {
            answer.clone()
        } else {
            let credential = self.cube.credential_for(&ask.head.headers);
            match self.cube.get(sandbox, &credential).await {
                Seen::Here(detail) => detail.as_created(),
                Seen::Absent | Seen::Unclear(_) => return Err(outcome_unknown(&entry.marker)),
            }
        };
        let answer = answers::plain(StatusCode::CREATED, named(ask, &entry, body));
        given(entry, answer)
    }

    /// The sandbox that a key stands for is another holder's by now: its id and its lease are not told again.
    fn overtaken(&self) -> Refusal {
        self.metrics.leased(LeaseEvent::Sealed);
        let message = "another holder has taken the sandbox that this Idempotency-Key made; use a new key to create anew";
        Refusal::new(Reason::LeaseSealed, message)
    }

    /// A lease that may not act again.
    pub(super) fn sealed(&self) -> Refusal {
        self.metrics.leased(LeaseEvent::Sealed);
        let message =
            "this lease was released or overtaken and never acts again; acquire with a new lease_id";
        Refusal::new(Reason::LeaseSealed, message)
    }
}

/// The sandbox as it is now, under what its holder was given. Asking and waking take their time: whoever has taken the
/// sandbox over meanwhile is not told of here, and a holder that was overtaken finds itself fenced out.
fn as_given(given: &Entry, now: Entry) -> Entry {
    Entry { generation: given.generation, lease: given.lease.clone(), ..now }
}

fn mismatch() -> Refusal {
    let message = "this Idempotency-Key was used with another request; use a new key for a new request";
    Refusal::new(Reason::IdempotencyMismatch, message)
}

/// The owner's living sandbox is another than the one asked for.
fn another() -> Refusal {
    let message = "this owner holds a living sandbox that was asked for otherwise (template or another field differs); \
                   ask for the same, release it first, or name another run";
    Refusal::new(Reason::LeaseMismatch, message)
}

fn log(error: &LedgerError) {
    tracing::warn!(error = error as &dyn std::error::Error, "a renewal could not be written down");
}
