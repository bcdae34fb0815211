//! What this process remembers of its ledger, so that it need not be asked for what it has just said.
//!
//! Must stay true: what is remembered may be old, for other wardens write too. Whoever decides on it commits at the version
//! that is remembered, or looks again: nothing is refused, granted or told on its strength. Both parts stay small: of each
//! living sandbox a few names, and whole entries only of what is under way, and no more than [`UNDER_WAY`] and
//! [`JUST_READ`] say. Who forgets loses nothing but one read.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::recollection::Recollection;
use super::{Ledger, LedgerError, entry_in, marker_in};
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::rules::entry::{Entry, State};
use crate::store::schema::Key;
use crate::store::{Snapshot, Version};
use crate::time::UnixMillis;

/// Of what is under way (creates, calls, kills) so many entries are remembered, and up to as many older ones.
const UNDER_WAY: usize = 1024;
/// The same of what was read and not written: it matters only until the end of the call that read it.
const JUST_READ: usize = 128;
/// A decision that was made without asking the ledger for the time must be committed within this; a process that was stopped
/// for longer asks.
const LATE: Duration = Duration::from_secs(5);

/// What this process remembers of a sandbox, for the time when the store cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it is counted.
    pub bucket: Bucket,
    /// Whose it is.
    pub owner: OwnerId,
    /// The end that was granted when it was last seen.
    pub deadline: Option<UnixMillis>,
    /// Its entry.
    pub marker: Marker,
}

/// An entry to be decided on.
pub(super) struct Seen {
    pub(super) entry: Entry,
    pub(super) version: Version,
    pub(super) now: UnixMillis,
    /// Set if all this is remembered: the commit must come by then, and a decision not to write anything is none.
    pub(super) until: Option<UnixMillis>,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Mutex<HashMap<SandboxId, Known>>,
    in_hand: Mutex<InHand>,
    /// Whole entries, for a ledger that forgets.
    whole: Mutex<Recollection>,
}

#[derive(Debug, Default)]
struct InHand {
    under_way: Shelf,
    just_read: Shelf,
}

/// Entries and their versions; when it is full, all but the newest half are dropped.
#[derive(Debug, Default)]
struct Shelf {
    newer: HashMap<Marker, (Entry, Version)>,
    older: HashMap<Marker, (Entry, Version)>,
}

impl Shelf {
    fn put(&mut self, entry: &Entry, version: Version, half: usize) {
        if self.newer.len() >= half {
            self.older = take(&mut self.newer);
        }
        self.newer.insert(entry.marker.clone(), (entry.clone(), version));
    }

    fn get(&self, marker: &Marker) -> Option<&(Entry, Version)> {
        self.newer.get(marker).or_else(|| self.older.get(marker))
    }

    fn take(&mut self, marker: &Marker) -> Option<(Entry, Version)> {
        let older = self.older.remove(marker);
        self.newer.remove(marker).or(older)
    }
}

impl Memory {
    pub(super) fn whole(&self) -> MutexGuard<'_, Recollection> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SandboxId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_hand(&self) -> MutexGuard<'_, InHand> {
        self.in_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This was read.
    fn read(&self, entry: &Entry, version: Version) {
        self.know(entry);
        self.in_hand().just_read.put(entry, version, JUST_READ);
    }

    /// This was written.
    pub(super) fn wrote(&self, entry: &Entry, version: Version) {
        self.know(entry);
        let mut in_hand = self.in_hand();
        let InHand { under_way, just_read } = &mut *in_hand;
        under_way.take(&entry.marker);
        just_read.take(&entry.marker);
        if is_under_way(entry) {
            under_way.put(entry, version, UNDER_WAY);
        }
    }

    /// Whose it is, as of now.
    pub(super) fn know(&self, entry: &Entry) {
        self.whole().keep(entry);
        self.name(entry);
    }

    /// Under which marker it lies, and whose it is.
    pub(super) fn name(&self, entry: &Entry) {
        let Some(sandbox) = &entry.sandbox else { return };
        if entry.usable() {
            let known = Known {
                bucket: entry.bucket.clone(),
                owner: entry.owner.clone(),
                deadline: entry.deadline,
                marker: entry.marker.clone(),
            };
            self.known().insert(sandbox.clone(), known);
        } else {
            self.known().remove(sandbox);
        }
    }

    /// Nobody knows what the store holds now: no version that is remembered means anything.
    pub(super) fn doubt(&self) {
        *self.in_hand() = InHand::default();
    }
}

/// Whether somebody here will write this entry again soon.
fn is_under_way(entry: &Entry) -> bool {
    let state = matches!(entry.state, State::Reserved | State::Dispatched | State::Killing(_));
    state || !entry.operations.is_empty()
}

impl Ledger {
    /// What this process remembers of a sandbox; for the time when the store cannot be asked.
    #[must_use]
    pub fn known(&self, sandbox: &SandboxId) -> Option<Known> {
        self.memory.known().get(sandbox).cloned()
    }

