//! What the stories of the calls work with: the governor's parts and its small questions, one call as it came.
//!
//! Deliberately absent: which request becomes which story; `governor` knows all of them, and none of them it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header;
use http::request::Parts;
use serde_json::Value;
use tokio::sync::watch;

use super::admit::Fullness;
use super::identity::Caller as Who;
use super::lane::Latencies;
use super::seam::Caller;
use super::settings::Settings;
use super::throttle::Throttle;
use super::waiting::Waiting;
use crate::cube::client::Client;
use crate::deeds::Deeds;
use crate::ids::Bucket;
use crate::ledger::{Decision, Ledger, LedgerError};
use crate::telemetry::Metrics;
use crate::time::{Clock, UnixMillis};
use crate::verdict::{Reason, Refusal};

/// Cube's own limit for bodies.
pub(super) const BODY_LIMIT: usize = 2 * 1024 * 1024;

/// Governs calls.
pub struct Governor {
    pub(super) settings: ArcSwap<Settings>,
    pub(super) throttle: Throttle,
    pub(super) waiting: Waiting,
    pub(super) draining: watch::Sender<bool>,
    pub(super) fullness: Mutex<HashMap<Bucket, Fullness>>,
    pub(super) latencies: Latencies,
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

    /// Its `x-request-id`, as far as it can stand in a record.
    pub(super) fn request_id(&self) -> Option<&str> {
        request_id(&self.head)
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
        wiring.ledger.go_by(&settings.policies);
        Self {
            settings: ArcSwap::from_pointee(settings),
            throttle: Throttle::default(),
            waiting: Waiting::default(),
            draining: watch::Sender::new(false),
            fullness: Mutex::default(),
            latencies: Latencies::default(),
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
        self.ledger.go_by(&settings.policies);
        self.settings.store(Arc::new(settings));
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
}

/// The ledger cannot be asked before anything was done: nothing is known to be allowed.
pub(super) fn unavailable(error: &LedgerError) -> Refusal {
    tracing::error!(error = error as &dyn std::error::Error, "the ledger cannot be asked");
    let message = match error {
        LedgerError::Lost(_) => {
            "the ledger has lost what it had confirmed and is being rebuilt; nothing was done, try again soon"
        }
        _ => "the ledger cannot be reached; nothing was done, try again soon",
    };
    Refusal::new(Reason::LedgerUnavailable, message)
}

/// The ledger did not confirm what was to be written: it may stand there all the same.
pub(super) fn unconfirmed(error: &LedgerError) -> Refusal {
    tracing::error!(error = error as &dyn std::error::Error, "the ledger did not confirm");
    let message =
        "the ledger did not confirm this call; it may have been written down and go on, ask again soon";
    Refusal::new(Reason::LedgerUnavailable, message)
}

/// A client may name its request as it likes; in a record stands only what is short and harmless.
pub(super) fn request_id(head: &Parts) -> Option<&str> {
    let id = head.headers.get("x-request-id")?.to_str().ok()?;
    ((1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())).then_some(id)
}

/// What the log keeps of a refusal. What a malformed request said of itself may stand in its message (client metadata),
/// and the log is not where that belongs.
pub(super) fn noted(decision: Decision, refusal: &Refusal) -> Decision {
    if refusal.reason == Reason::BadRequest {
        return decision;
    }
    let decision = decision.with("message", refusal.message.as_str());
    // As it was told outside: numbers, and names of ours.
    let evidence = refusal.evidence.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    if refusal.evidence.is_empty() {
        decision
    } else {
        decision.with("evidence", evidence.collect::<Value>())
    }
}
