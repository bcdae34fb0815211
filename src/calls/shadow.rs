//! Mode `shadow`: everything is decided and recorded; nothing is injected, refused or changed.
//!
//! Must stay true: what goes to Cube and what comes back is what would have gone and come without us, suffixes aside. The
//! ledger keeps count of what it sees, so that enforcing later begins with true numbers.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::governor::{Ask, BODY_LIMIT, Governor};
use super::identity::{self, Caller as Who};
use super::ownership::Owned;
use super::read_sandbox::unanswered;
use super::seam::{Caller, Reply, Route};
use super::settings::{Settings, Tenancy};
use super::transparent::strip_suffix;
use super::wish::Wish;
use crate::cube::api::CreatedSandbox;
use crate::cube::client::Pace;
use crate::cube::outcome::{self, Absence, Asked};
use crate::ids::SandboxRef;
use crate::ledger::{Decision, KillReport, LedgerError, Limits, Reserved};
use crate::rules::entry::{Actor, Birth, Proof};
use crate::verdict::Refusal;

/// Creates and deletes are followed; all else passes.
pub(super) fn route(governor: &Governor, call: &Call, head: &mut Parts) -> Route {
    governor.cube.swap_credential(&mut head.headers);
    match call {
        Call::Create(_) => Route::Govern { body_limit: BODY_LIMIT },
        Call::Sandbox { act: Act::Delete, .. } => {
            strip_suffix(call, head);
            Route::Govern { body_limit: BODY_LIMIT }
        }
        _ => {
            strip_suffix(call, head);
            governor.metrics.passed();
            Route::Pass
        }
    }
}

pub(super) async fn run(
    governor: &Governor,
    settings: Arc<Settings>,
    call: Call,
    head: Parts,
    body: Bytes,
    caller: Caller,
) -> Reply {
    let who = identity::identify(&settings.tenancy, &head.headers);
    let who = who.unwrap_or_else(|refusal| governor.would_refuse(&refusal));
    let ask = Ask { head, body, who, caller, arrived: governor.clock.now(), settings };
    match call {
        Call::Create(prefix) => governor.shadow_create(ask, prefix).await,
        Call::Sandbox { act: Act::Delete, sandbox, .. } => governor.shadow_delete(ask, sandbox).await,
        _ => Reply::Forward(ask.head, ask.body),
    }
}

impl Governor {
    /// Notes a refusal that is not given, and goes on as anybody.
    fn would_refuse(&self, refusal: &Refusal) -> Who {
        self.note_shadow(refusal);
        let anybody = identity::identify(&Tenancy::Open, &http::HeaderMap::new());
        anybody.expect("in open mode nobody is refused")
    }

    fn note_shadow(&self, refusal: &Refusal) {
        let decision = Decision::new("would_refuse", refusal.reason.name());
        self.ledger.note(decision.with("message", refusal.message.as_str()));
    }

    async fn shadow_create(&self, ask: Ask, prefix: Prefix) -> Reply {
        let wish = match Wish::read(self, &ask, prefix) {
            Ok(wish) => wish,
            Err(refusal) => {
                self.note_shadow(&refusal);
                return Reply::Forward(ask.head, ask.body);
            }
        };
        if let Err(refusal) = self.would_admit(&ask, &wish).await {
            self.note_shadow(&refusal);
        }
        let recorded = self.shadow_reserve(&ask, &wish).await;
        let answer = self.cube.carry(ask.head.clone(), ask.body.clone(), Pace::Call).await;
        if let Err(error) = recorded {
            log(&error);
        } else if let Err(error) = self.shadow_settle(&wish, answer.as_ref().ok()).await {
            log(&error);
        }
        Reply::Answer(answer.unwrap_or_else(|error| answers::refusal(&unanswered(&error))))
    }

    /// Would this create find a slot, its objects, its rate?
    async fn would_admit(&self, ask: &Ask, wish: &Wish) -> Result<(), Refusal> {
        wish.check_objects(self, ask).await?;
        wish.check_rate(self)?;
        self.would_fit(ask, &wish.bucket).await
    }

    async fn shadow_reserve(&self, ask: &Ask, wish: &Wish) -> Result<(), LedgerError> {
        if let Reserved::Slot(_) = self.ledger.reserve(&wish.ledger_ask(ask, None), Limits::default()).await?
        {
            self.ledger.dispatch(&wish.marker).await?;
        }
        Ok(())
    }

    async fn shadow_settle(&self, wish: &Wish, answer: Option<&Response<Bytes>>) -> Result<(), LedgerError> {
        let created = answer.filter(|answer| answer.status() == StatusCode::CREATED);
        match created.and_then(|answer| CreatedSandbox::read(answer.body()).ok()) {
            Some(created) => {
                let deadline = wish.asked_deadline(self.clock.now());
                let birth = Birth { sandbox: created.id, answer: None, deadline };
                self.ledger.done(&wish.marker, &birth).await.map(drop)
            }
            // Without our labels a lost create cannot be found by its marker: what appears is taken in by the inventory.
            None => self.ledger.refused(&wish.marker, "not made, or not known to be (shadow)").await,
        }
    }

    async fn shadow_delete(&self, ask: Ask, sandbox: SandboxRef) -> Reply {
        let owned = match self.owned_even_dead(&ask, &sandbox).await {
            Ok(owned) => Some(owned),
            Err(refusal) => {
                self.note_shadow(&refusal);
                None
            }
        };
        let answer = match self.cube.carry(ask.head.clone(), ask.body.clone(), Pace::Call).await {
            Ok(answer) => answer,
            Err(error) => return Reply::Answer(answers::refusal(&unanswered(&error))),
        };
        let status = answer.status().as_u16();
        let absence = outcome::absence(Asked::Delete, status, answer.body(), &self.cube.profile());
        if let (Absence::Proven, Some(Owned::Entry(entry))) = (absence, owned) {
            let proof = if status == 204 { Proof::Deleted } else { Proof::DeleteNotFound };
            if let Err(error) = self.shadow_gone(&entry.marker, proof).await {
                log(&error);
            }
        }
        Reply::Answer(answer)
    }

    async fn shadow_gone(&self, marker: &crate::ids::Marker, proof: Proof) -> Result<(), LedgerError> {
        self.ledger.condemn(marker, Actor::Client, None, "DELETE (shadow)").await?;
        self.ledger.kill_tried(marker, KillReport::Proof(proof), "shadow").await.map(drop)
    }
}

fn log(error: &LedgerError) {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "what was seen in shadow could not be written down"
    );
}
