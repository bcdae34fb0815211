//! Opening the file, and saying what to do if it cannot be opened.
//!
//! Must stay true: one process at a time (a lock beside the file, held as long as the ledger is open); the file appears
//! under its name only when it is complete, so that a death while it is made leaves nothing half made.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::{FileBackend, InMemoryBackend};
use redb::{Builder, Database, ReadableDatabase, StorageBackend};

use super::tables::{self, Kind, LAYOUT};

const FILE: &str = "ledger.redb";
const SCRATCH: &str = "ledger.redb.new";
const LOCK: &str = "lock";
/// The whole ledger of a busy node fits; the default of the database would be a gigabyte.
const CACHE_BYTES: usize = 64 << 20;

/// Opens the database, again if need be.
pub(super) type Opener = Box<dyn Fn() -> Result<Database, redb::Error> + Send>;

/// Why the ledger cannot be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// One process at a time.
    #[error(
        "the ledger in {0} is in use by another process: stop that one, or give this one a store.path of its own"
    )]
    InUse(PathBuf),
    /// The file is something else.
    #[error(
        "{path}/ledger.redb is not a ledger ({what}): point store.path at another directory, or move the file away"
    )]
    NotALedger {
        /// The directory.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// Written by a later version.
    #[error("the ledger in {path} was written by a later version ({what}): run that version or a later one")]
    LaterFormat {
        /// The directory.
        path: PathBuf,
        /// Its format and ours.
        what: String,
    },
    /// The file was changed or lost parts outside this program.
    #[error(
        "the ledger in {path} is damaged ({what}): restore it from a copy, or move it away and have it rebuilt from Cube's listing"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file system refuses.
    #[error(
        "no permission to read and write the ledger in {path}: give the directory to the user that runs this process"
    )]
    Denied {
        /// The directory.
        path: PathBuf,
        /// What was refused.
        source: io::Error,
    },
    /// No space left.
    #[error("the disk that holds the ledger in {path} is full: free some space and start again")]
    DiskFull {
        /// The directory.
        path: PathBuf,
        /// What was refused.
        source: io::Error,
    },
    /// Anything else.
    #[error("the ledger in {path} cannot be opened")]
    Failed {
        /// The directory.
        path: PathBuf,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Held so that no other process opens the same ledger.
///
/// It is given back in so many words, not by closing the file: a child process that is being started holds a copy of every
/// open file until it becomes another program, and with it a lock that nobody has given back.
#[derive(Debug)]
pub(super) struct Lock(pub(super) File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the ledger's lock could not be given back; it ends with the process");
        }
    }
}

/// Takes the directory (making it if need be) and its lock, and makes the ledger's file if there is none.
pub(super) fn prepare(path: &Path) -> Result<(Lock, Opener), OpenError> {
    let io = |error| of_io(path, error);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
    let lock = private().open(path.join(LOCK)).map_err(io)?;
    let lock = match lock.try_lock() {
        Ok(()) => Lock(lock),
        Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => return Err(io(error)),
    };
    let file = path.join(FILE);
    if !file.try_exists().map_err(io)? {
        make(path, &file)?;
    }
    Ok((lock, Box::new(move || Ok(builder().open(&file)?))))
}

/// An opener of a memory that lives as long as the opener does.
pub(super) fn memory() -> Opener {
    let memory = Arc::new(InMemoryBackend::new());
    Box::new(move || {
        let database = builder().create_with_backend(Shared(memory.clone()))?;
        if matches!(tables::kind(&database.begin_read()?)?, Kind::Empty) {
            lay_out(&database)?;
        }
        Ok(database)
    })
}

/// Whether this is a ledger that we can read.
pub(super) fn check(path: &Path, database: &Database) -> Result<(), OpenError> {
    let kind = || tables::kind(&database.begin_read()?);
    let not = |what: &str| OpenError::NotALedger { path: path.to_owned(), what: what.to_owned() };
    match kind().map_err(|error| of_redb(path, error))? {
        Kind::Ledger(layout) if layout > LAYOUT => Err(OpenError::LaterFormat {
            path: path.to_owned(),
            what: format!("layout {layout}, and this version reads up to {LAYOUT}"),
        }),
        Kind::Ledger(_) => Ok(()),
        Kind::Foreign => Err(not("a database of another program")),
        Kind::Empty => Err(not("a database without anything in it")),
    }
}

pub(super) fn of_redb(path: &Path, error: redb::Error) -> OpenError {
    let path_ = path.to_owned();
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse(path_),
        redb::Error::Io(error) => of_io(path, error),
        redb::Error::UpgradeRequired(format) => {
            OpenError::NotALedger { path: path_, what: format!("a database of the old format {format}") }
        }
        // The database has no kind of its own for this; a test writes such a file and sees that we tell it apart.
        redb::Error::Corrupted(what) if what.contains("file format version") => {
            OpenError::LaterFormat { path: path_, what }
        }
        redb::Error::Corrupted(what) => OpenError::Damaged { path: path_, what },
        other => OpenError::Failed { path: path_, source: Box::new(other) },
    }
}

pub(super) fn of_io(path: &Path, source: io::Error) -> OpenError {
    use io::ErrorKind::{InvalidData, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let path = path.to_owned();
    match source.kind() {
        PermissionDenied | ReadOnlyFilesystem => OpenError::Denied { path, source },
        StorageFull | QuotaExceeded => OpenError::DiskFull { path, source },
        InvalidData => OpenError::NotALedger { path, what: source.to_string() },
        _ => OpenError::Failed { path, source: Box::new(source) },
    }
}

/// Makes the file under another name first: the database writes its head in several steps.
fn make(path: &Path, file: &Path) -> Result<(), OpenError> {
    let scratch = path.join(SCRATCH);
    let made = || -> Result<(), redb::Error> {
        let empty = private().truncate(true).open(&scratch)?;
        let database = builder().create_with_backend(FileBackend::new(empty)?)?;
        lay_out(&database)?;
        database.close()?;
        std::fs::rename(&scratch, file)?;
        // A name is durable only when its directory is.
        Ok(File::open(path)?.sync_all()?)
    };
    made().map_err(|error| of_redb(path, error))
}

fn lay_out(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    tables::lay_out(&write)?;
    Ok(write.commit()?)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    // Without the check a file damaged from outside ends in a panic; reading it whole takes milliseconds.
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
    builder
}

/// Read and write, for this user alone: the ledger holds what sandboxes answer, tokens too.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options
}

/// A memory that outlives the database that is opened on it.
#[derive(Debug)]
struct Shared(Arc<InMemoryBackend>);

impl StorageBackend for Shared {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        self.0.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, data)
    }
}
