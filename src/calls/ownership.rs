//! Whose is it: the question before every call about one thing.
//!
//! Must stay true: another's and nobody's get the same words. In open mode everything is everybody's, and what has no
//! record yet (made round the warden) is callable as it was.

use super::answers;
use super::context::{Ask, Governor, unavailable};
use crate::cube::api::{LabelNames, Labels};
use crate::cube::client::Seen;
use crate::ids::{Bucket, ObjectKind, SandboxRef};
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

impl Governor {
    /// The caller's sandbox, alive or dead, for calls that end it.
    pub(super) async fn owned_even_dead(&self, ask: &Ask, sandbox: &SandboxRef) -> Result<Owned, Refusal> {
        let entry = self.ledger.find(&sandbox.id).await.map_err(|error| unavailable(&error))?;
        match entry {
            Some(entry) if ask.who.may_use(&entry.bucket) => Ok(Owned::Entry(Box::new(entry))),
            None if ask.who.tenant.is_none() => Ok(Owned::Unrecorded),
            _ => Err(answers::no_such(sandbox.id.as_str())),
        }
    }

    /// The caller's living sandbox, presented by its bare id or the current generation.
    pub(super) async fn owned(&self, ask: &Ask, sandbox: &SandboxRef) -> Result<Owned, Refusal> {
        let owned = self.owned_even_dead(ask, sandbox).await?;
        if let Owned::Entry(entry) = &owned {
            let current = sandbox.generation.is_none_or(|generation| generation == entry.generation);
            if !entry.usable() || !current {
                return Err(answers::no_such(sandbox.id.as_str()));
            }
        }
        Ok(owned)
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
        labels.is_some_and(|labels| labels.ledger == *self.ledger.id() && ask.who.may_use(&labels.bucket))
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
