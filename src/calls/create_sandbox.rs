//! POST /sandboxes and /v2/sandboxes: identify, body rules, admit, forward once, settle, answer.
//!
//! Must stay true: no byte goes upstream before the ledger has confirmed `dispatched`; the create is sent once (only the
//! empty 404/405 of a Cube without v2 lets it go out again, as v1); every way out settles the slot.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header};

use super::admit::{Admitted, Permit};
use super::answers;
use super::classify::{Call, Prefix};
use super::context::{Ask, Governor};
use super::fencing;
use super::mends::{self, Mend};
use super::reuse::Before;
use super::seam::Reply;
use super::wish::Wish;
use crate::cube::api::CreatedSandbox;
use crate::cube::client::Pace;
use crate::cube::guard::Place;
use crate::cube::outcome::{self, Asked, Outcome};
use crate::cube::profile::Probe;
use crate::cube::transport::TransportError;
use crate::ids::{Marker, SandboxRef};
use crate::ledger::{IdempotencyKey, LedgerError};
use crate::rules::entry::{Birth, Entry};
use crate::rules::lanes::Lane;
use crate::rules::policy::IdForm;
use crate::telemetry::Answer as Meant;
use crate::verdict::{Reason, Refusal};

/// Says that a timeout was clamped, and to what.
const CLAMPED: HeaderName = HeaderName::from_static("x-cubewarden-clamped");
/// Answers and metadata up to this size are kept in the ledger.
pub(super) const KEPT: usize = 4096;

/// What a create came to.
pub(super) enum Made {
    /// A sandbox.
    Given(Box<Given>),
    /// None; this is Cube's own answer.
    Refused(Response<Bytes>),
}

/// A sandbox that a create gives.
pub(super) struct Given {
    pub(super) entry: Entry,
    /// As Cube answers a create.
    pub(super) answer: Response<Bytes>,
    /// Whether it was there before.
    pub(super) reused: bool,
}

impl Made {
    /// The answer to an SDK; a holder also learns its lease.
    pub(super) fn into_answer(self) -> Response<Bytes> {
        let given = match self {
            Self::Given(given) => *given,
            Self::Refused(answer) => return answer,
        };
        let mut answer = given.answer;
        if let Some(lease) = given.entry.lease.as_ref().and_then(|lease| fencing::header(&lease.id)) {
            answer.headers_mut().insert(fencing::LEASE_ID, lease);
        }
        answer
    }
}

pub(super) async fn run(governor: &Governor, ask: Ask, prefix: Prefix) -> Result<Reply, Refusal> {
    let wish = Wish::read(governor, &ask, prefix)?;
    make(governor, &ask, wish, prefix).await.map(|made| Reply::Answer(made.into_answer()))
}

/// Makes what is wished for, or finds that it is there already.
pub(super) async fn make(
    governor: &Governor,
    ask: &Ask,
    mut wish: Wish,
    prefix: Prefix,
) -> Result<Made, Refusal> {
    wish.check_fields()?;
    wish.check_objects(governor, ask).await?;
    let key = idempotency_key(ask, &wish)?;
    wish.claimable |= key.is_some();
    wish.check_rate(governor, ask)?;
    let permit = loop {
        let key = match governor.claim_key(ask, key.as_ref()).await? {
            Before::Nothing(key) => key,
            Before::Given(given) => return Ok(Made::Given(given)),
            Before::LookAgain => continue,
        };
        let claim = match governor.claim_owner(ask, &wish).await? {
            Before::Nothing(claim) => claim,
            Before::Given(given) => return Ok(Made::Given(given)),
            Before::LookAgain => continue,
        };
        // Before a slot is taken: while creates are not sent, they hold none.
        governor.check_write_path()?;
        match governor.admit(ask, &wish.ledger_ask(ask, key, claim)).await? {
            Admitted::Permit(permit) => break permit,
            Admitted::Taken => {}
        }
    };
    governor.metrics.admitted(ask.settings.policies.label(&wish.bucket));
    let (permit, place) = governor.enter_lane(ask, permit).await?;
    let began = governor.clock.now();
    let answer = governor.send_create(ask, &wish, prefix, place).await;
    governor.time_create(ask.settings.policies.label(&wish.bucket), began, answer.as_ref().ok());
    governor.settle(ask, &wish, permit, answer).await
}

