//! The decision log: what was decided, about what, on what evidence.
//!
//! A decision that changes an entry is written in the same commit. A refusal changes nothing and may come by the thousand:
//! it is noted, and the notes are written together by a task.
//! Must stay true: client metadata never enters the log; what ended is kept apart from what callers asked for, so that no
//! flood of refusals crowds out who ended a sandbox; each record names the policy by which it was decided.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Ledger, LedgerError};
use crate::ids::{Bucket, OwnerId, SandboxId};
use crate::rules::entry::{Actor, Entry};
use crate::rules::policy::Policies;
use crate::store::{Batch, Log, Logged, Store, StoreError};
use crate::time::{UnixMillis, parse_rfc3339};

/// How many of the oldest records are looked at when the log is trimmed.
const LOOK: usize = 1000;
/// Of each reason so many notes are written in full at a time; the rest are counted in one record.
const MOST_OF_A_REASON: u64 = 4;

/// Decisions about an end, or about what keeps from one. All others are about what callers asked for.
const ENDS: [&str; 13] = [
    "condemned",
    "would_condemn",
    "deferred",
    "gone",
    "quarantined",
    "released",
    "ambiguous",
    "imported",
    "held",
    "unheld",
    "released_import",
    "ledger_lost",
    "ledger_rebuilt",
];

/// Why an end is wanted, and by which request.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// In words for the log.
    pub why: &'a str,
    /// The `x-request-id` of the call, if one is behind it.
    pub request: Option<&'a str>,
}

impl<'a> From<&'a str> for Cause<'a> {
    fn from(why: &'a str) -> Self {
        Self { why, request: None }
    }
}

impl<'a> From<&'a String> for Cause<'a> {
    fn from(why: &'a String) -> Self {
        Self::from(why.as_str())
    }
}

/// Decisions that changed nothing and are not written yet.
#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<Decision>,
    seen: HashMap<(String, String), u64>,
}

/// One decision.
#[derive(Clone, Debug)]
pub struct Decision {
    fields: Map<String, Value>,
}

impl Decision {
    /// A decision of `kind` because of `why`.
    #[must_use]
    pub fn new(kind: &str, why: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("decision".into(), kind.into());
        fields.insert("reason".into(), why.into());
        Self { fields }
    }

    /// A decision about an entry.
    #[must_use]
    pub fn about(entry: &Entry, kind: &str, why: &str) -> Self {
        let decision = Self::new(kind, why)
            .with("marker", entry.marker.as_str())
            .with("bucket", entry.bucket.to_string())
            .with("owner_id", entry.owner.as_str())
            .with("generation", entry.generation.0)
            .with("state", entry.state.name());
        match &entry.sandbox {
            Some(sandbox) => decision.with("sandbox_id", sandbox.as_str()),
            None => decision,
        }
    }

