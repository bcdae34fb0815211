//! The decision log: what was decided, about what, on what evidence.
//!
//! A decision that changes an entry is written in the same commit. A refusal changes nothing and may come by the thousand:
//! it is noted, and the notes are written together by a task. Client metadata never enters the log.

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
/// At most this many notes wait for the task; more are dropped and counted in the next record.
const MOST_NOTES: usize = 4096;

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
    /// Notes a decision that changed nothing; a task writes it soon.
    pub fn note(&self, decision: Decision) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MOST_NOTES {
            notes.push(decision);
        }
    }

    /// Writes the notes.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; the notes are kept for the next time.
    pub async fn write_notes(&self) -> Result<usize, LedgerError> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if notes.is_empty() {
            return Ok(0);
        }
        let written = self.append(&notes).await;
        if written.is_err() {
            let mut kept = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            let newer = std::mem::replace(&mut *kept, notes);
            kept.extend(newer);
            kept.truncate(MOST_NOTES);
        }
        written
    }

    async fn append(&self, notes: &[Decision]) -> Result<usize, LedgerError> {
        let now = self.now().await?;
        let log = notes.iter().map(|note| note.clone().at(now).encode()).collect();
        self.store.commit(Batch { log, ..Batch::default() }).await?;
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
