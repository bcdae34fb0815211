//! What every governed call works with, and the one place where a request becomes its story.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use tokio::sync::watch;

use super::admit::Fullness;
use super::answers;
use super::classify::{self, Act, Call};
use super::identity::{self, Caller as Who};
use super::seam::{Caller, Calls, Reply, Route};
use super::settings::{Mode, Settings};
use super::throttle::Throttle;
use super::waiting::Waiting;
use super::{
    connect, create_sandbox, delete_sandbox, list_sandboxes, objects, read_sandbox, shadow, touch,
    transparent,
};
use crate::cube::client::{API_KEY, Client};
use crate::deeds::Deeds;
use crate::ids::{Bucket, OTHER};
use crate::ledger::{Decision, Ledger, LedgerError};
use crate::telemetry::CallOutcome;
use crate::telemetry::Metrics;
use crate::time::{Clock, UnixMillis};
use crate::verdict::{Reason, Refusal};

/// So much of a path is repeated in a refusal.
const LONGEST_PATH: usize = 200;
/// Cube's own limit for bodies.
pub(super) const BODY_LIMIT: usize = 2 * 1024 * 1024;

/// Governs calls.
pub struct Governor {
    pub(super) settings: ArcSwap<Settings>,
    pub(super) throttle: ArcSwap<Throttle>,
    pub(super) waiting: Waiting,
    pub(super) draining: watch::Sender<bool>,
    pub(super) fullness: Mutex<HashMap<Bucket, Fullness>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) cube: Arc<Client>,
    pub(super) deeds: Arc<Deeds>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
}

