//! POST {id}/connect and {id}/resume, and connect under /v2: no slot is needed, a paused sandbox has kept its own.

use bytes::Bytes;
use http::Response;

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, Governor};
use super::create_sandbox;
use super::mends::{self, Mend};
use super::ownership::Owned;
use super::seam::Reply;
use super::touch::{Touch, deadline_from};
use super::wish::{clamp, malformed};
use crate::cube::api::ConnectBody;
use crate::cube::client::Pace;
use crate::ids::SandboxRef;
use crate::rules::delete::Reach;
use crate::rules::entry::{Effect, Entry};
use crate::verdict::Refusal;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Joins what runs, wakes what is paused.
    Connect,
    /// Wakes what is paused.
    Resume,
}

pub(super) async fn run(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
    kind: Kind,
) -> Result<Reply, Refusal> {
    let body = ConnectBody::read(&ask.body).map_err(|error| malformed(&error))?;
    let act = if kind == Kind::Connect { Act::Connect } else { Act::Resume };
    let owned = governor.owned(&ask, &sandbox).await?;
    let prefix = governor.connect_prefix(&ask, prefix, kind, &body)?;
    let call = Call::Sandbox { act, prefix, sandbox: sandbox.clone() };
    let (sent, effect) = match owned.entry() {
        Some(entry) => governor.granted(&ask, &body, entry),
        None => (ask.body.clone(), Effect::None),
    };
    let mut touch =
        Touch { ask: &ask, call, sandbox: &sandbox, body: sent, pace: Pace::Wake, reach: Reach::Joins };
    let mut answer = governor.wake(&touch, &owned, effect).await?;
    // Judged by this very answer: what others learn meanwhile says nothing of whether Cube has heard this one.
    let (status, text) = (answer.status().as_u16(), answer.body());
    if prefix.is_v2() && mends::falls_back_to_v1(&ask.settings.compat, status, text) {
        mends::connect_as_v1(&body)?;
        governor.metrics.mended(Mend::V2Create.name());
        touch.call = v1(&touch.call);
        answer = governor.wake(&touch, &owned, effect).await?;
    }
    if let Some(entry) = owned.entry().filter(|_| answer.status().is_success()) {
        answer = called(&ask, &sandbox, entry, answer);
    }
    Ok(Reply::Answer(answers::mended(governor, &ask, answer)))
}

/// The answer under the id that its caller shall go on with: SDKs adopt the one they read here, and one without its
/// generation would prove nothing any more.
fn called(ask: &Ask, presented: &SandboxRef, entry: &Entry, answer: Response<Bytes>) -> Response<Bytes> {
    let (head, body) = answer.into_parts();
    let Ok(text) = std::str::from_utf8(&body) else { return Response::from_parts(head, body) };
    let named = match presented.generation {
        Some(_) => crate::cube::api::with_sandbox_id(text, presented).unwrap_or_else(|| text.to_owned()),
        None => create_sandbox::named(ask, entry, text.to_owned()),
    };
    Response::from_parts(head, Bytes::from(named))
}

/// The same call under v1.
fn v1(call: &Call) -> Call {
    match call.clone() {
        Call::Sandbox { act, prefix, sandbox } => Call::Sandbox { act, prefix: prefix.as_v1(), sandbox },
        other => other,
    }
}

impl Governor {
    /// Under which prefix it goes out: v1 where it is known that there is no v2.
    fn connect_prefix(
        &self,
        ask: &Ask,
        prefix: Prefix,
        kind: Kind,
        body: &ConnectBody,
    ) -> Result<Prefix, Refusal> {
        let has_v2 = self.cube.profile().has_v2_connect;
        if !prefix.is_v2() || kind == Kind::Resume || has_v2 != Some(false) || !ask.settings.compat.v2_create
        {
            return Ok(prefix);
        }
        mends::connect_as_v1(body)?;
        self.metrics.mended(Mend::V2Create.name());
        Ok(prefix.as_v1())
    }

    /// Goes out once, with or without a record.
    async fn wake(
        &self,
        touch: &Touch<'_>,
        owned: &Owned,
        effect: Effect,
    ) -> Result<Response<Bytes>, Refusal> {
        match owned {
            Owned::Entry(entry) => self.touch_raw(touch, entry, effect).await,
            Owned::Unrecorded => self.touch_unrecorded_raw(touch).await,
        }
    }

    /// The body with the timeout that the bucket allows, and what its success means.
    fn granted(&self, ask: &Ask, body: &ConnectBody, entry: &Entry) -> (Bytes, Effect) {
        let policy = ask.settings.policies.of(&entry.bucket);
        let (granted, clamped) = body.timeout.map_or((None, None), |seconds| clamp(policy, Some(seconds)));
        let sent = clamped.map_or_else(|| ask.body.clone(), |seconds| body.with(seconds));
        (sent, self.effect(entry, granted))
    }

    /// What a success means for the entry: it runs, and its end moves out (Cube never shortens it by connect).
    fn effect(&self, entry: &Entry, granted: Option<i64>) -> Effect {
        let Some(seconds) = granted.filter(|seconds| *seconds != 0) else { return Effect::Running };
        let new = deadline_from(self.clock.now(), seconds);
        match (entry.deadline, new) {
            (Some(old), Some(new)) => Effect::RunningUntil(Some(old.max(new))),
            _ => Effect::RunningUntil(None),
        }
    }
}
