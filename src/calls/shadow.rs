//! Mode `shadow`: everything is decided and recorded; nothing is injected, refused or changed.
//!
//! Must stay true: what goes to Cube and what comes back is what would have gone and come without us, suffixes aside. The
//! ledger keeps count of what it sees, so that enforcing later begins with true numbers.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::answers;
use super::classify::{Act, Call, Prefix};
use super::context::{Ask, BODY_LIMIT, Governor, noted, request_id, unavailable};
use super::identity::{self, Caller as Who};
use super::read_sandbox::unanswered;
use super::seam::{Reply, Route};
use super::settings::Settings;
use super::transparent::strip_suffix;
use super::wish::Wish;
use crate::cube::api::CreatedSandbox;
use crate::cube::client::Pace;
use crate::cube::outcome::{self, Absence, Asked};
use crate::cube::transport::TransportError;
use crate::ids::{Bucket, Marker, SandboxRef};
use crate::ledger::{Decision, KillReport, LedgerError, Reserved};
use crate::rules::delete;
use crate::rules::entry::{Actor, Birth, Entry, Proof};
use crate::rules::lanes::Lane;
use crate::verdict::Refusal;

/// Creates and deletes are followed; all else passes. Who asks is found out before Cube's own key takes the place of theirs.
pub(super) fn route(governor: &Governor, settings: &Settings, call: &Call, head: &mut Parts) -> (Route, Who) {
    let who = governor.seen(settings, head);
    governor.cube.swap_credential(&mut head.headers);
    strip_suffix(call, head);
    let followed = matches!(call, Call::Create(_) | Call::Sandbox { act: Act::Delete, .. });
    if followed {
        return (Route::Govern { body_limit: BODY_LIMIT }, who);
    }
    governor.metrics.passed();
    (Route::Pass, who)
}

pub(super) async fn run(governor: &Governor, call: Call, ask: Ask) -> Reply {
    match call {
        Call::Create(prefix) => governor.shadow_create(ask, prefix).await,
        Call::Sandbox { act: Act::Delete, sandbox, .. } => governor.shadow_delete(ask, sandbox).await,
        _ => Reply::Forward(ask.head, ask.body),
    }
}

impl Governor {
    /// Who asks; whoever would be refused goes on, as anybody if nobody knows them.
    fn seen(&self, settings: &Settings, head: &Parts) -> Who {
        let who = identity::identify(&settings.tenancy, &head.headers).unwrap_or_else(|refusal| {
            self.would_refuse(&refusal, None, request_id(head));
            identity::anybody()
        });
        if let Err(refusal) = self.pace(settings, &who) {
            self.would_refuse(&refusal, who.buckets.first(), request_id(head));
        }
        who
    }

    /// Notes a refusal that is not given.
    fn would_refuse(&self, refusal: &Refusal, bucket: Option<&Bucket>, request: Option<&str>) {
        let refused = Decision::refusal(refusal.reason.name(), bucket, None, None);
        let decision = refused.with("decision", "would_refuse").asked_by(request);
        self.ledger.note(noted(decision, refusal));
    }

    async fn shadow_create(&self, ask: Ask, prefix: Prefix) -> Reply {
        let wish = match Wish::read(self, &ask, prefix) {
            Ok(wish) => wish,
            Err(refusal) => {
                self.would_refuse(&refusal, ask.who.buckets.first(), ask.request_id());
                return Reply::Forward(ask.head, ask.body);
            }
        };
        if let Err(refusal) = self.would_admit(&ask, &wish).await {
            self.would_refuse(&refusal, Some(&wish.bucket), ask.request_id());
        }
        if let Some(seconds) = wish.clamped {
            let change = Decision::refusal("max_timeout", Some(&wish.bucket), Some(wish.owner()), None);
            let change = change.with("decision", "would_change").asked_by(ask.request_id());
            self.ledger.note(change.with("marker", wish.marker.as_str()).with("timeout_s", seconds));
        }
        let recorded = self.shadow_reserve(&ask, &wish).await;
        let answer = self.watched(Lane::Create, Asked::Create, ask.head.clone(), ask.body.clone()).await;
        if let Err(error) = recorded {
            log(&error);
        } else if let Err(error) = self.shadow_settle(&wish, answer.as_ref().ok()).await {
            log(&error);
        }
        Reply::Answer(answer.unwrap_or_else(|error| answers::refusal(&unanswered(&error))))
    }

