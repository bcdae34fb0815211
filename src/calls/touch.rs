//! Calls that touch a living sandbox: registered on its entry while they are under way, forwarded once, settled.
//!
//! Must stay true: a call whose outcome is unknown leaves its registration to lapse, for Cube may still be carrying it
//! out; a call that ends on a condemned entry is answered as if the sandbox were gone, and the kill goes on.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, Governor, unavailable};
use super::create_sandbox::unreachable;
use super::fencing;
use super::ownership::Owned;
use super::seam::Reply;
use super::wish::{clamp, malformed};
use crate::cube::api::{RefreshBody, TimeoutBody};
use crate::cube::client::Pace;
use crate::cube::guard::Place;
use crate::cube::outcome::{self, Asked, Outcome};
use crate::cube::profile::Probe;
use crate::cube::transport::TransportError;
use crate::ids::SandboxRef;
use crate::ledger::{Began, Beginning, LedgerError};
use crate::rules::delete::Reach;
use crate::rules::entry::{Effect, Entry};
use crate::rules::lanes::Lane;
use crate::rules::policy::UnprovenDelete;
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

/// A call that touches a sandbox.
pub(super) struct Touch<'a> {
    pub(super) ask: &'a Ask,
    pub(super) call: Call,
    pub(super) sandbox: &'a SandboxRef,
    pub(super) body: Bytes,
    pub(super) pace: Pace,
    pub(super) reach: Reach,
}

impl Touch<'_> {
    fn act(&self) -> Option<&Act> {
        match &self.call {
            Call::Sandbox { act, .. } => Some(act),
            _ => None,
        }
    }

    /// Several holders, and the caller does not show which one it is. Where such deletes are deferred, a shorter end is
    /// too: it is accepted and moves nothing, for another holder counts on the longer one. What would interrupt another
    /// cannot be put off.
    fn unproven(&self, entry: &Entry) -> Result<Response<Bytes>, Refusal> {
        let defers = self.ask.settings.policies.of(&entry.bucket).unproven_delete == UnprovenDelete::Defer;
        match (&self.call, self.reach) {
            (_, Reach::Until(_)) if defers => Ok(answers::plain(StatusCode::NO_CONTENT, Bytes::new())),
            (Call::Sandbox { act: Act::Pause, .. }, _) => Err(fencing::unproven(Reason::FencedPause)),
            _ => Err(fencing::unproven(Reason::FencedGeneration)),
        }
    }
}

impl Touch<'_> {
    /// What keeps something alive goes before what else changes it.
    fn lane(&self) -> Lane {
        match &self.call {
            Call::Sandbox { act: Act::Timeout | Act::Refresh, .. } => Lane::Renew,
            _ => Lane::Connect,
        }
    }
}

impl Governor {
    /// A call that is the same whether its sandbox has a record or (open mode) none.
    pub(super) async fn touch_owned(
        &self,
        touch: Touch<'_>,
        owned: Owned,
        effect: Effect,
    ) -> Result<Response<Bytes>, Refusal> {
        match owned {
            Owned::Entry(entry) => self.touch(touch, &entry, effect).await,
            Owned::Unrecorded => self.touch_unrecorded(touch).await,
        }
    }

    /// Registers, forwards once, settles with the effect of a success.
    pub(super) async fn touch(
        &self,
        touch: Touch<'_>,
        entry: &Entry,
        effect: Effect,
    ) -> Result<Response<Bytes>, Refusal> {
        let answer = self.touch_raw(&touch, entry, effect).await?;
        Ok(answers::mended(self, touch.ask, answer))
    }

