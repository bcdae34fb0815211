//! What this process gives back to a ledger that has lost its memory (`rebuild`).
//!
//! Must stay true: nothing is decided by it as long as the ledger answers. It holds what holds a slot and was seen here,
//! and is cleaned of what others have ended once in a cycle.

use std::collections::{HashMap, VecDeque};
use std::sync::MutexGuard;

use super::{Ledger, LedgerError};
use crate::ids::Marker;
use crate::rules::entry::Entry;
use crate::store::Batch;
use crate::store::schema::Key;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Recollection {
    entries: HashMap<Marker, Entry>,
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

impl Recollection {
    pub(super) fn keep(&mut self, entry: &Entry) {
        if !entry.charged() {
            return self.forget(&entry.marker);
        }
        self.entries.insert(entry.marker.clone(), entry.clone());
    }

    fn forget(&mut self, marker: &Marker) {
        self.entries.remove(marker);
    }
}

impl Ledger {
    fn recollection(&self) -> MutexGuard<'_, Recollection> {
        self.memory.whole()
    }

    pub(super) fn remember_seals(&self, seals: Vec<Seal>) {
        let mut memory = self.recollection();
        memory.seals.extend(seals);
        let over = memory.seals.len().saturating_sub(SEALS);
        memory.seals.drain(..over);
    }

    /// The seals that are remembered.
    pub(super) fn remembered_seals(&self) -> Vec<Seal> {
        self.recollection().seals.iter().cloned().collect()
    }

    /// Everything that is remembered of this warden's Cube.
    pub(super) fn remembered(&self) -> Vec<Entry> {
        self.recollection().entries.values().filter(|entry| self.is_here(entry)).cloned().collect()
    }

    /// Forgets what others have ended, and learns what they have changed.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; nothing is forgotten then.
    pub async fn refresh_recollection(&self) -> Result<(), LedgerError> {
        let markers: Vec<Marker> = self.recollection().entries.keys().cloned().collect();
        let (entries, corrupt) = self.entries(&markers).await?;
        if !corrupt.is_empty() {
            // What cannot be read is not known to have ended.
            return Ok(());
        }
        let found: HashMap<&Marker, &Entry> = entries.iter().map(|entry| (&entry.marker, entry)).collect();
        let mut memory = self.recollection();
        for marker in &markers {
            match found.get(marker) {
                Some(entry) => memory.keep(entry),
                None => memory.forget(marker),
            }
        }
        Ok(())
    }
}