    /// Carries a write further that the guard of the write path only watches: it refuses and delays nothing.
    async fn watched(
        &self,
        lane: Lane,
        asked: Asked,
        head: Parts,
        body: Bytes,
    ) -> Result<Response<Bytes>, TransportError> {
        let mut place = self.cube.guard().watch(lane);
        self.cube.write(&mut place, asked, head, body, Pace::Call).await
    }

    /// Would this create be allowed its fields, and find its objects, its rate, a slot?
    async fn would_admit(&self, ask: &Ask, wish: &Wish) -> Result<(), Refusal> {
        wish.check_fields()?;
        wish.check_objects(self, ask).await?;
        wish.check_rate(self, ask)?;
        self.check_write_path()?;
        self.would_fit(ask, &wish.bucket).await
    }

    async fn shadow_reserve(&self, ask: &Ask, wish: &Wish) -> Result<(), LedgerError> {
        if let Reserved::Slot(_) = self.ledger.reserve_unlimited(&wish.ledger_ask(ask, None, None)).await? {
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
                self.ledger.done(&wish.marker, &birth, None).await.map(drop)
            }
            // Without our labels a lost create cannot be found by its marker: what appears is taken in by the inventory.
            None => self.ledger.refused(&wish.marker, "not made, or not known to be (shadow)").await,
        }
    }

    async fn shadow_delete(&self, ask: Ask, sandbox: SandboxRef) -> Reply {
        let entry = self.ledger.find(&sandbox.id).await;
        match &entry {
            Ok(Some(entry)) if !may_end(&ask, entry, &sandbox) => {
                self.would_refuse(
                    &answers::no_such(sandbox.id.as_str()),
                    ask.who.buckets.first(),
                    ask.request_id(),
                );
            }
            Ok(None) if ask.who.tenant.is_some() => {
                self.would_refuse(
                    &answers::no_such(sandbox.id.as_str()),
                    ask.who.buckets.first(),
                    ask.request_id(),
                );
            }
            Err(error) => self.would_refuse(&unavailable(error), ask.who.buckets.first(), ask.request_id()),
            Ok(_) => {}
        }
        let answer = match self.watched(Lane::Delete, Asked::Delete, ask.head, ask.body).await {
            Ok(answer) => answer,
            Err(error) => return Reply::Answer(answers::refusal(&unanswered(&error))),
        };
        let status = answer.status();
        let absence = outcome::absence(Asked::Delete, status.as_u16(), answer.body(), &self.cube.profile());
        // Whoever asked: what Cube ended is gone.
        if let (Absence::Proven, Ok(Some(entry))) = (absence, entry)
            && let Err(error) = self.shadow_gone(&entry.marker, status).await
        {
            log(&error);
        }
        Reply::Answer(answer)
    }

    /// What Cube deleted is gone; what it does not find is so by the rules of any other 404. Nothing stays condemned that
    /// an enforcing warden would have to end.
    async fn shadow_gone(&self, marker: &Marker, status: StatusCode) -> Result<(), LedgerError> {
        if status != StatusCode::NO_CONTENT {
            return self.ledger.not_found(marker).await.map(drop);
        }
        self.ledger.condemn(marker, Actor::Client, &delete::Shown::nothing(), "DELETE (shadow)").await?;
        let Some(condemned) = self.ledger.condemned(marker).await? else { return Ok(()) };
        self.ledger.kill_tried(&condemned, KillReport::Proof(Proof::Deleted), "shadow").await.map(drop)
    }
}

fn may_end(ask: &Ask, entry: &Entry, sandbox: &SandboxRef) -> bool {
    let current = sandbox.generation.is_none_or(|generation| generation == entry.generation);
    ask.who.may_use(&entry.bucket) && current
}

fn log(error: &LedgerError) {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        "what was seen in shadow could not be written down"
    );
}
