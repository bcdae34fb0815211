//! The single accounting authority, in the domain's verbs.
//!
//! Each verb is the same three lines: read a snapshot, apply a rule, commit if nothing moved; else again. What the verb
//! before has just read or written is such a snapshot, too (`memory`).
//! Must stay true: a slot is taken in the same commit that checks the limit, and given back only by a rule that saw proof;
//! what a verb returns is durable. Deliberately absent: Cube, HTTP, waiting for anybody (the callers wait).

mod admission;
mod collector;
mod decisions;
mod idempotency;
mod instances;
mod inventory;
mod kill;
mod leader;
mod lease;
mod limits;
mod memory;
pub mod moving;
mod objects;
mod operations;
mod operator;
mod rebuild;
mod recollection;
mod settle;
mod trust;
pub mod verify;
mod views;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};

pub use admission::{Ask, Full, FullWhere, Limits, Reserved};
pub use collector::{Remembered, Written};
pub use decisions::{Cause, Decision};
pub use idempotency::{Claim, Claiming, IdempotencyKey, Repeated};
pub use instances::{BEAT, SILENT};
pub use inventory::{Import, Imported};
pub use kill::{Condemned, KillReport};
pub use leader::Lead;
pub use lease::{Acquired, ByHolder, Holding, LeasePlan, OwnerClaim};
pub use limits::Agreement;
pub use memory::Known;
pub use operations::{Began, Beginning};
pub use operator::Heeded;
pub use rebuild::Part;
pub use trust::Standing;
pub use views::{BucketCounts, CHARGED, ChargedPage, Counts};

pub use crate::store::{Log, Sharing};

use crate::ids::{InstanceId, LedgerId, Marker, UpstreamName};
use crate::rules::entry::{Entry, Timing};
use crate::rules::policy::Policies;
use crate::store::schema::{self, Key, Set};
use crate::store::{Appointment, Batch, Committed, Record, Store, StoreError, UNREADABLE, Version};
use crate::time::{Chance, UnixMillis};

/// So many attempts against other writers before a verb gives up; each means that somebody else made progress.
const ATTEMPTS: usize = 64;

/// Why a verb could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The store failed; whether the last commit happened is unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Others kept changing the same record.
    #[error("the record {0} kept moving under {ATTEMPTS} attempts")]
    Contended(String),
    /// It is not the ledger that it was: nothing is read from it or written there until it is rebuilt.
    #[error("the ledger has lost what it had confirmed ({0}); it is rebuilt before anything else is done")]
    Lost(String),
    /// The ledger belongs to a later program.
    #[error("the ledger has format {found}; this version reads up to {known}: run the version that wrote it")]
    LaterFormat {
        /// The ledger's.
        found: u32,
        /// Ours.
        known: u32,
    },
}

impl LedgerError {
    /// Whether only one record is concerned: others can be read and written.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Store(StoreError::Corrupt { .. }))
    }
}

/// What the ledger needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which Cube this warden serves.
    pub upstream: UpstreamName,
    /// Lengths of time for the rules.
    pub timing: Timing,
}

/// The accounting authority of one warden.
#[derive(Debug)]
pub struct Ledger {
    store: Arc<dyn Store>,
    settings: Settings,
    trust: trust::Trust,
    instance: InstanceId,
    chance: Chance,
    memory: memory::Memory,
    unsent: Mutex<Vec<Marker>>,
    /// Calls that are over, and still registered for all that is known.
    unwritten: Mutex<Vec<operations::Unwritten>>,
    /// Who lived when this warden last looked.
    peers: Mutex<HashSet<InstanceId>>,
    limits: Mutex<limits::InForce>,
    configured: Notify,
    notes: Mutex<decisions::Notes>,
    work: Notify,
    /// By which decisions are made, as far as the log names them.
    policies: ArcSwap<Policies>,
    /// Why the last write failed; a store that can be read but not written is of no use to anybody.
    write_error: Mutex<Option<String>>,
}

/// What a rule made of an entry.
enum Step<R> {
    /// Write this entry (and say so in the log), then return that.
    Write(Box<Entry>, Option<Decision>, R),
    /// Write nothing, return that.
    Keep(R),
}

