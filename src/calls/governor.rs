//! The one place where a request becomes its story.
//!
//! Must stay true: what a call may do is decided by the settings that were in force when it came, whatever is reloaded
//! while its body is read.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};

pub use super::context::{Governor, Wiring};

use super::answers;
use super::classify::{self, Act, Call};
use super::context::{Ask, BODY_LIMIT, noted, request_id};
use super::identity::{self, Caller as Who};
use super::seam::{Caller, Calls, Reply, Route};
use super::settings::{Mode, Settings};
use super::{
    connect, create_sandbox, delete_sandbox, leases, list_sandboxes, objects, read_sandbox, shadow, touch,
    transparent,
};
use crate::cube::client::API_KEY;
use crate::ids::{Bucket, OTHER};
use crate::ledger::Decision;
use crate::telemetry::{CallOutcome, Metrics};
use crate::verdict::{Reason, Refusal};

/// So much of a path is repeated in a refusal.
const LONGEST_PATH: usize = 200;

/// What was found out about a request from its head, for when its body is there.
#[derive(Clone)]
struct Routed {
    settings: Arc<Settings>,
    call: Call,
    who: Who,
}

impl Governor {
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
            Call::Lease(act) => leases::run(self, ask, act).await,
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
    fn refuse(
        &self,
        settings: &Settings,
        refusal: &Refusal,
        bucket: Option<&Bucket>,
        request: Option<&str>,
    ) -> Response<Bytes> {
        let label = bucket.map_or(OTHER, |bucket| settings.policies.label(bucket));
        self.metrics.refused(refusal.reason, label);
        if refusal.reason != Reason::NotFound {
            let decision = Decision::refusal(refusal.reason.name(), bucket, None, None).asked_by(request);
            self.ledger.note(noted(decision, refusal));
        }
        answers::refusal(refusal)
    }

    /// Does its tenant call too often, or do all of them together, by the one key that Cube knows?
    pub(super) fn pace(&self, settings: &Settings, who: &Who) -> Result<(), Refusal> {
        let limited = |tenant, whose: &str, per_second| {
            self.throttle.call(tenant, per_second).map_err(|wait| {
                let message = format!("{whose} may make {per_second} calls per second; slow down");
                Refusal::new(Reason::RateLimited, message).after(wait.0)
            })
        };
        if let (Some(tenant), Some(per_second)) = (&who.tenant, who.calls_per_second) {
            limited(Some(tenant), "your tenant", per_second)?;
        }
        let together = settings.write_path.upstream_calls_per_second;
        together
            .map_or(Ok(()), |per_second| limited(None, "all clients of this platform together", per_second))
    }

    /// Whom a request comes from, if it may come at all.
    fn admit_caller(&self, settings: &Settings, head: &Parts) -> Result<Who, Refusal> {
        let who = identity::identify(&settings.tenancy, &head.headers)?;
        self.pace(settings, &who)?;
        Ok(who)
    }

    fn route_enforced(
        &self,
        settings: &Settings,
        call: &Call,
        head: &mut Parts,
    ) -> Result<(Route, Who), Refusal> {
        let who = self.admit_caller(settings, head)?;
        if !matches!(call, Call::Pass | Call::ReadTemplate) {
            return Ok((Route::Govern { body_limit: BODY_LIMIT }, who));
        }
        if !who.admin && classify::shows_everybody(call, head.uri.path()) {
            return Err(answers::no_such(last_segment(head.uri.path())));
        }
        self.metrics.passed();
        prepare_credential(self, &who, head);
        Ok((Route::Pass, who))
    }
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
        let settings = self.settings();
        let call = classify::classify(&head.method, head.uri.path());
        let open_to_all = head.method == Method::OPTIONS || head.uri.path() == "/health";
        if open_to_all && settings.mode != Mode::Transparent {
            self.metrics.passed();
            self.cube.drop_credential(&mut head.headers);
            return Route::Pass;
        }
        let routed = match settings.mode {
            Mode::Transparent => Ok((transparent::route(self, &settings, &call, head), identity::anybody())),
            Mode::Shadow => Ok(shadow::route(self, &settings, &call, head)),
            Mode::Enforce => self.route_enforced(&settings, &call, head),
        };
        match routed {
            Ok((route, who)) => {
                if matches!(route, Route::Govern { .. }) {
                    head.extensions.insert(Routed { settings, call, who });
                }
                route
            }
            Err(refusal) => Route::Answer(self.refuse(&settings, &refusal, None, request_id(head))),
        }
    }

    async fn call(&self, mut head: Parts, body: Bytes, caller: Caller) -> Reply {
        let routed = head.extensions.remove::<Routed>();
        let Some(Routed { settings, call, who }) = routed else {
            // Whoever comes round `route` is routed here.
            return match self.route(&mut head) {
                Route::Answer(answer) => Reply::Answer(answer),
                Route::Pass => Reply::Forward(head, body),
                Route::Govern { .. } => self.call(head, body, caller).await,
            };
        };
        if settings.mode == Mode::Transparent {
            return transparent::run(self, &settings, call, head, body).await;
        }
        let name = call.name();
        let ask = Ask { head, body, who, caller, arrived: self.clock.now(), settings };
        if ask.settings.mode == Mode::Shadow {
            return shadow::run(self, call, ask).await;
        }
        self.run_enforced(name, call, ask).await
    }
}

impl Governor {
    async fn run_enforced(&self, name: &'static str, call: Call, mut ask: Ask) -> Reply {
        prepare_credential(self, &ask.who, &mut ask.head);
        let (settings, bucket) = (Arc::clone(&ask.settings), ask.who.buckets.first().cloned());
        let request = ask.request_id().map(str::to_owned);
        let reply = self.enforce(call, ask).await;
        let refuse = |refusal| self.refuse(&settings, &refusal, bucket.as_ref(), request.as_deref());
        let reply = reply.map_err(refuse);
        self.count(name, &reply);
        reply.unwrap_or_else(Reply::Answer)
    }

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

/// Which credential goes upstream: Cube's own key if the warden has one, else the client's. In tenant mode a stray
/// bearer beside the key that decides is dropped: Cube would prefer it. An empty key decides nothing.
fn prepare_credential(governor: &Governor, who: &Who, head: &mut Parts) {
    governor.cube.swap_credential(&mut head.headers);
    let key = head.headers.get(API_KEY).is_some_and(|key| !key.as_bytes().trim_ascii().is_empty());
    if who.tenant.is_some() && key {
        head.headers.remove(header::AUTHORIZATION);
    }
}
