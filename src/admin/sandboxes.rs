//! `/v1/admin/sandboxes`: who holds what.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::{Bucket, Marker, OwnerId, SandboxId, TenantName};
use crate::ledger::{CHARGED, LedgerError};
use crate::rules::colour::{Ceilings, colour};
use crate::rules::entry::{Entry, Kill, Origin, State, Timing};
use crate::time::UnixMillis;

const USUAL: usize = 100;
const MOST: usize = 1000;

impl Admin {
    /// What holds a slot, in the order of the markers.
    pub(super) async fn sandboxes(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        let query = Query::read(query, &["bucket", "owner", "search", "state", "limit", "after"])?;
        let bucket = query.get("bucket", Bucket::parse)?;
        let owner = query.get("owner", OwnerId::new)?;
        let search = query.get("search", |text| Ok::<_, Infallible>(text.to_lowercase()))?;
        let state = query.get("state", state_name)?;
        let after = query.get("after", Marker::new)?;
        let limit = query.limit(USUAL, MOST)?;
        let now = self.ledger.now().await?;
        let fits = |entry: &Entry| {
            owner.as_ref().is_none_or(|owner| entry.owner == *owner)
                && search.as_ref().is_none_or(|text| is_named(entry, text))
                && state.is_none_or(|state| is_in(entry, state))
        };
        let (mut entries, mut corrupt, mut after) = (Vec::new(), Vec::new(), after);
        // One more than wanted tells whether there are more.
        while entries.len() <= limit {
            let page = self.ledger.charged_after(bucket.as_ref(), after.as_ref(), MOST).await?;
            entries.extend(page.entries.into_iter().filter(&fits));
            corrupt.extend(page.corrupt);
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next_after = entries.last().filter(|_| more).map(|entry| entry.marker.to_string());
        let policies = self.outlook.policies();
        let show =
            |entry: &Entry| shown(entry, now, self.ledger.timing(), policies.of(&entry.bucket).ceilings);
        let body = json!({
            "sandboxes": entries.iter().map(show).collect::<Vec<_>>(),
            "next_after": next_after,
            "unreadable": corrupt.iter().map(LedgerError::to_string).collect::<Vec<_>>(),
        });
        Ok(answers::json(StatusCode::OK, &body))
    }
}

fn state_name(text: &str) -> Result<&'static str, String> {
    let known = || CHARGED.into_iter().chain(["paused"]);
    known()
        .find(|name| *name == text)
        .ok_or_else(|| format!("wanted one of {}", known().collect::<Vec<_>>().join(", ")))
}

fn is_in(entry: &Entry, state: &str) -> bool {
    if state == "paused" { entry.paused_since().is_some() } else { entry.state.name() == state }
}

/// Whether one of its names has that (lower-case) text in it.
fn is_named(entry: &Entry, text: &str) -> bool {
    let names = [
        Some(entry.owner.as_str()),
        Some(entry.marker.as_str()),
        entry.sandbox.as_ref().map(SandboxId::as_str),
        entry.tenant.as_ref().map(TenantName::as_str),
    ];
    names.into_iter().flatten().any(|name| name.to_lowercase().contains(text))
}

/// An entry as the operator sees it. Cube's answer to the create is not shown: it holds the sandbox's token.
pub(super) fn shown(entry: &Entry, now: UnixMillis, timing: &Timing, ceilings: Ceilings) -> Value {
    let colour = colour(entry, now, timing, ceilings);
    let mut shown = json!({
        "sandbox_id": entry.sandbox.as_ref().map(SandboxId::as_str),
        "marker": entry.marker.as_str(),
        "bucket": entry.bucket.to_string(),
        "owner_id": entry.owner.as_str(),
        "state": entry.state.name(),
        "generation": entry.generation.0,
        "colour": colour.name(),
        "reason": colour.reason(),
        "tenant": entry.tenant.as_ref().map(TenantName::as_str),
        "origin": origin(entry.origin),
        "upstream": entry.upstream.as_str(),
        "host": host(entry),
        "template": entry.template,
        "cpu_milli": entry.shape.cpu_milli,
        "memory_mib": entry.shape.memory_mib,
        "holders": entry.holders,
        "metadata": entry.metadata.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()),
        "operations": operations(entry, now),
        "hold": entry.hold.as_ref().map(|hold| json!({ "since": hold.since.to_string(), "reason": hold.reason })),
        "kill": null,
        "gone": null,
    });
    let times = [
        ("asked_at", Some(entry.asked)),
        ("dispatched_at", entry.dispatched),
        ("first_seen_at", entry.first_seen),
        ("last_sign_at", Some(entry.last_sign)),
        ("paused_since", entry.paused_since()),
        ("deadline", entry.deadline),
        ("claim_until", entry.claim_until),
        ("due_at", entry.due),
        ("released_at", entry.released),
    ];
    for (name, at) in times {
        shown[name] = at.map(|at| at.to_string()).into();
    }
    match &entry.state {
        State::Killing(kill) | State::Quarantined(kill) => shown["kill"] = shown_kill(kill),
        State::Gone { at, proof, .. } => {
            shown["gone"] = json!({ "at": at.to_string(), "proof": proof.name() });
        }
        _ => {}
    }
    shown
}

fn shown_kill(kill: &Kill) -> Value {
    json!({ "actor": kill.actor.name(), "since": kill.since.to_string(), "attempts": kill.attempts })
}

fn operations(entry: &Entry, now: UnixMillis) -> Vec<Value> {
    let under_way = entry.operations.iter().filter(|operation| operation.until > now);
    under_way
        .map(|operation| json!({ "kind": operation.kind, "until": operation.until.to_string() }))
        .collect()
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Created => "created",
        Origin::Imported => "imported",
        Origin::Round => "round",
    }
}

/// The host that Cube named when it answered the create.
fn host(entry: &Entry) -> Option<String> {
    let answer: Map<String, Value> = serde_json::from_str(entry.answer.as_deref()?).ok()?;
    answer.get("clientID").and_then(Value::as_str).map(str::to_owned)
}