    /// The same, with Cube's answer as it came.
    pub(super) async fn touch_raw(
        &self,
        touch: &Touch<'_>,
        entry: &Entry,
        effect: Effect,
    ) -> Result<Response<Bytes>, Refusal> {
        let shown = touch.ask.shown(touch.sandbox)?;
        let beginning = Beginning {
            kind: touch.call.name(),
            budget: self.cube.budget(touch.pace),
            reach: touch.reach,
            shown: &shown,
        };
        // Before it is registered: who waits for a place has nothing under way.
        let mut place = self.place(touch.ask, touch.lane()).await?;
        let began = self.ledger.begin(&entry.marker, beginning).await;
        let operation = match began.map_err(|error| unavailable(&error))? {
            Began::Registered(operation) => operation,
            Began::Dead => return Err(answers::no_such(touch.sandbox.id.as_str())),
            Began::Fenced => return Err(self.fenced(touch.sandbox, &shown, touch.act())),
            Began::Unproven => return touch.unproven(entry),
        };
        let answer = self.send_write(touch, &mut place).await;
        drop(place);
        let effect = match &answer {
            Ok(answer) => match outcome::outcome(Asked::Write, answer.status().as_u16(), answer.body()) {
                Outcome::Done => effect,
                Outcome::Refused { .. } => Effect::None,
                Outcome::Unknown => return Ok(unsettled(touch, answer.clone())),
            },
            Err(TransportError::NotSent(_)) => Effect::None,
            Err(error @ TransportError::Lost(_)) => return Err(lost(error)),
        };
        let after = self.ledger.end(&entry.marker, &operation, effect).await;
        let answer = answer.map_err(|error| unreachable(&error))?;
        match after {
            Ok(after) if !after.as_ref().is_some_and(Entry::usable) => {
                return Err(answers::no_such(touch.sandbox.id.as_str()));
            }
            Ok(_) => {}
            // Cube has done it, and says so; that it is over is written down later, and what changed is seen by the next look.
            Err(error) => log(&error),
        }
        if answer.status() == StatusCode::NOT_FOUND {
            self.look_at(entry).await;
        }
        Ok(answer)
    }

    /// Forwards a read under the path of its own.
    pub(super) async fn send(&self, touch: &Touch<'_>) -> Result<Response<Bytes>, TransportError> {
        let head = touch.ask.head_to(&touch.call.upstream_path().unwrap_or_default());
        self.cube.carry(head, touch.body.clone(), touch.pace).await
    }

    /// Forwards a write under the path of its own.
    async fn send_write(
        &self,
        touch: &Touch<'_>,
        place: &mut Place,
    ) -> Result<Response<Bytes>, TransportError> {
        let head = touch.ask.head_to(&touch.call.upstream_path().unwrap_or_default());
        let answer = self.cube.write(place, Asked::Write, head, touch.body.clone(), touch.pace).await?;
        if let Call::Sandbox { act: Act::Connect, prefix, .. } = &touch.call
            && prefix.is_v2()
        {
            self.cube.learn(Probe::V2Connect, &answer);
        }
        Ok(answer)
    }

    /// Cube does not know a sandbox that the ledger calls alive: it is asked about once more, by GET.
    async fn look_at(&self, entry: &Entry) {
        if let Err(error) = self.deeds.ask(entry).await {
            log(&error);
        }
    }

    /// A call on what has no record (open mode): nothing is registered, but what SDKs cannot read is mended all the same.
    pub(super) async fn touch_unrecorded(&self, touch: Touch<'_>) -> Result<Response<Bytes>, Refusal> {
        let answer = self.touch_unrecorded_raw(&touch).await?;
        Ok(answers::mended(self, touch.ask, answer))
    }

    /// The same, with Cube's answer as it came.
    pub(super) async fn touch_unrecorded_raw(&self, touch: &Touch<'_>) -> Result<Response<Bytes>, Refusal> {
        let mut place = self.place(touch.ask, touch.lane()).await?;
        self.send_write(touch, &mut place).await.map_err(|error| match error {
            TransportError::NotSent(_) => unreachable(&error),
            TransportError::Lost(_) => lost(&error),
        })
    }

    /// A call on what has no record (open mode), or that changes nothing: straight on.
    pub(super) fn forward(ask: &Ask, call: &Call, body: Bytes) -> Reply {
        let head = ask.head_to(&call.upstream_path().unwrap_or_default());
        Reply::Forward(head, body)
    }
}

fn unsettled(touch: &Touch<'_>, answer: Response<Bytes>) -> Response<Bytes> {
    let status = answer.status().as_u16();
    tracing::warn!(call = touch.call.name(), status, "the outcome of a call is unknown");
    answer
}

fn lost(error: &TransportError) -> Refusal {
    tracing::warn!(error = error as &dyn std::error::Error, "the answer of Cube was lost");
    let message =
        "Cube did not answer in time; the call may have been carried out, look before you repeat it";
    Refusal::new(Reason::UpstreamTimeout, message)
}

fn log(error: &LedgerError) {
    tracing::warn!(error = error as &dyn std::error::Error, "what was seen could not be written down");
}

