//! What this process remembers of the ledger: for the time when it cannot be asked, and should it forget.
//!
//! Must stay true: nothing is decided by it as long as the ledger answers. It holds what holds a slot and was seen here,
//! and is cleaned of what others have ended once in a cycle.

use std::collections::{HashMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use super::{Ledger, LedgerError};
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::rules::entry::Entry;
use crate::store::Batch;
use crate::store::schema::Key;
use crate::time::UnixMillis;

/// What this process remembers of a sandbox, for the time when the store cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it is counted.
    pub bucket: Bucket,
    /// Whose it is.
    pub owner: OwnerId,
    /// The end that was granted when it was last seen.
    pub deadline: Option<UnixMillis>,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: HashMap<Marker, Entry>,
    markers: HashMap<SandboxId, Marker>,
    /// Lease ids that were sealed here, as their records.
    seals: VecDeque<Seal>,
}

/// A record of a lease id that may never act again.
pub(super) type Seal = (Key, Vec<u8>);

/// So many seals are remembered, the latest.
const SEALS: usize = 10_000;

/// The seals that a batch writes.
pub(super) fn seals_in(batch: &Batch) -> Vec<Seal> {
    batch.put.iter().filter(|(key, _)| matches!(key, Key::Sealed(_))).cloned().collect()
}

impl Memory {
    fn keep(&mut self, entry: &Entry) {
        if !entry.charged() {
            return self.forget(&entry.marker);
        }
        if let Some(sandbox) = &entry.sandbox {
            self.markers.insert(sandbox.clone(), entry.marker.clone());
        }
        self.entries.insert(entry.marker.clone(), entry.clone());
    }

    fn forget(&mut self, marker: &Marker) {
        if let Some(sandbox) = self.entries.remove(marker).and_then(|entry| entry.sandbox) {
            self.markers.remove(&sandbox);
        }
    }
}

impl Ledger {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process remembers of a sandbox; for the time when the store cannot be asked.
    #[must_use]
    pub fn known(&self, sandbox: &SandboxId) -> Option<Known> {
        let memory = self.memory();
        let entry = memory.entries.get(memory.markers.get(sandbox)?).filter(|entry| entry.usable())?;
        Some(Known { bucket: entry.bucket.clone(), owner: entry.owner.clone(), deadline: entry.deadline })
    }

    pub(super) fn remember(&self, entry: &Entry) {
        self.memory().keep(entry);
    }

    pub(super) fn remember_seals(&self, seals: Vec<Seal>) {
        let mut memory = self.memory();
        memory.seals.extend(seals);
        let over = memory.seals.len().saturating_sub(SEALS);
        memory.seals.drain(..over);
    }

    /// The seals that are remembered.
    pub(super) fn remembered_seals(&self) -> Vec<Seal> {
        self.memory().seals.iter().cloned().collect()
    }

    /// Everything that is remembered of this warden's Cube.
    pub(super) fn remembered(&self) -> Vec<Entry> {
        self.memory().entries.values().filter(|entry| self.is_here(entry)).cloned().collect()
    }

    /// Forgets what others have ended, and learns what they have changed.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; nothing is forgotten then.
    pub async fn refresh_memory(&self) -> Result<(), LedgerError> {
        let markers: Vec<Marker> = self.memory().entries.keys().cloned().collect();
        let (entries, corrupt) = self.entries(&markers).await?;
        if !corrupt.is_empty() {
            // What cannot be read is not known to have ended.
            return Ok(());
        }
        let found: HashMap<&Marker, &Entry> = entries.iter().map(|entry| (&entry.marker, entry)).collect();
        let mut memory = self.memory();
        for marker in &markers {
            match found.get(marker) {
                Some(entry) => memory.keep(entry),
                None => memory.forget(marker),
            }
        }
        Ok(())
    }
}
