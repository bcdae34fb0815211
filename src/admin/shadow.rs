//! `/v1/admin/shadow`: what enforcing would have refused, changed and ended, and how often that would have been wrong.
//!
//! Wrong is an end that would have been carried out of a sandbox that was used again. Must stay true: everything is read
//! from the log (`would_..`) and from the entries as they are now; what is not recorded is not claimed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::{Marker, SandboxId};
use crate::time::{UnixMillis, parse_rfc3339};

/// Ends that would have been wrong, shown one by one.
const MOST_SHOWN: usize = 20;

/// What the log says of one kind of thing that did not happen.
#[derive(Default)]
struct Tally {
    by_reason: BTreeMap<String, u64>,
    by_bucket: BTreeMap<String, u64>,
    total: u64,
}

impl Tally {
    fn count(&mut self, record: &Map<String, Value>, times: u64) {
        let text = |field: &str| record.get(field).and_then(Value::as_str).unwrap_or("-").to_owned();
        *self.by_reason.entry(text("reason")).or_default() += times;
        *self.by_bucket.entry(text("bucket")).or_default() += times;
        self.total += times;
    }

    fn shown(&self) -> Value {
        json!({ "total": self.total, "by_reason": self.by_reason, "by_bucket": self.by_bucket })
    }
}

/// Everything that would have happened.
#[derive(Default)]
struct Would {
    refuse: Tally,
    change: Tally,
    end: Tally,
    /// When each would have been ended first.
    ended: HashMap<Marker, UnixMillis>,
    since: Option<UnixMillis>,
}

impl Would {
    fn take(&mut self, record: &Map<String, Value>) {
        let text = |field: &str| record.get(field).and_then(Value::as_str);
        let at = text("at").and_then(parse_rfc3339);
        let (kind, times) = match text("decision") {
            Some("more_of_the_same") => {
                (text("of").unwrap_or_default(), record.get("count").and_then(Value::as_u64).unwrap_or(0))
            }
            kind => (kind.unwrap_or_default(), 1),
        };
        let tally = match kind {
            "would_refuse" => &mut self.refuse,
            "would_change" => &mut self.change,
            "would_condemn" => {
                if let (Some(Ok(marker)), Some(at)) = (text("marker").map(Marker::new), at) {
                    // The same is condemned anew in each cycle; it would have ended in the first.
                    if self.ended.contains_key(&marker) {
                        return;
                    }
                    self.ended.insert(marker, at);
                }
                &mut self.end
            }
            _ => return,
        };
        tally.count(record, times);
        self.since = self.since.or(at);
    }
}

impl Admin {
    pub(super) async fn shadow(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        let query = Query::read(query, &["since"])?;
        let since = query
            .get("since", |text| parse_rfc3339(text).ok_or("wanted a time such as 2026-05-01T00:00:00Z"))?;
        let mut would = Would::default();
        let about = |line: &str| line.contains("\"would_");
        self.each_decision(about, |record| {
            let at = record.get("at").and_then(Value::as_str).and_then(parse_rfc3339);
            if since.is_none_or(|since| at.is_some_and(|at| at >= since)) {
                would.take(record);
            }
        })
        .await?;
        let (wrong, unknown) = self.used_again(&would.ended).await?;
        let body = json!({
            "enforces": self.outlook.ends_sandboxes(),
            "since": would.since.map(|at| at.to_string()),
            "would_refuse": would.refuse.shown(),
            "would_change": would.change.shown(),
            "would_end": would.end.shown(),
            "would_end_wrongly": wrong.len(),
            "would_end_forgotten": unknown,
            "wrong": wrong.into_iter().take(MOST_SHOWN).collect::<Vec<_>>(),
        });
        Ok(answers::json(StatusCode::OK, &body))
    }

    /// Those that showed a sign of life after they would have been ended; and how many the ledger has forgotten since.
    async fn used_again(&self, ended: &HashMap<Marker, UnixMillis>) -> Result<(Vec<Value>, usize), Failure> {
        let mut markers: Vec<Marker> = ended.keys().cloned().collect();
        markers.sort();
        let (entries, _corrupt) = self.ledger.entries(&markers).await?;
        let used = entries.iter().filter_map(|entry| {
            let at = ended.get(&entry.marker).filter(|at| entry.last_sign > **at)?;
            Some(json!({
                "sandbox_id": entry.sandbox.as_ref().map(SandboxId::as_str),
                "marker": entry.marker.as_str(),
                "bucket": entry.bucket.to_string(),
                "would_have_ended_at": at.to_string(),
                "used_again_at": entry.last_sign.to_string(),
            }))
        });
        Ok((used.collect(), markers.len() - entries.len()))
    }
}
