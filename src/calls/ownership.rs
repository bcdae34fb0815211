//! Whose is it: the question before every call about one thing.
//!
//! Must stay true: another's and nobody's get the same words. In open mode everything is everybody's, and what has no
//! record yet (made round the warden) is callable as it was.

use bytes::Bytes;
use http::{Method, Response, header};

use super::answers;
use super::context::{Ask, Governor, unavailable};
use crate::cube::api::{LabelNames, Labels};
use crate::cube::client::{Pace, Seen, is_no_entry};
use crate::ids::{Bucket, ObjectKind, SandboxId, SandboxRef};
use crate::ledger::Known;
use crate::rules::entry::Entry;
use crate::verdict::Refusal;

/// What the caller may use.
#[derive(Debug)]
pub(super) enum Owned {
    /// Its own, by the ledger.
    Entry(Box<Entry>),
    /// Without a record; in open mode only.
    Unrecorded,
}

impl Owned {
    /// Its record, if it has one.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Entry(entry) => Some(entry),
            Self::Unrecorded => None,
        }
    }
}

impl Governor {
    /// The caller's sandbox, alive or dead, for calls that end it.
    pub(super) async fn owned_even_dead(&self, ask: &Ask, sandbox: &SandboxRef) -> Result<Owned, Refusal> {
        let entry = self.ledger.find(&sandbox.id).await.map_err(|error| unavailable(&error))?;
        match entry {
            Some(entry) if ask.who.may_use(&entry.bucket) => {
                let ahead = sandbox.generation.filter(|presented| *presented > entry.generation);
                let entry = match ahead {
                    None => entry,
                    Some(ahead) => {
                        let doubted = self.ledger.presented_ahead(entry, ahead).await;
                        doubted.map_err(|error| unavailable(&error))?
                    }
                };
                Ok(Owned::Entry(Box::new(entry)))
            }
            None if ask.who.tenant.is_none() => Ok(Owned::Unrecorded),
            _ => Err(answers::no_such(sandbox.id.as_str())),
        }
    }

    /// The caller's living sandbox, whatever generation is presented: the call decides that when it is registered.
    pub(super) async fn owned_alive(&self, ask: &Ask, sandbox: &SandboxRef) -> Result<Owned, Refusal> {
        let owned = self.owned_even_dead(ask, sandbox).await?;
        match owned.entry() {
            Some(entry) if !entry.usable() => Err(answers::no_such(sandbox.id.as_str())),
            _ => Ok(owned),
        }
    }

    /// The caller's living sandbox, presented by its bare id or as its present holder.
    pub(super) async fn owned(&self, ask: &Ask, sandbox: &SandboxRef) -> Result<Owned, Refusal> {
        let owned = self.owned_alive(ask, sandbox).await?;
        let shown = ask.shown(sandbox)?;
        match owned.entry() {
            Some(entry) if !shown.is_current(entry) => Err(self.fenced(sandbox, &shown, None)),
            _ => Ok(owned),
        }
    }

    /// May the caller read this sandbox although the ledger cannot be asked? From this process's memory, else from what
    /// Cube shows of our labels.
    pub(super) async fn owned_by_hearsay(&self, ask: &Ask, sandbox: &SandboxRef) -> bool {
        if ask.who.tenant.is_none() {
            return true;
        }
        if let Some(Known { bucket, .. }) = self.ledger.known(&sandbox.id) {
            return ask.who.may_use(&bucket);
        }
        let names = LabelNames::new(&ask.settings.identity.metadata_prefix);
        let credential = self.cube.credential_for(&ask.head.headers);
        let Seen::Here(detail) = self.cube.get(&sandbox.id, &credential).await else { return false };
        let labels = Labels::read(&detail.listed.metadata, &names);
        labels.is_some_and(|labels| labels.ledger == self.ledger.id() && ask.who.may_use(&labels.bucket))
    }

    /// Cube's own refusal of the caller's key, where only Cube can judge it: nothing is written down or shown for somebody
    /// whom Cube would not let in. Any other answer lets the call go on.
    pub(super) async fn turned_away(&self, ask: &Ask, sandbox: &SandboxId) -> Option<Response<Bytes>> {
        if ask.who.tenant.is_some() || !self.cube.judges(&self.cube.credential_for(&ask.head.headers)) {
            return None;
        }
        let mut head = ask.head_to(&format!("/sandboxes/{sandbox}"));
        head.method = Method::GET;
        head.headers.remove(header::CONTENT_TYPE);
        head.headers.remove(header::CONTENT_LENGTH);
        let answer = self.cube.carry(head, Bytes::new(), Pace::Call).await.ok()?;
        is_no_entry(answer.status()).then_some(answer)
    }

    /// Is a snapshot or volume the caller's?
    pub(super) async fn owns_object(&self, ask: &Ask, kind: ObjectKind, id: &str) -> Result<bool, Refusal> {
        if ask.who.tenant.is_none() {
            return Ok(true);
        }
        let bucket = self.ledger.object_bucket(kind, id).await.map_err(|error| unavailable(&error))?;
        Ok(bucket.is_some_and(|bucket| ask.who.may_use(&bucket)))
    }

    /// Records whose a new snapshot or volume is. In open mode they are everybody's, and are recorded all the same.
    pub(super) async fn record_object(&self, kind: ObjectKind, id: &str, bucket: &Bucket) {
        if let Err(error) = self.ledger.record_object(kind, id, bucket).await {
            tracing::error!(
                id,
                error = &error as &dyn std::error::Error,
                "the owner of a new object was not recorded"
            );
        }
    }
}