impl Ledger {
    /// Opens the ledger in `store`, founding it if the store is empty.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or holds what this version cannot read.
    pub async fn open(
        store: Arc<dyn Store>,
        settings: Settings,
        chance: Chance,
    ) -> Result<Self, LedgerError> {
        Self::open_known(store, settings, chance, None).await
    }

    /// Opens the ledger in `store`. If the store is empty and there was a ledger, `was`, that one is rebuilt.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or holds what this version cannot read.
    ///
    /// # Panics
    /// Never: eight random bytes are an instance id.
    pub async fn open_known(
        store: Arc<dyn Store>,
        settings: Settings,
        chance: Chance,
        was: Option<&LedgerId>,
    ) -> Result<Self, LedgerError> {
        let instance = InstanceId::new(&chance.hex(8)).expect("eight bytes are sixteen hexadecimal digits");
        let trust = trust::read_or_found(store.as_ref(), &chance, was).await?;
        Ok(Self {
            store,
            settings,
            trust,
            instance,
            chance,
            memory: memory::Memory::default(),
            unsent: Mutex::default(),
            unwritten: Mutex::default(),
            peers: Mutex::default(),
            limits: Mutex::default(),
            configured: Notify::new(),
            notes: Mutex::default(),
            work: Notify::new(),
            policies: ArcSwap::default(),
            write_error: Mutex::default(),
        })
    }

    /// This process.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Which Cube this warden serves.
    #[must_use]
    pub fn upstream(&self) -> &UpstreamName {
        &self.settings.upstream
    }

    /// The lengths of time in force.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.settings.timing
    }

    /// A new marker.
    ///
    /// # Panics
    /// Never: sixteen random bytes are a marker.
    #[must_use]
    pub fn new_marker(&self) -> Marker {
        Marker::new(&self.chance.hex(16)).expect("sixteen bytes are thirty-two hexadecimal digits")
    }

    /// Random seconds for `Retry-After`.
    #[must_use]
    pub fn jitter(&self, below: u64) -> u64 {
        self.chance.below(below)
    }

    /// The ledger's clock.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn now(&self) -> Result<UnixMillis, LedgerError> {
        Ok(self.read(&[]).await?.now)
    }

    /// Changes whenever room may have come free or an entry moved. A hint only.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.store.changes()
    }

    /// Ready when somebody asked for work to be looked at before its time.
    pub async fn work(&self) {
        self.work.notified().await;
    }

    /// Asks the background tasks to look now.
    pub fn wake(&self) {
        self.work.notify_one();
    }

    /// Why the last write failed; `None` once one has succeeded.
    #[must_use]
    pub fn write_error(&self) -> Option<String> {
        self.write_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_write(&self, error: Option<&StoreError>) {
        if error.is_some() {
            self.memory.doubt();
        }
        *self.write_error.lock().unwrap_or_else(PoisonError::into_inner) = error.map(ToString::to_string);
    }

    /// Reads the entry of `marker`, applies `rule`, commits if nothing moved; else again. `None` if there is no entry.
    /// What this process has in hand is taken first, as if it had just been read; but only what is written may rest on it.
    async fn change<R>(
        &self,
        marker: &Marker,
        rule: impl Fn(Entry, UnixMillis) -> Step<R>,
    ) -> Result<Option<R>, LedgerError> {
        let mut in_hand = self.in_hand(marker);
        for _ in 0..ATTEMPTS {
            let seen = if in_hand.is_some() { in_hand.take() } else { self.look(marker).await? };
            let Some(seen) = seen else { return Ok(None) };
            let (next, decision, answer) = match rule(seen.entry.clone(), seen.now) {
                Step::Keep(_) if seen.until.is_some() => continue,
                Step::Keep(answer) => return Ok(Some(answer)),
                Step::Write(next, decision, answer) => (*next, decision, answer),
            };
            let mut batch = rewrite(&seen.entry, seen.version, &next);
            batch.until = seen.until;
            lease::seal_in(&mut batch, &seen.entry, &next, seen.now);
            if let Some(decision) = decision {
                self.record(&mut batch, decision, seen.now);
            }
            if self.commit(batch, &next).await? {
                return Ok(Some(answer));
            }
        }
        Err(LedgerError::Contended(Key::Entry(marker.clone()).to_string()))
    }

    /// Commits a batch that leads to `entry`; false if something had moved.
    async fn commit(&self, batch: Batch, entry: &Entry) -> Result<bool, LedgerError> {
        match self.write(batch).await? {
            Committed::Done(version) => {
                self.memory.wrote(entry, version);
                Ok(true)
            }
            // No batch that comes here asks for room, so `Full` does not occur; it would be no success either.
            Committed::Moved | Committed::Full { .. } => Ok(false),
        }
    }

    /// The entry of a marker.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn entry(&self, marker: &Marker) -> Result<Option<Entry>, LedgerError> {
        Ok(self.look(marker).await?.map(|seen| seen.entry))
    }
}