/// What a governor is wired to.
#[expect(missing_debug_implementations, reason = "a bundle of handles, taken apart at once")]
pub struct Wiring {
    /// The accounting authority.
    pub ledger: Arc<Ledger>,
    /// The Cube API.
    pub cube: Arc<Client>,
    /// What calls and tasks both carry out.
    pub deeds: Arc<Deeds>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// One governed call: what came, who asks, by which settings.
pub(super) struct Ask {
    pub(super) head: Parts,
    pub(super) body: Bytes,
    pub(super) who: Who,
    pub(super) caller: Caller,
    pub(super) arrived: UnixMillis,
    pub(super) settings: Arc<Settings>,
}

impl Ask {
    /// The client's User-Agent, or nothing.
    pub(super) fn user_agent(&self) -> &str {
        self.head.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The head as it goes upstream: with `path`, and the client's query.
    pub(super) fn head_to(&self, path: &str) -> Parts {
        let mut head = self.head.clone();
        let target = match self.head.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        if let Ok(uri) = target.parse() {
            head.uri = uri;
        }
        head
    }
}

impl std::fmt::Debug for Governor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Governor").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl Governor {
    /// Governs by `settings`.
    #[must_use]
    pub fn new(settings: Settings, wiring: Wiring) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            throttle: ArcSwap::default(),
            waiting: Waiting::default(),
            draining: watch::Sender::new(false),
            fullness: Mutex::default(),
            ledger: wiring.ledger,
            cube: wiring.cube,
            deeds: wiring.deeds,
            metrics: wiring.metrics,
            clock: wiring.clock,
        }
    }

    /// Takes new settings into force, whole. Calls under way end by the old ones.
    pub fn reload(&self, settings: Settings) {
        self.metrics.name_buckets(settings.policies.labels());
        self.settings.store(Arc::new(settings));
        self.throttle.store(Arc::default());
    }

    /// This warden is going away: creates that wait for a slot are told to try again elsewhere.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    /// How many creates wait in a bucket.
    #[must_use]
    pub fn waiting(&self, bucket: &Bucket) -> usize {
        self.waiting.length(bucket)
    }

    async fn enforce(&self, call: Call, ask: Ask) -> Result<Reply, Refusal> {
        match call {
            Call::Create(prefix) => create_sandbox::run(self, ask, prefix).await,
            Call::List(prefix) => list_sandboxes::run(self, ask, prefix).await,
            Call::Sandbox { act, prefix, sandbox } => match act {
                Act::Delete => delete_sandbox::run(self, ask, sandbox).await,
                Act::Connect => connect::run(self, ask, prefix, sandbox, connect::Kind::Connect).await,
                Act::Resume => connect::run(self, ask, prefix, sandbox, connect::Kind::Resume).await,
                Act::Timeout | Act::Refresh => touch::deadline(self, ask, act, prefix, sandbox).await,
                Act::Pause => touch::pause(self, ask, prefix, sandbox).await,
                Act::Network => touch::network(self, ask, prefix, sandbox).await,
                Act::Snapshot => objects::make_snapshot(self, ask, prefix, sandbox).await,
                Act::Rollback => objects::rollback(self, ask, prefix, sandbox).await,
                Act::Get => read_sandbox::get(self, ask, prefix, sandbox).await,
                Act::Logs | Act::Metrics | Act::OtherRead(_) => {
                    read_sandbox::other(self, ask, act, prefix, sandbox).await
                }
            },
            Call::ListSnapshots => objects::list_snapshots(self, ask).await,
            Call::Snapshot { verb, id } => objects::snapshot(self, ask, verb, &id).await,
            Call::ListVolumes => objects::list_volumes(self, ask).await,
            Call::CreateVolume => objects::make_volume(self, ask).await,
            Call::Volume { verb, id } => objects::volume(self, ask, verb, &id).await,
            Call::WriteTemplate | Call::DeleteTemplate => objects::write_template(&ask),
            Call::UngovernedSandboxWrite => Err(ungoverned(&self.metrics, &ask)),
            Call::UngovernedWrite if ask.who.tenant.is_some() => Err(ungoverned(&self.metrics, &ask)),
            Call::UngovernedWrite => {
                self.metrics.ungoverned_write();
                Ok(Reply::Forward(ask.head, ask.body))
            }
            Call::NoSuchSandbox => Err(answers::no_such(last_segment(ask.head.uri.path()))),
            Call::ReadTemplate | Call::Pass => Ok(Reply::Forward(ask.head, ask.body)),
        }
    }

    /// The answer to a refusal, counted and noted.
    fn refuse(&self, refusal: &Refusal, bucket: Option<&Bucket>) -> Response<Bytes> {
        let settings = self.settings.load();
        let label = bucket.map_or(OTHER, |bucket| settings.policies.label(bucket));
        self.metrics.refused(refusal.reason, label);
        if refusal.reason != Reason::NotFound {
            let decision = Decision::refusal(refusal.reason.name(), bucket, None, None);
            self.ledger.note(decision.with("message", refusal.message.as_str()));
        }
        answers::refusal(refusal)
    }

    /// Whom a request comes from, if it may come at all.
    fn admit_caller(&self, settings: &Settings, head: &Parts) -> Result<Who, Refusal> {
        let who = identity::identify(&settings.tenancy, &head.headers)?;
        if let (Some(tenant), Some(per_second)) = (&who.tenant, who.calls_per_second) {
            let paced = self.throttle.load().call(tenant, per_second);
            paced.map_err(|wait| {
                let message = format!("your tenant may make {per_second} calls per second; slow down");
                Refusal::new(Reason::RateLimited, message).after(wait.0)
            })?;
        }
        Ok(who)
    }
}

/// Reads that show the usage of all (the console's routes of old Cubes, Cube's own metrics) are an admin tenant's only.
fn shows_everybody(who: &Who, path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let shared = path.starts_with("/cubeapi/v1/templates") || path == "/cubeapi/v1/health";
    !who.admin && !shared && (path.starts_with("/cubeapi") || path.starts_with("/metrics"))
}

fn ungoverned(metrics: &Metrics, ask: &Ask) -> Refusal {
    metrics.ungoverned_write();
    let message = format!(
        "{} {} is not governed by this version of cubewarden, so it is refused; ask your operator",
        ask.head.method,
        ask.head.uri.path().chars().take(LONGEST_PATH).collect::<String>()
    );
    Refusal::new(Reason::UngovernedRoute, message)
}

