//! `/healthz`: the process runs. `/readyz`: ledger and Cube answer.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::json;

use super::{Admin, answers};
use crate::ledger::Standing;
use crate::time::UnixMillis;

/// How the background tasks fare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether Cube answered when it was last asked.
    pub upstream_up: bool,
    /// Why there are no listings, in words for the operator.
    pub listing_off: Option<String>,
    /// When Cube's list was last taken in.
    pub last_inventory: Option<UnixMillis>,
    /// Why the ledger failed the tasks, when it last did.
    pub ledger_error: Option<String>,
    /// How many records of the ledger cannot be read.
    pub corrupt_records: usize,
    /// Sandboxes at this Cube that are another ledger's or nobody's.
    pub foreign: u64,
}

/// Alive: it answers.
pub(super) fn alive() -> Response<Bytes> {
    answers::json(StatusCode::OK, &json!({ "status": "ok" }))
}

impl Admin {
    /// Ready: ledger and Cube answer, and what was there before us has been taken in (or cannot be: that is said).
    pub(super) async fn ready(&self) -> Response<Bytes> {
        let health = self.outlook.health();
        let imported = self.ledger.first_import_done().await;
        let ledger_error = imported.as_ref().err().map(ToString::to_string).or(health.ledger_error);
        let first_import_done = imported.unwrap_or(false);
        let settled = first_import_done || health.listing_off.is_some();
        let state = match self.ledger.standing() {
            Standing::Sound => "sound",
            Standing::Lost(_) => "lost",
            Standing::Rebuilding => "rebuilding",
        };
        let limits = self.ledger.agreement();
        let draining = self.draining.load(Ordering::Relaxed);
        let ready = ledger_error.is_none() && health.upstream_up && settled && !draining;
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let body = json!({
            "ready": ready,
            "draining": draining,
            "ledger": { "up": ledger_error.is_none(), "error": ledger_error, "id": self.ledger.id().as_str(), "state": state },
            "upstream": { "up": health.upstream_up, "name": self.ledger.upstream().as_str() },
            "limits": { "revision": limits.revision, "agree": limits.agree },
            "first_import_done": first_import_done,
            "listing_off": health.listing_off,
            "last_inventory": health.last_inventory.map(|at| at.to_string()),
            "corrupt_records": health.corrupt_records,
        });
        answers::json(status, &body)
    }
}
