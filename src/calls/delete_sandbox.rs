//! DELETE of a sandbox, and `timeout 0`, which is the same: decide, write the intent down, kill, answer.
//!
//! Must stay true: the intent is durable before Cube is asked; what the caller is told is what was proven. A repeated
//! DELETE joins the first and gets its 204, also if the end came between the two (`owed` in the ledger, written when
//! somebody goes untold); after a 204 that was given, it is a 404 as with Cube.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::answers;
use super::context::{Ask, Governor, unconfirmed};
use super::fencing;
use super::ownership::Owned;
use super::seam::Reply;
use crate::deeds::Ended;
use crate::ids::SandboxRef;
use crate::ledger::{Cause, Condemned, LedgerError};
use crate::rules::entry::{Actor, Entry};
use crate::rules::policy::UnprovenDelete;
use crate::telemetry::Decision;
use crate::verdict::{Reason, Refusal};

pub(super) async fn run(governor: &Governor, ask: Ask, sandbox: SandboxRef) -> Result<Reply, Refusal> {
    match governor.owned_even_dead(&ask, &sandbox).await? {
        Owned::Entry(entry) => governor.end(&ask, &entry, &sandbox, "DELETE").await.map(Reply::Answer),
        Owned::Unrecorded => {
            let head = ask.head_to(&format!("/sandboxes/{}", sandbox.id));
            Ok(Reply::Forward(head, ask.body))
        }
    }
}

impl Governor {
    /// Ends a sandbox for its client.
    pub(super) async fn end(
        &self,
        ask: &Ask,
        entry: &Entry,
        presented: &SandboxRef,
        why: &str,
    ) -> Result<Response<Bytes>, Refusal> {
        if let Some(turned_away) = self.turned_away(ask, &presented.id).await {
            return Ok(turned_away);
        }
        let shown = ask.shown(presented)?;
        let cause = Cause { why, request: ask.request_id() };
        let loan = self.deeds.lend(&entry.marker, self.cube.credential_for(&ask.head.headers));
        let condemned = self.ledger.condemn(&entry.marker, Actor::Client, &shown, cause).await;
        match condemned {
            Ok(Condemned::Yes) => {
                self.deeds.keep(&entry.marker, loan);
                self.metrics.decided(Decision::Allow);
                self.until_ended(ask, entry, presented).await
            }
            Ok(Condemned::Ended) => {
                self.deeds.take_back(&entry.marker, loan);
                self.metrics.decided(Decision::Allow);
                Ok(deleted())
            }
            Ok(Condemned::Later) => {
                self.deeds.take_back(&entry.marker, loan);
                self.metrics.decided(Decision::Later);
                Err(pending())
            }
            Ok(Condemned::Unproven) => {
                self.deeds.take_back(&entry.marker, loan);
                self.unproven_end(ask, entry, why).await
            }
            Ok(Condemned::Fenced) => {
                self.deeds.take_back(&entry.marker, loan);
                Err(self.fenced(presented, &shown, None))
            }
            Ok(Condemned::NotFound | Condemned::Kept) => {
                self.deeds.take_back(&entry.marker, loan);
                self.metrics.decided(Decision::Refuse);
                Err(answers::no_such(presented.id.as_str()))
            }
            // The intent may stand: what was lent for it stays.
            Err(error) => {
                self.deeds.keep(&entry.marker, loan);
                Err(unconfirmed(&error))
            }
        }
    }

    /// The end of a sandbox that has had several holders, by somebody who does not show which one it is.
    async fn unproven_end(&self, ask: &Ask, entry: &Entry, why: &str) -> Result<Response<Bytes>, Refusal> {
        match ask.settings.policies.of(&entry.bucket).unproven_delete {
            UnprovenDelete::Refuse => {
                self.metrics.decided(Decision::Refuse);
                Err(fencing::unproven(Reason::FencedGeneration))
            }
            UnprovenDelete::Defer => {
                self.ledger.drop_claim(&entry.marker, why).await.map_err(|error| unconfirmed(&error))?;
                self.metrics.decided(Decision::Defer);
                Ok(deleted())
            }
        }
    }

    /// Waits for the end of what is condemned. Whoever goes without having been told of it is owed the 204.
    async fn until_ended(
        &self,
        ask: &Ask,
        entry: &Entry,
        presented: &SandboxRef,
    ) -> Result<Response<Bytes>, Refusal> {
        let ended = self.deeds.kill_and_wait(&entry.marker).await.unwrap_or_else(|error| {
            log(&error);
            Ended::Pending
        });
        let told = ended != Ended::Pending && !ask.caller.is_gone();
        if !told && let Err(error) = self.ledger.owe(&entry.marker).await {
            log(&error);
        }
        match ended {
            Ended::Deleted => Ok(deleted()),
            Ended::NotFound => Err(answers::no_such(presented.id.as_str())),
            Ended::Pending => Err(pending()),
        }
    }
}

fn deleted() -> Response<Bytes> {
    answers::plain(StatusCode::NO_CONTENT, Bytes::new())
}

/// The intent stands and is carried out, whatever the ledger says meanwhile.
fn log(error: &LedgerError) {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "how a kill goes on could not be read or written"
    );
}

fn pending() -> Refusal {
    let message = "the delete is written down and goes on; delete again to learn how it ended";
    Refusal::new(Reason::DeletePending, message)
}
