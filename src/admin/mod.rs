//! Health, metrics and the operator's view, on a listener of their own.
//!
//! Must stay true: everything here only reads; gauges and lists are the ledger at this moment, never counted along; what
//! clients wrote is shown as JSON data and nothing else. [`Admin::answer`] needs no socket.

mod access;
mod answers;
mod breaker;
mod buckets;
mod collector;
mod decisions;
mod health;
mod listener;
mod metrics;
mod query;
mod sandboxes;
pub mod settings;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
use settings::Token;

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
    /// How the collector fares.
    fn collecting(&self) -> Collecting;
    /// How the write path stands.
    fn write_path(&self) -> View;
}

/// The operator's view of one warden.
pub struct Admin {
    token: Option<Token>,
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
        token: Option<Token>,
        ledger: Arc<Ledger>,
        metrics: Arc<Metrics>,
        outlook: Arc<dyn Outlook>,
    ) -> Self {
        Self { token, ledger, metrics, outlook, draining: AtomicBool::new(false) }
    }

    /// From here on the warden is not ready: whoever sends it calls should send them elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers one request.
    pub async fn answer(&self, head: &Parts) -> Response<Bytes> {
        let answer = self.route(head).await.unwrap_or_else(|failure_| failure(&failure_));
        if head.method == Method::HEAD { answers::without_body(answer) } else { answer }
    }

    async fn route(&self, head: &Parts) -> Result<Response<Bytes>, Failure> {
        let path = head.uri.path();
        // Whoever watches over processes has no secrets.
        let open = matches!(path, "/healthz" | "/readyz");
        if !open && !access::granted(self.token.as_ref(), &head.headers) {
            return Err(Failure::Unauthenticated);
        }
        let known = open || is_known(path);
        if known && !matches!(head.method, Method::GET | Method::HEAD) {
            return Err(Failure::Method);
        }
        let query = head.uri.query().unwrap_or_default();
        match path {
            "/healthz" => Ok(health::alive()),
            "/readyz" => Ok(self.ready().await),
            "/metrics" => Ok(self.scrape().await),
            "/v1/admin/buckets" => self.buckets(query).await,
            "/v1/admin/sandboxes" => self.sandboxes(query).await,
            "/v1/admin/decisions" => self.decisions(query).await,
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
        "/v1/admin/collector",
        "/v1/admin/plan",
        "/v1/admin/breaker",
    ];
    exact.contains(&path) || path.starts_with(EXPLAIN)
}
