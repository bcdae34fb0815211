//! The decision log: what was decided, about what, on what evidence.
//!
//! A decision that changes an entry is written in the same commit. A refusal changes nothing and may come by the thousand:
//! it is noted, and the notes are written together by a task. Client metadata never enters the log.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Ledger, LedgerError};
use crate::ids::{Bucket, OwnerId, SandboxId};
use crate::rules::entry::{Actor, Entry};
use crate::store::Batch;
use crate::time::{UnixMillis, parse_rfc3339};

/// How many of the oldest records are looked at when the log is trimmed.
const LOOK: usize = 1000;
/// Of each reason so many notes are written in full at a time; the rest are counted in one record.
const MOST_OF_A_REASON: u64 = 4;

/// Decisions that changed nothing and are not written yet.
#[derive(Debug, Default)]
pub(super) struct Notes {
    kept: Vec<Decision>,
    seen: HashMap<String, u64>,
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

    pub(super) fn at(mut self, now: UnixMillis) -> Self {
        self.fields.insert("at".into(), now.to_string().into());
        self
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        Value::Object(self.fields.clone()).to_string().into_bytes()
    }
}

impl Ledger {
    /// Notes a decision that changed nothing; a task writes it soon. Of each reason only some are kept in full between
    /// two writes, the others are counted: whoever provokes refusals must not wash the log away.
    pub fn note(&self, decision: Decision) {
        let reason = decision.fields.get("reason").map(ToString::to_string).unwrap_or_default();
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = notes.seen.entry(reason).or_default();
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
        let more = notes.seen.iter().filter(|(_, seen)| **seen > MOST_OF_A_REASON).map(|(reason, seen)| {
            Decision::new("more_of_the_same", reason.trim_matches('"')).with("count", seen - MOST_OF_A_REASON)
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

    async fn append(&self, notes: &[Decision]) -> Result<usize, LedgerError> {
        let now = self.now().await?;
        let log = notes.iter().map(|note| note.clone().at(now).encode()).collect();
        self.write(Batch { log, ..Batch::default() }).await?;
        Ok(notes.len())
    }

    /// Up to `most` decisions with a sequence above `after`, as JSON texts.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn decisions(&self, after: u64, most: usize) -> Result<Vec<(u64, String)>, LedgerError> {
        let logged = self.store.log(after, most).await?;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Ok(logged.iter().map(|logged| (logged.sequence, text(&logged.value))).collect())
    }

    /// Keeps the log within `keep` records, and drops what is older than `age`, some at a time.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn trim_decisions(&self, keep: u64, age: Duration) -> Result<(), LedgerError> {
        let since = self.now().await?.minus(age);
        let oldest = self.decisions(0, LOOK).await?;
        let old = oldest.iter().take_while(|(_, text)| {
            let record: Option<Value> = serde_json::from_str(text).ok();
            let at = record.as_ref().and_then(|record| record.get("at")).and_then(Value::as_str);
            at.and_then(parse_rfc3339).is_some_and(|at| at < since)
        });
        let through = old.last().map_or(0, |(sequence, _)| *sequence);
        Ok(self.store.trim_log(keep, through).await?)
    }
}
