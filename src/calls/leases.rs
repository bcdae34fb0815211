//! The native API: acquire a sandbox for an owner, show that its holder lives, let it go.
//!
//! Must stay true: a holder is who shows owner and lease as they stand in the ledger, nobody else; a release is durable
//! before it is answered, and is carried out whoever waits. An acquisition is a create with a lease, and nothing more.

use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use bytes::Bytes;

use super::answers;
use super::classify::{LeaseAct, Prefix};
use super::context::{Ask, Governor, unavailable, unconfirmed};
use super::create_sandbox::{self, Given, Made};
use super::fencing;
use super::identity::Said;
use super::seam::Reply;
use super::wish::{Wish, malformed};
use crate::cube::api::{Held, LabelNames, LeaseBody, LeaseDefaults};
use crate::deeds::Renewal;
use crate::ids::{Bucket, LeaseId, OwnerId};
use crate::ledger::ByHolder;
use crate::rules::entry::{Entry, Keeper};
use crate::rules::policy::BucketPolicy;
use crate::telemetry::LeaseEvent;
use crate::verdict::{Reason, Refusal};

/// The timeout of a lease where neither its holder nor its bucket names one, in seconds. Its beats renew it.
const TIMEOUT: u64 = 300;
/// Asks for the bucket's light template.
const LIGHT: &str = "light";
/// Which word of a body says what which header of a create says.
const AS_HEADERS: [(&str, HeaderName); 4] = [
    ("namespace", HeaderName::from_static("x-cube-namespace")),
    ("env", HeaderName::from_static("x-cube-env")),
    ("project", HeaderName::from_static("x-cube-project")),
    ("run", HeaderName::from_static("x-cube-run")),
];

pub(super) async fn run(governor: &Governor, ask: Ask, act: LeaseAct) -> Result<Reply, Refusal> {
    if governor.cube.lacks_key() {
        let message = "leases are off: Cube demands a key for the warden's own calls and the warden has none; \
                       ask your operator to set upstream.api_key_env";
        return Err(Refusal::new(Reason::UngovernedRoute, message));
    }
    let body = LeaseBody::read(&ask.body).map_err(|error| malformed(&error))?;
    let answer = match act {
        LeaseAct::Acquire => governor.acquire(ask, &body).await?,
        LeaseAct::Beat => governor.beat(&ask, &Holder::read(&ask, &body)?).await?,
        LeaseAct::Release => governor.release(&Holder::read(&ask, &body)?).await?,
    };
    Ok(Reply::Answer(answer))
}

/// Who says that it holds something.
struct Holder {
    /// Where to look, in this order.
    buckets: Vec<Bucket>,
    owner: OwnerId,
    lease: LeaseId,
}

impl Holder {
    fn read(ask: &Ask, body: &LeaseBody) -> Result<Self, Refusal> {
        let word = |name: &'static str| {
            let missing =
                || Refusal::new(Reason::BadRequest, format!("{name} is missing; send owner_id and lease_id"));
            body.word(name).ok_or_else(missing)
        };
        let owner = OwnerId::new(word("owner_id")?).map_err(|error| bad(&error))?;
        let lease = LeaseId::new(word("lease_id")?).map_err(|error| bad(&error))?;
        let named = ["namespace", "env"].iter().any(|name| body.word(name).is_some());
        let mut buckets = if named {
            let head = with_words(ask, body)?;
            let said = Said {
                headers: &head,
                metadata: &std::collections::BTreeMap::new(),
                keys: &ask.settings.identity,
            };
            vec![ask.who.bucket(&said)?]
        } else {
            owner
                .bucket()
                .into_iter()
                .filter(|bucket| ask.who.may_use(bucket))
                .chain(ask.who.buckets.clone())
                .collect()
        };
        buckets.dedup();
        Ok(Self { buckets, owner, lease })
    }
}

impl Governor {
    async fn acquire(&self, mut ask: Ask, body: &LeaseBody) -> Result<Response<Bytes>, Refusal> {
        let lease = match body.word("lease_id") {
            Some(text) => LeaseId::new(text).map_err(|error| bad(&error))?,
            None => self.ledger.new_lease_id(),
        };
        ask.head.headers = with_words(&ask, body)?;
        ask.head.headers.extend(fencing::header(&lease).map(|lease| (fencing::LEASE_ID, lease)));
        let bucket = {
            let nothing = std::collections::BTreeMap::new();
            let said = Said { headers: &ask.head.headers, metadata: &nothing, keys: &ask.settings.identity };
            ask.who.bucket(&said)?
        };
        let policy = ask.settings.policies.of(&bucket);
        let owner_key = LabelNames::new(&ask.settings.identity.metadata_prefix).name("owner_id");
        ask.body = body.create(&defaults(policy, &bucket, body)?, &owner_key);
        let mut wish = Wish::read(self, &ask, Prefix::Root)?;
        if !wish.is_owned() {
            let message = "a lease needs an owner: send owner_id, or project or run";
            return Err(Refusal::new(Reason::BadRequest, message));
        }
        wish.hold_by(lease, Keeper::Heartbeats);
        match create_sandbox::make(self, &ask, wish, Prefix::Root).await? {
            Made::Refused(answer) => Ok(answer),
            Made::Given(given) => {
                if !given.reused {
                    self.metrics.leased(LeaseEvent::Acquired);
                }
                Ok(acquired(*given))
            }
        }
    }

