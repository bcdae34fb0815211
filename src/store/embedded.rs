//! The store in one file of this machine: durable, for one process, nothing to install.
//!
//! Reads see the last durable commit and never wait for the writer. Commits go through a bounded queue to one thread
//! (`writer`), which makes a whole group of them durable with one sync.
//!
//! Must stay true: what was confirmed survives the death of the process at any point; what was not, is there whole or not
//! at all. The clock never shows less than it has shown, nor, after a restart, less than any commit has seen.
//! Deliberately absent: waiting on the disk in an async task; reads come from the page cache.

mod disk;
mod tables;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::{mpsc, oneshot, watch};

pub use self::disk::OpenError;
use self::disk::{Lock, Opener};
use self::writer::{Answer, Job, Work, Writer};
use super::schema::{Key, Set};
use super::{Batch, Committed, Log, Logged, Page, Reached, Sharing, Snapshot, Store, StoreError};
use crate::time::{Clock, UnixMillis};

/// So many commits may wait; who comes later waits for a place.
const QUEUE: usize = 1024;

/// The embedded store.
pub struct Embedded {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    queue: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    /// `None` in memory: there is nothing to hold.
    lock: Option<Lock>,
}

/// How well commits share syncs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Groups made durable: one sync each.
    pub groups: u64,
    /// Batches in them.
    pub batches: u64,
    /// The most batches in one group.
    pub largest: u64,
}

/// What readers and the writer see.
struct Shared {
    /// `None` while a failed write has left the file closed. Only the writer writes here, and only then.
    database: RwLock<Option<Database>>,
    /// How many members each set has, as of the last durable commit.
    sizes: RwLock<HashMap<String, u64>>,
    seen: AtomicU64,
    clock: Arc<dyn Clock>,
    changes: watch::Sender<u64>,
    groups: Counters,
}

#[derive(Default)]
struct Counters {
    groups: AtomicU64,
    batches: AtomicU64,
    largest: AtomicU64,
}

impl Embedded {
    /// Opens the ledger in the directory `path`, making both if need be.
    ///
    /// # Errors
    /// [`OpenError`], whose text says what to do.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let (lock, opener) = disk::prepare(path)?;
        Self::start(path, Some(lock), opener, clock)
    }

    /// A ledger that lives as long as this value.
    ///
    /// # Errors
    /// [`OpenError`] if the machine has no thread to give.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::start(Path::new("memory"), None, disk::memory(), clock)
    }

    /// How well commits have shared syncs so far.
    #[must_use]
    pub fn groups(&self) -> Groups {
        let Counters { groups, batches, largest } = &self.shared.groups;
        Groups {
            groups: groups.load(Relaxed),
            batches: batches.load(Relaxed),
            largest: largest.load(Relaxed),
        }
    }

    fn start(
        path: &Path,
        lock: Option<Lock>,
        opener: Opener,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let database = opener().map_err(|error| disk::of_redb(path, error))?;
        disk::check(path, &database)?;
        let (head, sizes) = writer::load(&database).map_err(|error| disk::of_redb(path, error))?;
        let shared = Arc::new(Shared {
            database: RwLock::new(Some(database)),
            sizes: RwLock::new(sizes),
            seen: AtomicU64::new(head.seen),
            clock,
            changes: watch::Sender::new(0),
            groups: Counters::default(),
        });
        let (queue, jobs) = mpsc::channel(QUEUE);
        let writer = Writer::new(shared.clone(), opener, head);
        let writer = std::thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || writer.run(jobs))
            .map_err(|error| disk::of_io(path, error))?;
        Ok(Self { shared, queue: Some(queue), writer: Some(writer), lock })
    }

    async fn ask(&self, work: Work) -> Answer {
        let stopped = || StoreError::Unavailable("its writer has stopped".to_owned());
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(Job { work, answer }).await.map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }

    /// Runs `read` on the last durable commit. After a failure the writer is told to look at the file: without commits
    /// nobody else would.
    fn look<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let attempt = || {
            // Fails only while the writer opens the file anew, which may take long on a sick disk.
            let database = self.shared.database.try_read().map_err(|_| redb::Error::DatabaseClosed)?;
            let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
            read(&database.begin_read()?)
        };
        attempt().map_err(|error| {
            let (answer, _) = oneshot::channel();
            if let Some(queue) = &self.queue {
                // A full queue has work enough to find out by itself.
                let _full = queue.try_send(Job { work: Work::Probe, answer });
            }
            StoreError::Unavailable(error.to_string())
        })
    }
}

impl Shared {
    fn now(&self) -> UnixMillis {
        let now = self.clock.now().0;
        UnixMillis(self.seen.fetch_max(now, AcqRel).max(now))
    }

    fn size(&self, set: &str) -> u64 {
        read_lock(&self.sizes).get(set).copied().unwrap_or(0)
    }
}

/// Nothing panics while it holds one of these locks half changed, so a poisoned one is as good as any.
fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Store for Embedded {
    async fn read(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let (sequence, records) =
            self.look(|read| Ok((tables::head(read)?.sequence, tables::records(read, &keys)?)))?;
        // One process: whatever was committed, this one did.
        let reached = Reached { sequence, own: sequence };
        Ok(Snapshot { now: self.shared.now(), reached, records })
    }

    fn clock(&self) -> Option<UnixMillis> {
        Some(self.shared.now())
    }

    async fn members(&self, set: &Set, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        self.look(|read| tables::members(read, &set.to_string(), after, most))
    }

    async fn sizes(&self, sets: &[Set]) -> Result<Vec<u64>, StoreError> {
        let sizes = read_lock(&self.shared.sizes);
        Ok(sets.iter().map(|set| sizes.get(&set.to_string()).copied().unwrap_or(0)).collect())
    }

    async fn due(&self, until: UnixMillis, most: usize) -> Result<Vec<String>, StoreError> {
        self.look(|read| tables::due(read, until, most))
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.ask(Work::Commit(Box::new(batch))).await
    }

    async fn log(&self, log: Log, after: u64, most: usize) -> Result<Vec<Logged>, StoreError> {
        self.look(|read| tables::log(read, log, after, most))
    }

    async fn trim_log(&self, log: Log, keep: u64, through: u64) -> Result<(), StoreError> {
        self.ask(Work::Trim { log, keep, through }).await.map(drop)
    }

    async fn scan(&self, from: Option<&str>) -> Result<Page, StoreError> {
        self.look(|read| tables::page(read, from))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    fn sharing(&self) -> Sharing {
        Sharing::OneProcess
    }
}

impl Drop for Embedded {
    /// Waits for the writer, so that the file is closed, and may be opened again, when this returns.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so already.
            let _panicked = writer.join();
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Embedded");
        shown.field("lock", &self.lock).field("groups", &self.groups()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
