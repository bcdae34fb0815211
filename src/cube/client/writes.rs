//! Writes: what changes something at Cube is sent with a place of the guard, and what came of it is told there.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};

use super::{Client, Credential, Pace, Seen};
use crate::cube::guard::{Place, told};
use crate::cube::outcome::{self, Absence, Asked, Outcome};
use crate::cube::profile::Probe;
use crate::cube::transport::TransportError;
use crate::ids::SandboxId;
use crate::rules::entry::Proof;

/// What a DELETE of one sandbox said.
#[derive(Clone, Debug)]
pub enum Killed {
    /// It is gone.
    Proof(Proof),
    /// Cube asks to come back later.
    Wait(Duration),
    /// It is paused, and this Cube does not delete paused ones.
    Paused,
    /// Cube refused, or was not reached: nothing was done.
    Refused(String),
    /// Nothing can be concluded.
    Unclear(String),
}

impl Client {
    /// Carries a client's write further, like [`Client::carry`].
    ///
    /// # Errors
    /// [`TransportError`], which says whether anything can have been sent.
    pub async fn write(
        &self,
        granted: &mut Place,
        asked: Asked,
        head: Parts,
        body: Bytes,
        pace: Pace,
    ) -> Result<Response<Bytes>, TransportError> {
        granted.sends();
        let answer = self.carry(head, body, pace).await;
        granted.tell(told(asked, &answer));
        answer
    }

    /// DELETE of one sandbox. The place is free as soon as Cube has answered.
    pub async fn delete(&self, mut place: Place, sandbox: &SandboxId, credential: &Credential) -> Killed {
        let path = format!("/sandboxes/{sandbox}");
        place.sends();
        let answer = self.ask(Method::DELETE, &path, None, Pace::Call, credential).await;
        place.tell(told(Asked::Delete, &answer));
        drop(place);
        match answer {
            Ok(answer) => self.read_delete(&answer, sandbox, credential).await,
            Err(error @ TransportError::NotSent(_)) => Killed::Refused(format!("DELETE: {error}")),
            Err(error @ TransportError::Lost(_)) => Killed::Unclear(format!("DELETE: {error}")),
        }
    }

    async fn read_delete(
        &self,
        answer: &Response<Bytes>,
        sandbox: &SandboxId,
        credential: &Credential,
    ) -> Killed {
        let (status, body) = (answer.status().as_u16(), answer.body());
        if outcome::absence(Asked::Delete, status, body, &self.profile()) == Absence::Proven {
            let deleted = answer.status() == StatusCode::NO_CONTENT;
            if !deleted && self.profile().wants(Probe::DeleteOfNobody) {
                // It tells what it does not have from what it has; what it said of one is true of all.
                self.learn(Probe::DeleteOfNobody, answer);
            }
            return Killed::Proof(if deleted { Proof::Deleted } else { Proof::DeleteNotFound });
        }
        if answer.status() == StatusCode::NO_CONTENT && self.profile().wants(Probe::DeleteOfNobody) {
            return self.confirm_deleted(sandbox, credential).await;
        }
        let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        if let Some(seconds) = outcome::retry_after(retry_after, body) {
            return Killed::Wait(Duration::from_secs(u64::from(seconds.max(1))));
        }
        if outcome::paused_refuses_delete(status, body) {
            return Killed::Paused;
        }
        let said = format!("DELETE was answered {status}");
        match outcome::outcome(Asked::Write, status, body) {
            Outcome::Refused { .. } => Killed::Refused(said),
            Outcome::Done | Outcome::Unknown => Killed::Unclear(said),
        }
    }

    /// A 204 of a Cube of which it is not known whether it says so of anything.
    async fn confirm_deleted(&self, sandbox: &SandboxId, credential: &Credential) -> Killed {
        match self.get(sandbox, credential).await {
            Seen::Absent => Killed::Proof(Proof::Deleted),
            Seen::Here(_) => Killed::Refused("still there after DELETE was answered 204".to_owned()),
            Seen::Unclear(why) => Killed::Unclear(format!("DELETE was answered 204, unproven; {why}")),
        }
    }
}