/// POST {id}/timeout and {id}/refreshes.
///
/// A refresh of nothing, or for 0 seconds, is left to Cube: every version that was recorded refuses it. Should one take it
/// for an end (or for some default of its own), the deadline is now, and the sandbox is looked at at once.
pub(super) async fn deadline(
    governor: &Governor,
    ask: Ask,
    act: Act,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    let (seconds, body) = asked_seconds(&act, &ask)?;
    let lengthens = seconds.is_some_and(|seconds| seconds != 0);
    let call = Call::Sandbox { act, prefix, sandbox: sandbox.clone() };
    let entry = match governor.owned(&ask, &sandbox).await {
        Ok(Owned::Entry(entry)) => entry,
        Ok(Owned::Unrecorded) => {
            let touch =
                Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Call, reach: Reach::Joins };
            return governor.touch_unrecorded(touch).await.map(Reply::Answer);
        }
        Err(refusal) if refusal.reason == Reason::LedgerUnavailable && lengthens => {
            return governor.lengthen_unseen(&ask, &call, &sandbox, seconds, body, refusal);
        }
        Err(refusal) => return Err(refusal),
    };
    if seconds == Some(0) && matches!(call, Call::Sandbox { act: Act::Timeout, .. }) {
        return governor.end(&ask, &entry, &sandbox, "timeout 0").await.map(Reply::Answer);
    }
    let (granted, clamped) = match seconds {
        Some(_) => clamp(ask.settings.policies.of(&entry.bucket), seconds),
        None => (None, None),
    };
    let body = clamped.map_or_else(|| Ok(body.clone()), |seconds| with_seconds(&call, &body, seconds))?;
    let now = governor.clock.now();
    let effect = match (granted, &call) {
        (Some(seconds), _) => Effect::Deadline(deadline_from(now, seconds)),
        (None, Call::Sandbox { act: Act::Refresh, .. }) => Effect::Deadline(Some(now)),
        (None, _) => Effect::None,
    };
    let reach = match effect {
        Effect::Deadline(until) => Reach::Until(until),
        _ => Reach::Joins,
    };
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Call, reach };
    governor.touch(touch, &entry, effect).await.map(Reply::Answer)
}

/// The end that `seconds` from `now` means; `None`: never.
pub(super) fn deadline_from(now: UnixMillis, seconds: i64) -> Option<UnixMillis> {
    u64::try_from(seconds).ok().map(|seconds| now.plus(std::time::Duration::from_secs(seconds)))
}

fn asked_seconds(act: &Act, ask: &Ask) -> Result<(Option<i64>, Bytes), Refusal> {
    let seconds = match act {
        Act::Refresh => RefreshBody::read(&ask.body).map_err(|error| malformed(&error))?.duration,
        _ => TimeoutBody::read(&ask.body).map_err(|error| malformed(&error))?.timeout,
    };
    Ok((seconds, ask.body.clone()))
}

fn with_seconds(call: &Call, body: &Bytes, seconds: i64) -> Result<Bytes, Refusal> {
    match call {
        Call::Sandbox { act: Act::Refresh, .. } => RefreshBody::read(body).map(|read| read.with(seconds)),
        _ => TimeoutBody::read(body).map(|read| read.with(seconds)),
    }
    .map_err(|error| malformed(&error))
}

impl Governor {
    /// The ledger cannot be asked: a timeout that only lengthens passes for what this process knows to be the caller's.
    fn lengthen_unseen(
        &self,
        ask: &Ask,
        call: &Call,
        sandbox: &SandboxRef,
        seconds: Option<i64>,
        body: Bytes,
        refusal: Refusal,
    ) -> Result<Reply, Refusal> {
        let Some(known) = self.ledger.known(&sandbox.id) else { return Err(refusal) };
        let until = seconds.and_then(|seconds| deadline_from(self.clock.now(), seconds));
        let lengthens = match (known.deadline, until) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => new >= old,
        };
        let unclamped = clamp(ask.settings.policies.of(&known.bucket), seconds).1.is_none();
        let own = ask.who.may_use(&known.bucket) && sandbox.generation.is_none();
        if own && lengthens && unclamped { Ok(Self::forward(ask, call, body)) } else { Err(refusal) }
    }
}

/// POST {id}/pause.
pub(super) async fn pause(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    let call = Call::Sandbox { act: Act::Pause, prefix, sandbox: sandbox.clone() };
    let owned = governor.owned_alive(&ask, &sandbox).await?;
    let (body, reach) = (ask.body.clone(), Reach::Interrupts);
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Wake, reach };
    governor.touch_owned(touch, owned, Effect::Paused).await.map(Reply::Answer)
}

/// PUT {id}/network.
pub(super) async fn network(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    let call = Call::Sandbox { act: Act::Network, prefix, sandbox: sandbox.clone() };
    let owned = governor.owned(&ask, &sandbox).await?;
    let (body, reach) = (ask.body.clone(), Reach::Joins);
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Call, reach };
    governor.touch_owned(touch, owned, Effect::None).await.map(Reply::Answer)
}