fn last_segment(path: &str) -> &str {
    path.split('/')
        .find(|segment| segment.len() >= 32)
        .unwrap_or_else(|| path.rsplit('/').next().unwrap_or(""))
}

#[async_trait]
impl Calls for Governor {
    fn route(&self, head: &mut Parts) -> Route {
        let settings = self.settings.load();
        let call = classify::classify(&head.method, head.uri.path());
        if settings.mode == Mode::Transparent {
            return transparent::route(self, &settings, &call, head);
        }
        let open_to_all = head.method == Method::OPTIONS || head.uri.path() == "/health";
        if open_to_all {
            self.metrics.passed();
            return Route::Pass;
        }
        if settings.mode == Mode::Shadow {
            return shadow::route(self, &call, head);
        }
        let who = match self.admit_caller(&settings, head) {
            Ok(who) => who,
            Err(refusal) => return Route::Answer(self.refuse(&refusal, None)),
        };
        if matches!(call, Call::Pass | Call::ReadTemplate) {
            if shows_everybody(&who, head.uri.path()) {
                return Route::Answer(self.refuse(&answers::no_such(last_segment(head.uri.path())), None));
            }
            self.metrics.passed();
            prepare_credential(self, &who, head);
            return Route::Pass;
        }
        head.extensions.insert(who);
        Route::Govern { body_limit: BODY_LIMIT }
    }

    async fn call(&self, mut head: Parts, body: Bytes, caller: Caller) -> Reply {
        let settings = self.settings.load_full();
        let call = classify::classify(&head.method, head.uri.path());
        let name = call.name();
        let arrived = self.clock.now();
        if settings.mode == Mode::Transparent {
            return transparent::run(self, &settings, call, head, body).await;
        }
        if settings.mode == Mode::Shadow {
            return shadow::run(self, settings, call, head, body, caller).await;
        }
        // The settings may have been reloaded between route and call: then the caller is looked up again.
        let who = head.extensions.remove::<Who>().map_or_else(|| self.admit_caller(&settings, &head), Ok);
        let reply = match who {
            Ok(who) => {
                prepare_credential(self, &who, &mut head);
                let bucket = who.buckets.first().cloned();
                let ask = Ask { head, body, who, caller, arrived, settings };
                let reply = self.enforce(call, ask).await;
                reply.map_err(|refusal| self.refuse(&refusal, bucket.as_ref()))
            }
            Err(refusal) => Err(self.refuse(&refusal, None)),
        };
        self.count(name, &reply);
        reply.unwrap_or_else(Reply::Answer)
    }
}

/// Which credential goes upstream: Cube's own key if the warden has one, else the client's. In tenant mode a stray
/// bearer beside the key that decides is dropped: Cube would prefer it.
fn prepare_credential(governor: &Governor, who: &Who, head: &mut Parts) {
    governor.cube.swap_credential(&mut head.headers);
    if who.tenant.is_some() && head.headers.contains_key(API_KEY) {
        head.headers.remove(header::AUTHORIZATION);
    }
}

impl Governor {
    fn count(&self, call: &'static str, reply: &Result<Reply, Response<Bytes>>) {
        let outcome = match reply {
            Err(answer) if answer.status() == StatusCode::GATEWAY_TIMEOUT => CallOutcome::Unknown,
            Err(_) => CallOutcome::Refused,
            Ok(Reply::Answer(answer)) if answer.status().is_client_error() => CallOutcome::ClientError,
            Ok(Reply::Answer(answer)) if answer.status().is_server_error() => CallOutcome::UpstreamError,
            Ok(Reply::Answer(_) | Reply::Forward(..)) => CallOutcome::Ok,
        };
        self.metrics.called(call, outcome);
    }
}

/// The ledger cannot be asked: nothing is known to be allowed.
pub(super) fn unavailable(error: &LedgerError) -> Refusal {
    tracing::error!(error = error as &dyn std::error::Error, "the ledger cannot be asked");
    Refusal::new(Reason::LedgerUnavailable, "the ledger cannot be reached; nothing was done, try again soon")
}