/// The key of a create, if it has one.
fn idempotency_key(ask: &Ask, wish: &Wish) -> Result<Option<IdempotencyKey>, Refusal> {
    let mut keys = ask.head.headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    let (Some(key), None) = (key, keys.next()) else {
        let message = "Idempotency-Key takes 1 to 255 visible ASCII characters, once";
        return Err(Refusal::new(Reason::BadRequest, message));
    };
    let bucket = wish.bucket.to_string();
    let owner = wish.named_owner().unwrap_or_default();
    let parts: [&[u8]; 3] = [bucket.as_bytes(), owner.as_bytes(), wish.body.raw()];
    Ok(Some(IdempotencyKey::new(ask.who.tenant.as_ref(), key, &parts)))
}

pub(super) fn outcome_unknown(marker: &Marker) -> Refusal {
    let message = "the create was sent and its answer was lost; it is looked for, and ended if nobody can claim it; \
                   list your sandboxes before you create again, or use an Idempotency-Key";
    Refusal::new(Reason::OutcomeUnknown, message).with("marker", marker.as_str())
}

impl Governor {
    /// Waits for a place among the writes to Cube; who gets none gives the slot back at once.
    async fn enter_lane(&self, ask: &Ask, permit: Permit) -> Result<(Permit, Place), Refusal> {
        match self.place(ask, Lane::Create).await {
            Ok(place) => Ok((permit, place)),
            Err(refusal) => {
                settled(self.ledger.refused(&permit.marker, "it was not sent").await);
                Err(refusal)
            }
        }
    }

    /// Sends it, once; and once more as v1 if Cube has no v2.
    async fn send_create(
        &self,
        ask: &Ask,
        wish: &Wish,
        prefix: Prefix,
        mut place: Place,
    ) -> Result<Response<Bytes>, TransportError> {
        let to = |prefix: Prefix| ask.head_to(&Call::Create(prefix).upstream_path().unwrap_or_default());
        let mut send = async |head| {
            self.cube.write(&mut place, Asked::Create, head, wish.upstream_body.clone(), Pace::Call).await
        };
        let known = self.cube.profile().has_v2_create;
        let as_v1 = prefix.as_v1();
        if prefix.is_v2() && known == Some(false) && ask.settings.compat.v2_create {
            self.metrics.mended(Mend::V2Create.name());
            return send(to(as_v1)).await;
        }
        let answer = send(to(prefix)).await?;
        if !prefix.is_v2() {
            return Ok(answer);
        }
        self.cube.learn(Probe::V2Create, &answer);
        let status = answer.status().as_u16();
        if !mends::falls_back_to_v1(&ask.settings.compat, status, answer.body()) {
            return Ok(answer);
        }
        if let Err(refusal) = mends::create_as_v1(&wish.body) {
            // Cube has done nothing (it has no such route): the refusal takes the place of its empty answer.
            return Ok(answers::refusal(&refusal));
        }
        self.metrics.mended(Mend::V2Create.name());
        send(to(as_v1)).await
    }

    /// Done makes the entry live; refused gives the slot back; unknown makes it ambiguous, still charged.
    async fn settle(
        &self,
        ask: &Ask,
        wish: &Wish,
        permit: Permit,
        answer: Result<Response<Bytes>, TransportError>,
    ) -> Result<Made, Refusal> {
        let marker = permit.marker.clone();
        let answer = match answer {
            Ok(answer) => answer,
            Err(error @ TransportError::NotSent(_)) => {
                self.metrics.answered(Meant::NotSent);
                settled(self.ledger.refused(&marker, "Cube could not be reached").await);
                return Err(unreachable(&error));
            }
            Err(error @ TransportError::Lost(_)) => {
                self.metrics.answered(Meant::Unknown);
                settled(self.ledger.lost(&marker, &error.to_string()).await);
                return Err(outcome_unknown(&marker));
            }
        };
        let status = answer.status().as_u16();
        match outcome::outcome(Asked::Create, status, answer.body()) {
            Outcome::Done => {
                let given = self.settle_done(ask, wish, permit, answer).await?;
                Ok(Made::Given(Box::new(given)))
            }
            Outcome::Refused { slow_down } => {
                self.metrics.answered(if slow_down { Meant::SlowDown } else { Meant::Refused });
                settled(self.ledger.refused(&marker, &format!("Cube refused with {status}")).await);
                Ok(Made::Refused(answers::refused_by_cube(self, ask, answer)))
            }
            Outcome::Unknown => {
                self.metrics.answered(Meant::Unknown);
                settled(self.ledger.lost(&marker, &format!("Cube answered {status}")).await);
                if outcome::is_lost(status) {
                    Err(outcome_unknown(&marker))
                } else {
                    Ok(Made::Refused(answers::mended(self, ask, answer)))
                }
            }
        }
    }