    /// A refusal of a caller of `bucket`.
    #[must_use]
    pub fn refusal(
        reason: &str,
        bucket: Option<&Bucket>,
        owner: Option<&OwnerId>,
        sandbox: Option<&SandboxId>,
    ) -> Self {
        let mut decision = Self::new("refused", reason);
        let fields = [
            ("bucket", bucket.map(ToString::to_string)),
            ("owner_id", owner.map(ToString::to_string)),
            ("sandbox_id", sandbox.map(ToString::to_string)),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                decision = decision.with(name, value);
            }
        }
        decision
    }

    /// Adds evidence.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.into(), value.into());
        self
    }

    /// Says who wanted it.
    #[must_use]
    pub fn by(self, actor: Actor) -> Self {
        self.with("actor", actor.name())
    }

    /// Says by which request it was asked for.
    #[must_use]
    pub fn asked_by(self, request: Option<&str>) -> Self {
        match request {
            Some(request) => self.with("request_id", request),
            None => self,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    pub(super) fn at(self, now: UnixMillis) -> Self {
        self.with("at", now.to_string())
    }

    pub(super) fn encode(self) -> Vec<u8> {
        Value::Object(self.fields).to_string().into_bytes()
    }

    fn half(&self) -> Log {
        let ends = self.text("decision").is_some_and(|kind| ENDS.contains(&kind));
        if ends { Log::Ends } else { Log::Calls }
    }
}

impl Ledger {
    /// Notes a decision that changed nothing; a task writes it soon. Of each reason only some are kept in full between
    /// two writes, the others are counted: whoever provokes refusals must not wash the log away.
    pub fn note(&self, decision: Decision) {
        let text = |name| decision.text(name).unwrap_or_default().to_owned();
        let kind_and_reason = (text("decision"), text("reason"));
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = notes.seen.entry(kind_and_reason).or_default();
        *seen += 1;
        if *seen <= MOST_OF_A_REASON {
            notes.kept.push(decision);
        }
    }

    /// Writes the notes.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; the notes are kept for the next time.
    pub async fn write_notes(&self) -> Result<usize, LedgerError> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let more = notes.seen.iter().filter(|(_, seen)| **seen > MOST_OF_A_REASON);
        let more = more.map(|((kind, reason), seen)| {
            let more = Decision::new("more_of_the_same", reason).with("of", kind.as_str());
            more.with("count", seen - MOST_OF_A_REASON)
        });
        let records: Vec<Decision> = notes.kept.iter().cloned().chain(more).collect();
        if records.is_empty() {
            return Ok(0);
        }
        let written = self.append(&records).await;
        if written.is_err() {
            // Kept for the next time, but no more than one round's worth.
            let mut newer = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            if newer.kept.is_empty() {
                *newer = notes;
            }
        }
        written
    }

    /// Writes decisions that changed nothing, each of them in full.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn append(&self, notes: &[Decision]) -> Result<usize, LedgerError> {
        let now = self.now().await?;
        let mut batch = Batch::default();
        for note in notes {
            self.record(&mut batch, note.clone(), now);
        }
        self.write(batch).await?;
        Ok(notes.len())
    }

    /// From here on decisions name these policies as theirs.
    pub fn go_by(&self, policies: &Policies) {
        self.policies.store(Arc::new(policies.clone()));
    }

    /// Adds a decision to what a commit writes: when it was made, and by which policy.
    pub(super) fn record(&self, batch: &mut Batch, decision: Decision, now: UnixMillis) {
        let half = decision.half();
        let bucket = decision.text("bucket").and_then(|bucket| Bucket::parse(bucket).ok());
        let policy = bucket.map(|bucket| self.policies.load().of(&bucket).fingerprint());
        let mut decision = decision.at(now);
        decision.fields.extend(policy.map(|policy| ("policy".to_owned(), policy.into())));
        let line = decision.encode();
        match half {
            Log::Calls => batch.log.push(line),
            Log::Ends => batch.ends.push(line),
        }
    }

    /// Up to `most` decisions with a sequence above `after`, as JSON texts, in the order in which they were made.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn decisions(&self, after: u64, most: usize) -> Result<Vec<(u64, String)>, LedgerError> {
        Ok(page(self.store.as_ref(), after, most).await?.iter().map(text_of).collect())
    }

    /// The same of one half only.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn decisions_in(
        &self,
        log: Log,
        after: u64,
        most: usize,
    ) -> Result<Vec<(u64, String)>, LedgerError> {
        Ok(self.store.log(log, after, most).await?.iter().map(text_of).collect())
    }

    /// Keeps one half of the log within `keep` records, and drops what is older than `age`, some at a time.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn trim_decisions(&self, log: Log, keep: u64, age: Duration) -> Result<(), LedgerError> {
        let since = self.now().await?.minus(age);
        let oldest = self.decisions_in(log, 0, LOOK).await?;
        let old = oldest.iter().take_while(|(_, text)| {
            let record: Option<Value> = serde_json::from_str(text).ok();
            let at = record.as_ref().and_then(|record| record.get("at")).and_then(Value::as_str);
            at.and_then(parse_rfc3339).is_some_and(|at| at < since)
        });
        let through = old.last().map_or(0, |(sequence, _)| *sequence);
        Ok(self.store.trim_log(log, keep, through).await?)
    }
}

/// Up to `most` lines of both halves, in the order in which they were written.
pub(super) async fn page(store: &dyn Store, after: u64, most: usize) -> Result<Vec<Logged>, StoreError> {
    let mut all = store.log(Log::Ends, after, most).await?;
    all.extend(store.log(Log::Calls, after, most).await?);
    all.sort_by_key(|logged| logged.sequence);
    all.truncate(most);
    Ok(all)
}

/// In which half a line belongs, as it was written.
pub(super) fn half_of(line: &[u8]) -> Log {
    let fields = serde_json::from_slice(line).unwrap_or_default();
    Decision { fields }.half()
}

fn text_of(logged: &Logged) -> (u64, String) {
    (logged.sequence, String::from_utf8_lossy(&logged.value).into_owned())
}
