//! POST {id}/connect and {id}/resume, and connect under /v2: no slot is needed, a paused sandbox has kept its own.

use bytes::Bytes;
use http::Response;

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, Governor};
use super::mends::{self, Mend};
use super::ownership::Owned;
use super::seam::Reply;
use super::touch::{Touch, deadline_from};
use super::wish::{clamp, malformed};
use crate::cube::api::ConnectBody;
use crate::cube::client::Pace;
use crate::ids::SandboxRef;
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
    let entry = match owned {
        Owned::Entry(entry) => entry,
        Owned::Unrecorded => return governor.unrecorded(ask, call, sandbox, &body).await,
    };
    let policy = ask.settings.policies.of(&entry.bucket);
    let (granted, clamped) = body.timeout.map_or((None, None), |seconds| clamp(policy, Some(seconds)));
    let sent = clamped.map_or_else(|| ask.body.clone(), |seconds| body.with(seconds));
    let effect = governor.effect(&entry, granted);
    let touch =
        Touch { ask: &ask, call: call.clone(), sandbox: &sandbox, body: sent.clone(), pace: Pace::Wake };
    let answer = governor.touch(touch, &entry, effect).await?;
    if !governor.lacks_v2(&ask, prefix, &answer) {
        return Ok(Reply::Answer(answer));
    }
    let call = v1(&call);
    mends::connect_as_v1(&body)?;
    governor.metrics.mended(Mend::V2Create.name());
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body: sent, pace: Pace::Wake };
    governor.touch(touch, &entry, effect).await.map(Reply::Answer)
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

    /// Was this the answer of a router without the v2 route? It is learned; the mended form of the answer is known too.
    fn lacks_v2(&self, ask: &Ask, prefix: Prefix, answer: &Response<Bytes>) -> bool {
        prefix.is_v2()
            && ask.settings.compat.v2_create
            && self.cube.profile().has_v2_connect == Some(false)
            && !answer.status().is_success()
    }

    async fn unrecorded(
        &self,
        ask: Ask,
        call: Call,
        sandbox: SandboxRef,
        body: &ConnectBody,
    ) -> Result<Reply, Refusal> {
        let Call::Sandbox { prefix, .. } = &call else { return Err(answers::no_such(sandbox.id.as_str())) };
        if !prefix.is_v2() {
            let body = ask.body.clone();
            return self.touch_unrecorded(&ask, call, &sandbox, body, Pace::Wake).await;
        }
        let touch = Touch {
            ask: &ask,
            call: call.clone(),
            sandbox: &sandbox,
            body: ask.body.clone(),
            pace: Pace::Wake,
        };
        let answer = self.send(&touch).await.map_err(|error| super::create_sandbox::unreachable(&error))?;
        if mends::falls_back_to_v1(&ask.settings.compat, answer.status().as_u16(), answer.body()) {
            mends::connect_as_v1(body)?;
            self.metrics.mended(Mend::V2Create.name());
            let body = ask.body.clone();
            return self.touch_unrecorded(&ask, v1(&call), &sandbox, body, Pace::Wake).await;
        }
        Ok(Reply::Answer(answers::mended(self, &ask, answer)))
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