    async fn beat(&self, ask: &Ask, holder: &Holder) -> Result<Response<Bytes>, Refusal> {
        let entry = self.by_holder(holder, HolderAct::Beat).await?;
        self.metrics.leased(LeaseEvent::Beat);
        let credential = self.cube.credential_for(&ask.head.headers);
        let renewal = self.deeds.renew(&entry, &credential).await.map_err(|error| unconfirmed(&error))?;
        match renewal {
            Renewal::NotNeeded | Renewal::Honoured => {
                let renewed = renewal == Renewal::Honoured;
                Ok(answers::plain(StatusCode::OK, held(&entry).json(Some(("renewed", renewed)), None)))
            }
            Renewal::Gone => Err(self.mismatched()),
            Renewal::NotHonoured(why) => {
                self.metrics.leased(LeaseEvent::RenewalFailed);
                tracing::warn!(marker = %entry.marker, why, "a lease was not renewed by Cube");
                let message = format!(
                    "the beat counts, but the sandbox's end was not moved ({why}); the lease ends soon: \
                     save your work and acquire anew"
                );
                Err(Refusal::new(Reason::RenewalFailed, message))
            }
        }
    }

    async fn release(&self, holder: &Holder) -> Result<Response<Bytes>, Refusal> {
        let entry = self.by_holder(holder, HolderAct::Release).await?;
        self.metrics.leased(LeaseEvent::Released);
        let _goes_on = self.deeds.start_kill(&entry.marker);
        Ok(answers::plain(StatusCode::ACCEPTED, held(&entry).json(None, None)))
    }

    /// Does what a holder asks in the first of its buckets where it holds that lease.
    async fn by_holder(&self, holder: &Holder, act: HolderAct) -> Result<Entry, Refusal> {
        for bucket in &holder.buckets {
            let (owner, lease) = (&holder.owner, &holder.lease);
            let done = match act {
                HolderAct::Beat => {
                    self.ledger.lease_beat(bucket, owner, lease).await.map_err(|e| unavailable(&e))
                }
                HolderAct::Release => {
                    self.ledger.release(bucket, owner, lease).await.map_err(|e| unconfirmed(&e))
                }
            };
            match done? {
                ByHolder::Done(entry) => return Ok(*entry),
                ByHolder::Sealed => return Err(self.sealed()),
                ByHolder::Later => return Err(later()),
                ByHolder::Mismatch => {}
            }
        }
        Err(self.mismatched())
    }

    fn mismatched(&self) -> Refusal {
        self.metrics.leased(LeaseEvent::Mismatch);
        let message = "this owner does not hold that lease (any more); acquire anew to go on";
        Refusal::new(Reason::LeaseMismatch, message)
    }
}

#[derive(Clone, Copy)]
enum HolderAct {
    Beat,
    Release,
}

fn bad(error: &crate::ids::Malformed) -> Refusal {
    Refusal::new(Reason::BadRequest, error.to_string())
}

fn later() -> Refusal {
    let message = "the sandbox of this lease is still being made; ask again in a moment";
    Refusal::new(Reason::DeletePending, message).after(2)
}

/// The headers of the request, with what its body says in their words; the body decides.
fn with_words(ask: &Ask, body: &LeaseBody) -> Result<http::HeaderMap, Refusal> {
    let mut headers = ask.head.headers.clone();
    headers.remove(header::CONTENT_LENGTH);
    if body.word("owner_id").is_some() {
        // The words of a request's headers would go before an owner that is named whole.
        headers.remove("x-cube-project");
        headers.remove("x-cube-run");
    }
    for (word, name) in AS_HEADERS {
        let Some(text) = body.word(word) else { continue };
        let value = HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| Refusal::new(Reason::BadRequest, format!("{word} takes no control characters")))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The template and timeout of a lease that names none.
fn defaults(policy: &BucketPolicy, bucket: &Bucket, body: &LeaseBody) -> Result<LeaseDefaults, Refusal> {
    let own = match body.word("template") {
        None => policy.template.as_deref(),
        Some(LIGHT) => policy.light_template.as_deref(),
        Some(_) => {
            let message = "template takes \"light\"; name another template as template_id";
            return Err(Refusal::new(Reason::BadRequest, message));
        }
    };
    let named = body.word("template_id").or(own);
    if named.is_none() && !body.has("templateID") {
        let message = format!(
            "bucket {bucket} has no template of that kind; send template_id, or ask your operator to set one"
        );
        return Err(Refusal::new(Reason::BadRequest, message));
    }
    let timeout = policy.default_timeout.map_or(TIMEOUT, |timeout| timeout.as_secs());
    Ok(LeaseDefaults { template_id: named.unwrap_or_default().to_owned(), timeout })
}

fn held(entry: &Entry) -> Held<'_> {
    Held {
        lease: entry.lease.as_ref().map(|lease| &lease.id),
        owner: &entry.owner,
        generation: entry.generation,
        sandbox: entry.sandbox.as_ref(),
    }
}

/// The answer to an acquisition, around Cube's answer to the create.
fn acquired(given: Given) -> Response<Bytes> {
    let (head, body) = given.answer.into_parts();
    if head.status != StatusCode::CREATED {
        return Response::from_parts(head, body);
    }
    let body = held(&given.entry).json(Some(("reused", given.reused)), Some(&body));
    answers::plain(if given.reused { StatusCode::OK } else { StatusCode::CREATED }, body)
}
