//! DELETE of a sandbox, and `timeout 0`, which is the same: decide, write the intent down, kill, answer.
//!
//! Must stay true: the intent is durable before Cube is asked; what the caller is told is what was proven. A repeated
//! DELETE joins the first.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::answers;
use super::governor::{Ask, Governor, unavailable};
use super::ownership::Owned;
use super::seam::Reply;
use crate::deeds::Ended;
use crate::ids::SandboxRef;
use crate::ledger::Condemned;
use crate::rules::entry::{Actor, Entry};
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
        // Lent before the intent is visible: whoever carries it out first needs it.
        self.deeds.lend(&entry.marker, self.cube.credential_for(&ask.head.headers));
        let condemned = self.ledger.condemn(&entry.marker, Actor::Client, presented.generation, why).await;
        match condemned.map_err(|error| unavailable(&error))? {
            Condemned::Yes => self.metrics.decided(Decision::Allow),
            Condemned::Later => {
                self.metrics.decided(Decision::Later);
                return Err(pending());
            }
            // A stale generation is gone for whoever presents it: the same answer as for the dead.
            Condemned::NotFound | Condemned::Fenced => {
                self.deeds.take_back(&entry.marker);
                self.metrics.decided(Decision::Refuse);
                return Err(answers::no_such(presented.id.as_str()));
            }
        }
        let ended = self.deeds.kill_and_wait(&entry.marker).await;
        match ended.map_err(|error| unavailable(&error))? {
            Ended::Deleted => Ok(answers::plain(StatusCode::NO_CONTENT, Bytes::new())),
            Ended::NotFound => Err(answers::no_such(presented.id.as_str())),
            Ended::Pending => Err(pending()),
        }
    }
}

fn pending() -> Refusal {
    let message = "the delete is written down and goes on; delete again to learn how it ended";
    Refusal::new(Reason::DeletePending, message)
}
