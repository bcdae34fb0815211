//! Health, metrics and the operator's view, on a listener of their own.
//!
//! Must stay true: every GET only reads, and what an operator orders (`operator`) is decided by the ledger; gauges and lists are the ledger at this moment, never counted along; what
//! clients wrote is shown as JSON data and nothing else. [`Admin::answer`] needs no socket.

mod access;
mod answers;
mod breaker;
mod buckets;
mod collector;
mod console;
mod decisions;
mod explain;
mod health;
mod listener;
mod metrics;
mod operator;
mod query;
mod sandboxes;
pub mod settings;
mod shadow;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response};

pub use collector::Collecting;
pub use health::Health;
pub use listener::listen;

use crate::ids::Bucket;
use crate::ledger::Ledger;
use crate::rules::policy::Policies;
use crate::rules::write_path::View;
use crate::telemetry::Metrics;
use answers::{Failure, failure};
use operator::{Wish, Writes};
use settings::{Settings, Token};

/// What the operator's view needs to know of rooms that it has no door to.
pub trait Outlook: Send + Sync + 'static {
    /// The policies in force.
    fn policies(&self) -> Policies;
    /// Slots of all buckets together; `None` for no such limit.
    fn global_limit(&self) -> Option<u32>;
    /// How many creates wait in a bucket.
    fn waiting(&self, bucket: &Bucket) -> usize;
    /// How the background tasks fare.
    fn health(&self) -> Health;
    /// Whether this warden ends anything, or only watches.
    fn ends_sandboxes(&self) -> bool;
    /// How long after its end, or the end of its lease, something may be overdue.
    fn overdue_grace(&self) -> Duration;
    /// Those who wait for a slot are told to try elsewhere.
    fn drain(&self);
    /// How the collector fares.
    fn collecting(&self) -> Collecting;
    /// How the write path stands.
    fn write_path(&self) -> View;
}

/// The operator's view of one warden.
pub struct Admin {
    token: Option<Token>,
    writes: Writes,
    ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
    outlook: Arc<dyn Outlook>,
    /// Whether the process has been told to stop.
    draining: AtomicBool,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Admin {
    /// A view of `ledger`, for who has the token (if there is one).
    #[must_use]
    pub fn new(
        settings: &Settings,
        ledger: Arc<Ledger>,
        metrics: Arc<Metrics>,
        outlook: Arc<dyn Outlook>,
    ) -> Self {
        let closed = settings.token.is_none() && !settings.listen.ip().is_loopback();
        let writes = if closed { Writes::Refused } else { Writes::Taken };
        let (token, draining) = (settings.token.clone(), AtomicBool::new(false));
        Self { token, writes, ledger, metrics, outlook, draining }
    }

    /// From here on the warden is not ready: whoever sends it calls should send them elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers one request without a body.
    pub async fn answer(&self, head: &Parts) -> Response<Bytes> {
        self.answer_to(head, &[]).await
    }

    /// Answers one request.
    pub async fn answer_to(&self, head: &Parts, body: &[u8]) -> Response<Bytes> {
        let answer = self.route(head, body).await.unwrap_or_else(|failure_| failure(&failure_));
        if head.method == Method::HEAD { answers::without_body(answer) } else { answer }
    }

    async fn route(&self, head: &Parts, body: &[u8]) -> Result<Response<Bytes>, Failure> {
        let path = head.uri.path();
        // Nor is the page one: what it shows, it asks for with the operator's token.
        let page = console::file(path);
        // Whoever watches over processes has no secrets.
        let open = matches!(path, "/healthz" | "/readyz") || page.is_some();
        if !open && !access::granted(self.token.as_ref(), &head.headers) {
            return Err(Failure::Unauthenticated);
        }
        if let Some(wish) = Wish::read(path) {
            return match head.method {
                Method::POST => self.carry_out(wish, head, body).await,
                _ => Err(Failure::Method("POST")),
            };
        }
        let known = open || is_known(path);
        if known && !matches!(head.method, Method::GET | Method::HEAD) {
            return Err(Failure::Method("GET, HEAD"));
        }
        if let Some(page) = page {
            return Ok(page);
        }
        let query = head.uri.query().unwrap_or_default();
        match path {
            "/healthz" => Ok(health::alive()),
            "/readyz" => Ok(self.ready().await),
            "/metrics" => Ok(self.scrape().await),
            "/v1/admin/buckets" => self.buckets(query).await,
            "/v1/admin/sandboxes" => self.sandboxes(query).await,
            "/v1/admin/decisions" => self.decisions(query).await,
            "/v1/admin/shadow" => self.shadow(query).await,
            "/v1/admin/collector" => self.collector(query).await,
            "/v1/admin/plan" => self.plan(query).await,
            "/v1/admin/breaker" => self.breaker(query),
            _ => match path.strip_prefix(EXPLAIN) {
                Some(name) => self.explain(name, query).await,
                None => Err(Failure::NoSuchPath),
            },
        }
    }
}

const EXPLAIN: &str = "/v1/admin/explain/";

fn is_known(path: &str) -> bool {
    let exact = [
        "/metrics",
        "/v1/admin/buckets",
        "/v1/admin/sandboxes",
        "/v1/admin/decisions",
        "/v1/admin/shadow",
        "/v1/admin/collector",
        "/v1/admin/plan",
        "/v1/admin/breaker",
    ];
    exact.contains(&path) || path.starts_with(EXPLAIN)
}