    async fn settle_done(
        &self,
        ask: &Ask,
        wish: &Wish,
        permit: Permit,
        answer: Response<Bytes>,
    ) -> Result<Given, Refusal> {
        let Permit { marker, generation } = permit;
        self.metrics.answered(Meant::Done);
        let created = match CreatedSandbox::read(answer.body()) {
            Ok(created) => created,
            Err(error) => {
                tracing::error!(%marker, %error, "Cube made a sandbox and did not say which");
                settled(self.ledger.lost(&marker, &error.to_string()).await);
                return Err(outcome_unknown(&marker));
            }
        };
        let text = String::from_utf8_lossy(answer.body()).into_owned();
        let birth = Birth {
            sandbox: created.id.clone(),
            answer: (text.len() <= KEPT).then(|| text.clone()),
            deadline: wish.deadline_from(self.clock.now()),
        };
        if ask.caller.is_gone() && !wish.claimable {
            // Nobody awaits the answer any more, and nothing could claim the sandbox: it is ended again.
            let loan = self.deeds.lend(&marker, self.cube.credential_for(&ask.head.headers));
            settled(self.ledger.done_for_nobody(&marker, &birth).await.map(drop));
            self.deeds.keep(&marker, loan);
            return Err(outcome_unknown(&marker));
        }
        let lease = wish.plan.as_ref().map(|plan| &plan.id);
        let entry = match self.ledger.done(&marker, &birth, lease).await {
            // Found and taken by another holder before this answer came: its token is not told to whoever asked first.
            Ok(Some(entry)) if entry.usable() && entry.generation == generation => entry,
            Ok(_) => return Err(outcome_unknown(&marker)),
            Err(error) => {
                settled(Err(error));
                return Err(outcome_unknown(&marker));
            }
        };
        let (mut head, _) = answer.into_parts();
        for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        if let Some(clamped) =
            wish.clamped.and_then(|seconds| HeaderValue::from_str(&format!("timeout={seconds}")).ok())
        {
            head.headers.insert(CLAMPED, clamped);
        }
        let answer = Response::from_parts(head, Bytes::from(named(ask, &entry, text)));
        Ok(Given { entry, answer, reused: false })
    }
}

/// Cube cannot be reached; nothing was sent.
pub(super) fn unreachable(error: &TransportError) -> Refusal {
    tracing::warn!(error = error as &dyn std::error::Error, "Cube cannot be reached");
    Refusal::new(
        Reason::UpstreamUnreachable,
        "the Cube API cannot be reached; nothing was sent, try again soon",
    )
    .after(2)
}

/// The answer's body with the id as this bucket hands it out.
pub(super) fn named(ask: &Ask, entry: &Entry, body: String) -> String {
    let qualified = ask.settings.policies.of(&entry.bucket).ids == IdForm::Qualified;
    match (&entry.sandbox, qualified) {
        (Some(id), true) => {
            let name = SandboxRef { id: id.clone(), generation: Some(entry.generation) };
            crate::cube::api::with_sandbox_id(&body, &name).unwrap_or(body)
        }
        _ => body,
    }
}

/// A settlement that could not be written stays as it is in the ledger (dispatched, charged): the reconciler finds
/// out what became of it.
fn settled(written: Result<(), LedgerError>) {
    if let Err(error) = written {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "a create could not be settled; the reconciler will"
        );
    }
}
