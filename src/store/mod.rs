//! Where the ledger's records lie: versioned reads and one atomic conditional commit.
//!
//! Must stay true: a store is dumb. It knows keys, sets and versions, no rule; the rules run in Rust for every store.
//! A commit is durable before it is confirmed. A set is a set: joining or leaving twice changes nothing, so that releasing
//! twice, late or out of order removes only one's own entry. Deliberately absent: a connection, a transaction, a lock.

pub mod embedded;
pub mod redis;
pub mod schema;
pub mod settings;

use std::fmt::Debug;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::time::UnixMillis;
use schema::{Key, Set};

/// Rises with each commit of the ledger; a record's version is the sequence of the commit that wrote it. 0: absent.
pub type Version = u64;

/// The version of a record that the store holds and cannot read; its value then says why, in words. No commit writes it,
/// and none whose expectation names it is done.
pub const UNREADABLE: Version = Version::MAX;

/// A record as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// 0 if there is none.
    pub version: Version,
    /// Empty if there is none.
    pub value: Vec<u8>,
}

/// How far a store has come: whoever has seen it further knows that it has lost something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The sequence of the last commit, anybody's.
    pub sequence: Version,
    /// The sequence of the last commit through this handle (0: none). Others may have brought the sequence further than
    /// it was before the loss: this shows it all the same.
    pub own: Version,
}

impl Reached {
    /// Whether something is missing that was there at `floor`.
    #[must_use]
    pub fn behind(self, floor: Self) -> bool {
        self.sequence < floor.sequence || self.own < floor.own
    }
}

/// What was read, and when, by the ledger's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The ledger's clock: never less than it has shown before.
    pub now: UnixMillis,
    /// How far the store has come.
    pub reached: Reached,
    /// One for each key asked for, in that order.
    pub records: Vec<Record>,
}

/// When somebody must look at an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appointment {
    /// The entry's marker.
    pub member: String,
    /// The appointment it had (as read), to be cancelled.
    pub was: Option<UnixMillis>,
    /// The new one.
    pub is: Option<UnixMillis>,
}

/// Everything that one commit does, all or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The store must have come so far: else it is [`StoreError::Behind`], and nothing is written.
    pub floor: Reached,
    /// The ledger's clock must not be past this: what was decided without asking it must not rest on a time long gone.
    pub until: Option<UnixMillis>,
    /// These records must still have these versions.
    pub expect: Vec<(Key, Version)>,
    /// These sets must hold fewer members than that (asked before anything joins).
    pub room: Vec<(Set, u64)>,
    /// Records to write.
    pub put: Vec<(Key, Vec<u8>)>,
    /// Records to remove.
    pub remove: Vec<Key>,
    /// Members to add to sets.
    pub join: Vec<(Set, String)>,
    /// Members to take from sets.
    pub leave: Vec<(Set, String)>,
    /// Appointments to move.
    pub appointments: Vec<Appointment>,
    /// Decision records to append to [`Log::Calls`].
    pub log: Vec<Vec<u8>>,
    /// Decision records to append to [`Log::Ends`].
    pub ends: Vec<Vec<u8>>,
}

/// The two halves of the decision log. They share their sequence and are bounded apart, so that no flood in one crowds out
/// the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// What callers asked for and were given or refused.
    Calls,
    /// What ended, or was kept from its end, and by whom.
    Ends,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Durable, with this sequence.
    Done(Version),
    /// A record had moved, or it was too late: read again. Nothing was written.
    Moved,
    /// A set had no room. Nothing was written.
    Full {
        /// Which one.
        set: Set,
        /// How many it holds.
        held: u64,
    },
}

/// The store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or written; whether the last commit happened is unknown.
    #[error("the ledger's store is unavailable: {0}")]
    Unavailable(String),
    /// It has come less far than it must have; nothing was written.
    #[error("the ledger's store has lost commits that it had confirmed")]
    Behind,
    /// A record cannot be read; others can.
    #[error("the record {key} cannot be read: {what}")]
    Corrupt {
        /// Which one.
        key: String,
        /// What is wrong with it.
        what: String,
    },
}

/// A decision record as it lies in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// Its place: rises, with gaps.
    pub sequence: u64,
    /// Its bytes.
    pub value: Vec<u8>,
}

/// Something that a store holds, under the name that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A record.
    Record {
        /// Its key.
        key: String,
        /// It.
        record: Record,
    },
    /// A member of a set.
    Member {
        /// The set.
        set: String,
        /// Who is in it.
        member: String,
    },
    /// An appointment.
    Appointment {
        /// Whose.
        member: String,
        /// For when.
        at: UnixMillis,
    },
    /// Something that this program does not write.
    Foreign {
        /// Its name.
        key: String,
        /// What it is.
        what: String,
    },
}

/// Some of what a store holds; while it changes, a piece may come twice, and one that comes or goes may be missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In no order.
    pub pieces: Vec<Piece>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<String>,
}

/// Who else may keep the same records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: whatever another process left here, that process is dead.
    OneProcess,
    /// Others, now and later.
    SeveralProcesses,
}

/// A place for records: embedded, or Redis.
#[async_trait]
pub trait Store: Debug + Send + Sync + 'static {
    /// Reads records and the ledger's clock at one moment.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn read(&self, keys: &[Key]) -> Result<Snapshot, StoreError>;

    /// The ledger's clock as far as it is known without asking: never less than it has shown, and no more ahead of it than
    /// clocks drift in half a minute; but it may be behind (see [`Batch::until`]). `None`: it must be asked.
    fn clock(&self) -> Option<UnixMillis>;

    /// Up to `most` members of a set in their order, after `after`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn members(&self, set: &Set, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError>;

    /// How many members each set has; costs the same for large and small ones.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn sizes(&self, sets: &[Set]) -> Result<Vec<u64>, StoreError>;

    /// Up to `most` members whose appointment is at or before `until`, earliest first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn due(&self, until: UnixMillis, most: usize) -> Result<Vec<String>, StoreError>;

    /// Does all of `batch` or nothing, and is durable when it says [`Committed::Done`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: whether it happened is unknown; asking again with the same expectations is safe.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// Up to `most` decision records of one half with a sequence above `after`, in order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn log(&self, log: Log, after: u64, most: usize) -> Result<Vec<Logged>, StoreError>;

    /// Drops decision records of one half so that at most `keep` remain, the oldest first, and those with a sequence up to
    /// `through`.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn trim_log(&self, log: Log, keep: u64, through: u64) -> Result<(), StoreError>;

    /// A page of everything that the ledger holds but the log, from where another page ended. For export and checks only:
    /// it costs as much as there is.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    async fn scan(&self, from: Option<&str>) -> Result<Page, StoreError>;

    /// Changes whenever a commit may have freed room or moved an entry. A hint only: it may come late, twice or never.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Who else may keep the same records.
    fn sharing(&self) -> Sharing;
}