    /// The entry of a sandbox, dead ones included while their tombstone stands.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or a record is corrupt.
    pub async fn find(&self, sandbox: &SandboxId) -> Result<Option<Entry>, LedgerError> {
        let guess = self.known(sandbox).map(|known| Key::Entry(known.marker));
        let keys: Vec<Key> = [Key::Sandbox(sandbox.clone())].into_iter().chain(guess).collect();
        let Snapshot { records, .. } = self.read(&keys).await?;
        let Some(marker) = marker_in(&keys[0], &records[0])? else { return Ok(None) };
        let found = match (keys.get(1), records.get(1)) {
            (Some(guess), Some(record)) if *guess == Key::Entry(marker.clone()) => entry_in(guess, record)?,
            _ => self.versioned(&marker).await?,
        };
        // An entry of another Cube is not this one's sandbox, whatever its id.
        let found = found.filter(|(entry, _)| self.is_here(entry));
        if let Some((entry, version)) = &found {
            self.memory.read(entry, *version);
        }
        Ok(found.map(|(entry, _)| entry))
    }

    /// Forgets the sandboxes that other wardens have ended. `listed` is what Cube shows: only the others are asked about.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or a record is corrupt.
    pub async fn forget_ended(&self, listed: &[SandboxId]) -> Result<(), LedgerError> {
        let listed: HashSet<&SandboxId> = listed.iter().collect();
        let absent = |known: &&SandboxId| !listed.contains(*known);
        let doubtful: Vec<SandboxId> = self.memory.known().keys().filter(absent).cloned().collect();
        let found = self.find_all(&doubtful).await?;
        let mut known = self.memory.known();
        for (sandbox, entry) in doubtful.iter().zip(found) {
            if !entry.is_some_and(|entry| entry.usable()) {
                known.remove(sandbox);
            }
        }
        Ok(())
    }

    /// Learns under which markers the sandboxes of this Cube lie that other wardens made: whoever leads learns that when it
    /// takes the inventory, and whoever follows by this.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn learn_names(&self) -> Result<(), LedgerError> {
        self.each_charged_here(|_| {}).await?;
        Ok(())
    }

    /// The entry of a marker if it is condemned. What is remembered will do: from killing there is no way back, and whoever
    /// writes down how the kill went finds out what became of it meanwhile.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn condemned(&self, marker: &Marker) -> Result<Option<Entry>, LedgerError> {
        let remembered = self.memory.in_hand().under_way.get(marker).map(|(entry, _)| entry.clone());
        if let Some(entry) = remembered.filter(|entry| entry.kill().is_some()) {
            return Ok(Some(entry));
        }
        Ok(self.entry(marker).await?.filter(|entry| entry.kill().is_some()))
    }

    /// What this process has in hand of an entry. Whoever takes it leaves nothing: it is put back by what they write.
    pub(super) fn in_hand(&self, marker: &Marker) -> Option<Seen> {
        let now = self.store.clock()?;
        let mut in_hand = self.memory.in_hand();
        let InHand { under_way, just_read } = &mut *in_hand;
        let both = [under_way.take(marker), just_read.take(marker)];
        let (entry, version) = both.into_iter().flatten().max_by_key(|(_, version)| *version)?;
        Some(Seen { entry, version, now, until: Some(now.plus(LATE)) })
    }

    /// The time to decide by, and by when the decision must be committed if nobody was asked for it.
    pub(super) async fn time(&self) -> Result<(UnixMillis, Option<UnixMillis>), LedgerError> {
        match self.store.clock() {
            Some(now) => Ok((now, Some(now.plus(LATE)))),
            None => Ok((self.now().await?, None)),
        }
    }

    pub(super) async fn look(&self, marker: &Marker) -> Result<Option<Seen>, LedgerError> {
        let key = Key::Entry(marker.clone());
        let Snapshot { now, records, .. } = self.read(std::slice::from_ref(&key)).await?;
        let found = entry_in(&key, &records[0])?;
        Ok(found.map(|(entry, version)| Seen { entry, version, now, until: None }))
    }

    pub(super) async fn versioned(&self, marker: &Marker) -> Result<Option<(Entry, Version)>, LedgerError> {
        Ok(self.look(marker).await?.map(|seen| (seen.entry, seen.version)))
    }
}
