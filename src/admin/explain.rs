//! `/v1/admin/explain/{name}`: a sandbox, a create, an owner or a request, with everything decided about it.
//!
//! Must stay true: it answers as long as the log does, also when the ledger has forgotten the sandbox; what it says is made
//! by `rules::explain`. Deliberately absent: Cube; nothing here asks it.

use bytes::Bytes;
use http::{Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use super::sandboxes::shown;
use crate::ids::{Bucket, Marker, OwnerId, SandboxRef};
use crate::ledger::{BucketCounts, LedgerError};
use crate::rules::entry::Entry;
use crate::rules::explain::{self, Explanation, Facts, Fullness, Past};
use crate::time::{UnixMillis, parse_rfc3339};

/// Decisions that an explanation shows.
const MOST_DECISIONS: usize = 200;
/// Sandboxes of one owner that are explained one by one.
const MOST_OF_AN_OWNER: usize = 50;

/// A record of the log.
type Record = Map<String, Value>;

impl Admin {
    pub(super) async fn explain(&self, name: &str, query: &str) -> Result<Response<Bytes>, Failure> {
        Query::read(query, &[])?;
        let name = percent_decode_str(name).decode_utf8_lossy().into_owned();
        let now = self.ledger.now().await?;
        if let Some(entry) = self.entry_named(&name).await? {
            return self.explain_entry(&entry, now).await;
        }
        let named = SandboxRef::parse(&name).map(|sandbox| sandbox.id.to_string());
        let name = named.as_deref().unwrap_or(&name);
        if let Some(answer) = self.explain_owner(name, now).await? {
            return Ok(answer);
        }
        let records = self.about(&["sandbox_id", "marker", "request_id", "owner_id"], name).await?;
        let Some(last) = records.last() else { return Err(Failure::NoSuchEntry) };
        // What a request made may still be there, or have a longer story than the request.
        let marker = records.iter().find_map(|record| Marker::new(text(record, "marker")?).ok());
        match (text(last, "request_id") == Some(name), marker) {
            (true, Some(marker)) => match self.ledger.entry(&marker).await? {
                Some(entry) => self.explain_entry(&entry, now).await,
                None => Ok(explain_past("request", &self.about(&["marker"], marker.as_str()).await?, now)),
            },
            (true, None) => Ok(explain_past("request", &records, now)),
            (false, _) if text(last, "owner_id") == Some(name) => Ok(explain_past("owner", &records, now)),
            (false, Some(marker)) => {
                Ok(explain_past("sandbox", &self.about(&["marker"], marker.as_str()).await?, now))
            }
            (false, None) => Ok(explain_past("sandbox", &records, now)),
        }
    }

    /// An entry by sandbox id (in any form) or marker, dead ones too while they are remembered.
    pub(super) async fn entry_named(&self, name: &str) -> Result<Option<Entry>, LedgerError> {
        if let Some(sandbox) = SandboxRef::parse(name)
            && let Some(entry) = self.ledger.find(&sandbox.id).await?
        {
            return Ok(Some(entry));
        }
        match Marker::new(name) {
            Ok(marker) => self.ledger.entry(&marker).await,
            Err(_) => Ok(None),
        }
    }

    async fn explain_entry(&self, entry: &Entry, now: UnixMillis) -> Result<Response<Bytes>, Failure> {
        let records = self.about(&["marker"], entry.marker.as_str()).await?;
        let past: Vec<Past> = records.iter().map(past).collect();
        let policies = self.outlook.policies();
        let policy = policies.of(&entry.bucket);
        let explanation = explain::of_entry(entry, &past, &self.facts(policy, now));
        let mut body = told("sandbox", &explanation, now);
        body["sandbox"] = shown(entry, now, self.ledger.timing(), policy.ceilings);
        body["limit"] = policy.limit.into();
        body["policy"] = policy.fingerprint().into();
        body["decisions"] = decisions(&records);
        Ok(answers::json(StatusCode::OK, &body))
    }

    /// What an owner has, and whether it would get one more; `None` if it has nothing.
    async fn explain_owner(&self, name: &str, now: UnixMillis) -> Result<Option<Response<Bytes>>, Failure> {
        let Ok(owner) = OwnerId::new(name) else { return Ok(None) };
        let (mut entries, _corrupt) = self.ledger.charged(None).await?;
        entries.retain(|entry| entry.owner == owner);
        let Some(bucket) = entries.first().map(|entry| entry.bucket.clone()) else { return Ok(None) };
        let explanation = explain::of_bucket(&bucket, &self.fullness(&bucket).await?);
        let mut body = told("owner", &explanation, now);
        let (policies, mut text) = (self.outlook.policies(), explanation.text(now));
        let mut sandboxes = Vec::new();
        for entry in entries.iter().take(MOST_OF_AN_OWNER) {
            let explained = explain::of_entry(entry, &[], &self.facts(policies.of(&entry.bucket), now));
            let name = entry.sandbox.as_ref().map_or(entry.marker.as_str(), |id| id.as_str());
            text.extend([format!("\nsandbox {name}\n{}", explained.text(now))]);
            let mut one = told("sandbox", &explained, now);
            one["sandbox"] = shown(entry, now, self.ledger.timing(), policies.of(&entry.bucket).ceilings);
            sandboxes.push(one);
        }
        body["text"] = text.into();
        body["sandboxes"] = sandboxes.into();
        body["more"] = entries.len().saturating_sub(MOST_OF_AN_OWNER).into();
        Ok(Some(answers::json(StatusCode::OK, &body)))
    }

    async fn fullness(&self, bucket: &Bucket) -> Result<Fullness, LedgerError> {
        let counts = self.ledger.counts(std::slice::from_ref(bucket)).await?;
        let here = counts.buckets.first().cloned().unwrap_or_default();
        Ok(Fullness {
            held: here.held(),
            paused: here.paused,
            limit: self.outlook.policies().of(bucket).limit.map(u64::from),
            all: BucketCounts::held(&counts.all),
            global: self.outlook.global_limit().map(u64::from),
        })
    }

    fn facts<'a>(&'a self, policy: &'a crate::rules::policy::BucketPolicy, now: UnixMillis) -> Facts<'a> {
        Facts { now, timing: self.ledger.timing(), policy, overdue_grace: self.outlook.overdue_grace() }
    }

    /// The newest decisions in which one of `fields` is `name`, oldest first.
    async fn about(&self, fields: &[&str], name: &str) -> Result<Vec<Record>, Failure> {
        // The quoted name as it stands in a record; whatever does not contain it need not be read.
        let quoted = Value::from(name).to_string();
        let fits = |record: &Record| fields.iter().any(|field| text(record, field) == Some(name));
        let wanted = |line: &str| line.contains(&quoted);
        self.newest(MOST_DECISIONS, wanted, fits).await
    }
}

/// An explanation as an answer.
fn told(about: &str, explanation: &Explanation, now: UnixMillis) -> Value {
    let evidence = explanation.evidence.iter().map(|piece| {
        json!({
            "what": piece.what,
            "says": piece.says,
            "source": piece.source.name(),
            "at": piece.at.map(|at| at.to_string()),
            "age_s": piece.at.map(|at| now.since(at).as_secs()),
        })
    });
    json!({
        "about": about,
        "verdict": explanation.verdict.name(),
        "branch": explanation.branch,
        "evidence": evidence.collect::<Vec<_>>(),
        "flip": explanation.flip,
        "text": explanation.text(now),
    })
}

/// Something that only the log remembers.
fn explain_past(about: &str, records: &[Record], now: UnixMillis) -> Response<Bytes> {
    let past: Vec<Past> = records.iter().map(past).collect();
    let mut body = told(about, &explain::of_past(&past, now), now);
    body["decisions"] = decisions(records);
    answers::json(StatusCode::OK, &body)
}

fn decisions(records: &[Record]) -> Value {
    records.iter().cloned().map(Value::Object).collect()
}

fn text<'a>(record: &'a Record, field: &str) -> Option<&'a str> {
    record.get(field).and_then(Value::as_str)
}

/// A record as the rules read it.
fn past(record: &Record) -> Past {
    let owned = |field: &str| text(record, field).map(str::to_owned);
    let number = |field: &str| record.get("evidence").and_then(|evidence| evidence.get(field)?.as_u64());
    let bucket = record.get("evidence").and_then(|evidence| evidence.get("bucket")?.as_str());
    Past {
        at: text(record, "at").and_then(parse_rfc3339),
        kind: owned("decision").unwrap_or_default(),
        why: owned("reason").unwrap_or_default(),
        actor: owned("actor"),
        message: owned("message"),
        bucket: bucket.map(str::to_owned).or_else(|| owned("bucket")),
        request: owned("request_id"),
        policy: owned("policy"),
        limit: number("limit"),
        held: number("held"),
    }
}
