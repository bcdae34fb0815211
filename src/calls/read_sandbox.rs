//! GET of one sandbox, its logs, its metrics: ownership first. What Cube forgot at a pause is filled in from the ledger.

use bytes::Bytes;
use http::{Method, Response, StatusCode};

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, Governor};
use super::enrich;
use super::mends;
use super::ownership::Owned;
use super::seam::Reply;
use super::touch::Touch;
use crate::cube::api::{Detail, SandboxState};
use crate::cube::client::Pace;
use crate::cube::outcome::{self, Absence, Asked};
use crate::cube::transport::TransportError;
use crate::ids::SandboxRef;
use crate::rules::delete::Reach;
use crate::rules::entry::{Activity, Entry};
use crate::rules::policy::IdForm;
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

pub(super) async fn get(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    let call = Call::Sandbox { act: Act::Get, prefix, sandbox: sandbox.clone() };
    let entry = match governor.owned(&ask, &sandbox).await {
        Ok(Owned::Entry(entry)) => Some(entry),
        Ok(Owned::Unrecorded) => None,
        Err(refusal) => governor.unless_hearsay(&ask, &sandbox, refusal).await?,
    };
    if ask.head.method == Method::HEAD {
        let body = ask.body.clone();
        return Ok(Governor::forward(&ask, &call, body));
    }
    let (body, reach) = (Bytes::new(), Reach::Joins);
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Call, reach };
    let began = governor.clock.now();
    let answer = governor.send(&touch).await.map_err(|error| unanswered(&error))?;
    if let Some(entry) = &entry {
        governor.learn_from(entry, &answer, began).await;
    }
    let answer = match answer.status() {
        StatusCode::OK => governor.dressed(&ask, &sandbox, entry.as_deref(), answer),
        _ => answer,
    };
    Ok(Reply::Answer(answers::mended(governor, &ask, answer)))
}

/// Logs, metrics, and whatever else may be read of a sandbox by its owner.
pub(super) async fn other(
    governor: &Governor,
    ask: Ask,
    act: Act,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    if let Err(refusal) = governor.owned(&ask, &sandbox).await {
        governor.unless_hearsay(&ask, &sandbox, refusal).await?;
    }
    let call = Call::Sandbox { act, prefix, sandbox: sandbox.clone() };
    let body = ask.body.clone();
    Ok(Governor::forward(&ask, &call, body))
}

/// Cube did not answer a read; nothing can have happened.
pub(super) fn unanswered(error: &TransportError) -> Refusal {
    tracing::warn!(error = error as &dyn std::error::Error, "Cube did not answer a read");
    match error {
        TransportError::NotSent(_) => {
            Refusal::new(Reason::UpstreamUnreachable, "the Cube API cannot be reached; try again soon")
                .after(2)
        }
        TransportError::Lost(_) => {
            Refusal::new(Reason::UpstreamTimeout, "the Cube API did not answer in time; try again")
        }
    }
}

impl Governor {
    /// The ledger cannot be asked: what this process remembers, or Cube's own labels, may still say that it is the
    /// caller's.
    async fn unless_hearsay(
        &self,
        ask: &Ask,
        sandbox: &SandboxRef,
        refusal: Refusal,
    ) -> Result<Option<Box<Entry>>, Refusal> {
        let heard = refusal.reason == Reason::LedgerUnavailable && self.owned_by_hearsay(ask, sandbox).await;
        if heard { Ok(None) } else { Err(refusal) }
    }

    /// The ledger follows what the answer shows: gone by proof, paused, running again.
    async fn learn_from(&self, entry: &Entry, answer: &Response<Bytes>, began: UnixMillis) {
        let profile = self.cube.profile();
        let written = match outcome::absence(Asked::Get, answer.status().as_u16(), answer.body(), &profile) {
            Absence::Proven => self.ledger.not_found(&entry.marker).await.map(drop),
            Absence::Alive => {
                match (Detail::read(answer.body()).map(|detail| detail.listed.state), entry.paused_since()) {
                    (Ok(SandboxState::Paused), None) => {
                        self.ledger.observed(&entry.marker, Activity::Paused(began), began).await
                    }
                    (Ok(SandboxState::Running), Some(_)) => {
                        self.ledger.observed(&entry.marker, Activity::Running, began).await
                    }
                    _ => Ok(()),
                }
            }
            Absence::NoProof => Ok(()),
        };
        if let Err(error) = written {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what a read showed could not be written down"
            );
        }
    }

    /// A detail as this caller shall see it: completed from the ledger, named as it was asked for, mended.
    fn dressed(
        &self,
        ask: &Ask,
        sandbox: &SandboxRef,
        entry: Option<&Entry>,
        answer: Response<Bytes>,
    ) -> Response<Bytes> {
        let (head, body) = answer.into_parts();
        let Ok(text) = std::str::from_utf8(&body) else { return Response::from_parts(head, body) };
        let completed = entry.map_or_else(|| text.to_owned(), |entry| enrich::item(self, ask, entry, text));
        let qualifies = |entry: &Entry| ask.settings.policies.of(&entry.bucket).ids == IdForm::Qualified;
        let generation =
            sandbox.generation.or(entry.filter(|entry| qualifies(entry)).map(|entry| entry.generation));
        let named = match generation {
            Some(_) => {
                let name = SandboxRef { id: sandbox.id.clone(), generation };
                crate::cube::api::with_sandbox_id(&completed, &name).unwrap_or(completed)
            }
            None => completed,
        };
        let mended = mends::item(&ask.settings.compat, ask.user_agent(), &named);
        mended.made.iter().for_each(|mend| self.metrics.mended(mend.name()));
        Response::from_parts(head, Bytes::from(mended.text))
    }
}