fn corrupt(key: &Key, what: impl Into<String>) -> LedgerError {
    LedgerError::Store(StoreError::Corrupt { key: key.to_string(), what: what.into() })
}

/// The bytes of a record; `None` if there is none.
fn bytes_in<'a>(key: &Key, record: &'a Record) -> Result<Option<&'a [u8]>, LedgerError> {
    match record.version {
        0 => Ok(None),
        UNREADABLE => Err(corrupt(key, String::from_utf8_lossy(&record.value))),
        _ => Ok(Some(&record.value)),
    }
}

fn entry_in(key: &Key, record: &Record) -> Result<Option<(Entry, Version)>, LedgerError> {
    let Some(value) = bytes_in(key, record)? else { return Ok(None) };
    let entry = schema::decode_entry(value).map_err(|what| corrupt(key, what))?;
    Ok(Some((entry, record.version)))
}

fn marker_in(key: &Key, record: &Record) -> Result<Option<Marker>, LedgerError> {
    let Some(value) = bytes_in(key, record)? else { return Ok(None) };
    let text = String::from_utf8_lossy(value);
    Marker::new(&text).map(Some).map_err(|error| corrupt(key, error.to_string()))
}

/// The batch that puts a new entry where none was.
fn found(entry: &Entry) -> Batch {
    let key = Key::Entry(entry.marker.clone());
    let mut batch = Batch {
        expect: vec![(key.clone(), 0)],
        put: vec![(key, schema::encode_entry(entry))],
        appointments: vec![Appointment { member: entry.marker.to_string(), was: None, is: entry.due }],
        ..Batch::default()
    };
    batch.join.extend(memberships(entry, &[]));
    batch
}

/// The batch that turns `old` (as read at `version`) into `new`.
fn rewrite(old: &Entry, version: Version, new: &Entry) -> Batch {
    let key = Key::Entry(new.marker.clone());
    let (before, after) = (schema::sets_of(old), schema::sets_of(new));
    let mut batch = Batch {
        expect: vec![(key.clone(), version)],
        put: vec![(key, schema::encode_entry(new))],
        join: memberships(new, &before),
        leave: memberships(old, &after),
        ..Batch::default()
    };
    if old.due != new.due {
        let member = new.marker.to_string();
        batch.appointments.push(Appointment { member, was: old.due, is: new.due });
    }
    batch
}

/// The batch that takes an entry out of the ledger for good.
fn erase(old: &Entry, version: Version) -> Batch {
    let key = Key::Entry(old.marker.clone());
    Batch {
        expect: vec![(key.clone(), version)],
        remove: vec![key],
        leave: memberships(old, &[]),
        appointments: vec![Appointment { member: old.marker.to_string(), was: old.due, is: None }],
        ..Batch::default()
    }
}

/// Where `entry` is a member and `others` does not name the set.
fn memberships(entry: &Entry, others: &[Set]) -> Vec<(Set, String)> {
    let sets = schema::sets_of(entry).into_iter().filter(|set| !others.contains(set));
    sets.map(|set| (set, entry.marker.to_string())).collect()
}
