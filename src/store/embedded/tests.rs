//! What only the inside can show: a sick disk, a held sync, and files that are no ledgers.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, StorageBackend, TableDefinition};

use super::{Embedded, OpenError, disk, tables};
use crate::ids::ObjectKind;
use crate::store::schema::{Key, Set};
use crate::store::{Batch, Committed, Log, Store, StoreError};
use crate::time::{ManualClock, UnixMillis, WallClock, within};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(UnixMillis(1_000)))
}

fn open(path: &Path) -> Result<Embedded, OpenError> {
    Embedded::open(path, clock())
}

fn volume(id: &str) -> Key {
    Key::Object(ObjectKind::Volume, id.to_owned())
}

/// Writes a volume's record and its membership: two things that must never be seen apart.
fn adding(id: &str) -> Batch {
    Batch {
        put: vec![(volume(id), id.as_bytes().to_vec())],
        join: vec![(Set::Objects(ObjectKind::Volume), id.to_owned())],
        ..Batch::default()
    }
}

/// A memory that can be made to fail, and whose sync can be held.
#[derive(Clone, Debug, Default)]
struct Sick(Arc<Symptoms>);

#[derive(Debug, Default)]
struct Symptoms {
    memory: InMemoryBackend,
    no_read: AtomicBool,
    no_write: AtomicBool,
    no_sync: AtomicBool,
    held: Mutex<bool>,
    released: Condvar,
}

impl Sick {
    fn refuse(flag: &AtomicBool) -> Result<(), io::Error> {
        if flag.load(SeqCst) { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    /// Nothing becomes durable until the guard is dropped.
    fn hold(&self) -> Held {
        *self.0.held.lock().unwrap() = true;
        Held(self.clone())
    }

    fn embedded(&self) -> Embedded {
        let database = Builder::new().create_with_backend(self.clone()).unwrap();
        let write = database.begin_write().unwrap();
        tables::lay_out(&write).unwrap();
        write.commit().unwrap();
        drop(database);
        let sick = self.clone();
        let opener = Box::new(move || Ok(Builder::new().create_with_backend(sick.clone())?));
        Embedded::start(Path::new("sick"), None, opener, clock()).unwrap()
    }
}

struct Held(Sick);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.0.held.lock().unwrap() = false;
        self.0.0.released.notify_all();
    }
}

impl StorageBackend for Sick {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.memory.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        Self::refuse(&self.0.no_read)?;
        self.0.memory.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.0.memory.set_len(len)
    }
    fn sync_data(&self) -> Result<(), io::Error> {
        let held = self.0.held.lock().unwrap();
        drop(self.0.released.wait_while(held, |held| *held).unwrap());
        Self::refuse(&self.0.no_sync)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        Self::refuse(&self.0.no_write)?;
        self.0.memory.write(offset, data)
    }
}

#[tokio::test]
async fn after_a_commit_that_could_not_be_made_durable_memory_and_file_agree_and_the_next_one_succeeds() {
    for name in ["write", "sync"] {
        let sick = Sick::default();
        let symptom = if name == "write" { &sick.0.no_write } else { &sick.0.no_sync };
        let store = sick.embedded();
        store.commit(adding("before")).await.unwrap();

        symptom.store(true, SeqCst);
        let failed = store.commit(adding("lost")).await;
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{name}: {failed:?}");
        symptom.store(false, SeqCst);

        assert!(matches!(store.commit(adding("after")).await, Ok(Committed::Done(_))), "{name}");
        let members = store.members(&Set::Objects(ObjectKind::Volume), None, 9).await.unwrap();
        let sizes = store.sizes(&[Set::Objects(ObjectKind::Volume)]).await.unwrap();
        assert_eq!(sizes, [members.len() as u64], "{name}");
        let records = store.read(&[volume("before"), volume("lost"), volume("after")]).await.unwrap().records;
        let present: Vec<_> = records.iter().filter(|record| record.version > 0).collect();
        assert_eq!(present.len(), members.len(), "{name}");
        assert!(records[0].version < records[2].version, "{name}: versions rise");
    }
}

#[tokio::test]
async fn what_waits_while_a_sync_is_under_way_shares_the_next_one_and_readers_do_not_wait() {
    let sick = Sick::default();
    let store = Arc::new(sick.embedded());
    let held = sick.hold();
    let commit = |id: u32| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(adding(&format!("{id:04}"))).await })
    };
    let first = commit(0);
    tokio::task::yield_now().await;
    let queue = || store.queue.as_ref().unwrap().capacity();
    // The first one is taken by the writer, which is now held; the others wait in the queue and before it.
    while queue() < super::QUEUE {
        std::thread::yield_now();
    }
    let rest: Vec<_> = (1..=1100).map(commit).collect();
    while queue() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.read(&[volume("0000")]).await.unwrap().records[0].version, 0);
    assert_eq!(store.sizes(&[Set::Objects(ObjectKind::Volume)]).await.unwrap(), [0]);

    drop(held);
    assert_eq!(first.await.unwrap().unwrap(), Committed::Done(1));
    for waiting in rest {
        assert!(matches!(waiting.await.unwrap().unwrap(), Committed::Done(_)));
    }
    let groups = store.groups();
    assert_eq!((groups.batches, groups.largest), (1101, super::writer::LARGEST_GROUP as u64));
    assert!(groups.groups <= 8, "{groups:?}");
    assert_eq!(store.sizes(&[Set::Objects(ObjectKind::Volume)]).await.unwrap(), [1101]);
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_opened_anew_although_nobody_commits() {
    let sick = Sick::default();
    let store = sick.embedded();
    store.commit(adding("a")).await.unwrap();
    // The cache would answer; a database that was just opened has to read.
    sick.0.no_sync.store(true, SeqCst);
    sick.0.no_read.store(true, SeqCst);
    assert!(store.commit(adding("b")).await.is_err());
    assert!(matches!(store.read(&[volume("a")]).await, Err(StoreError::Unavailable(_))));

    sick.0.no_sync.store(false, SeqCst);
    sick.0.no_read.store(false, SeqCst);
    let mut changes = store.changes();
    while store.read(&[volume("a")]).await.is_err() {
        within(&WallClock, Duration::from_secs(20), changes.changed())
            .await
            .expect("it was opened anew")
            .unwrap();
    }
    assert_eq!(store.read(&[volume("a")]).await.unwrap().records[0].value, b"a");
}

#[tokio::test]
async fn only_what_somebody_may_wait_for_wakes_those_who_wait() {
    let store = Embedded::in_memory(clock()).unwrap();
    let set = Set::Objects(ObjectKind::Volume);
    store.commit(adding("a")).await.unwrap();
    // What comes next is answered only after the writer is done with what came before.
    store.ask(super::Work::Probe).await.unwrap();
    let mut changes = store.changes();
    let full = Batch { room: vec![(set.clone(), 1)], ..adding("b") };
    let moved = Batch { expect: vec![(volume("a"), 9)], ..adding("b") };
    let noted = Batch { log: vec![b"a note".to_vec()], ..Batch::default() };
    for silent in [full, moved, noted] {
        store.commit(silent).await.unwrap();
        store.trim_log(Log::Calls, 0, u64::MAX).await.unwrap();
    }
    store.ask(super::Work::Probe).await.unwrap();
    assert!(!changes.has_changed().unwrap(), "a full bucket's waiter would wake itself");
    let left = Batch { leave: vec![(set, "a".to_owned())], ..Batch::default() };
    store.commit(left).await.unwrap();
    within(&WallClock, Duration::from_secs(20), changes.changed()).await.expect("told").unwrap();
}

#[tokio::test]
async fn a_second_opening_is_refused_and_the_files_are_for_their_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some/where");
    let first = open(&path).unwrap();
    let refused = open(&path).unwrap_err();
    assert!(matches!(refused, OpenError::InUse(_)), "{refused:?}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
    let mode = |file: &str| std::fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("."), mode("ledger.redb"), mode("lock")), (0o700, 0o600, 0o600));
    drop(first);
    open(&path).unwrap();
}

/// A process that starts a child has, until the child becomes another program, two holders of each open file.
#[tokio::test]
async fn a_ledger_that_was_closed_is_free_even_while_a_child_process_is_being_started() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    let inherited = first.lock.as_ref().unwrap().0.try_clone().unwrap();
    assert!(matches!(open(dir.path()).unwrap_err(), OpenError::InUse(_)));
    drop(first);
    open(dir.path()).unwrap();
    drop(inherited);
}

#[test]
fn a_death_while_the_file_was_made_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ledger.redb.new"), [0; 4096]).unwrap();
    open(dir.path()).unwrap();
    assert!(!dir.path().join("ledger.redb.new").exists());
}

/// Opens a directory whose ledger file `spoil` has had in its hands.
fn spoiled(spoil: impl FnOnce(&Path)) -> OpenError {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    spoil(&dir.path().join("ledger.redb"));
    open(dir.path()).unwrap_err()
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn files_that_are_no_ledger_or_a_later_or_a_damaged_one_are_told_apart() {
    let garbage = spoiled(|file| std::fs::write(file, "a text somebody saved here").unwrap());
    assert!(matches!(garbage, OpenError::NotALedger { .. }), "{garbage:?}");
    assert!(garbage.to_string().contains("point store.path at another directory"), "{garbage}");

    let foreign = spoiled(|file| {
        std::fs::remove_file(file).unwrap();
        let write = Database::create(file).unwrap().begin_write().unwrap();
        write.open_table(TableDefinition::<u64, u64>::new("somebody's")).unwrap();
        write.commit().unwrap();
    });
    assert!(matches!(foreign, OpenError::NotALedger { .. }), "{foreign:?}");

    let later = spoiled(|file| {
        let database = Database::open(file).unwrap();
        let write = database.begin_write().unwrap();
        let mut head = write.open_table(TableDefinition::<&str, u64>::new("head")).unwrap();
        head.insert("layout", tables::LAYOUT + 1).unwrap();
        drop(head);
        write.commit().unwrap();
    });
    assert!(matches!(later, OpenError::LaterFormat { .. }), "{later:?}");
    assert!(later.to_string().contains("layout 2, and this version reads up to 1"), "{later}");

    // The version of the database's own format is the first byte of each of the two commit slots.
    let later = spoiled(|file| change(file, |bytes| (bytes[64], bytes[192]) = (9, 9)));
    assert!(matches!(later, OpenError::LaterFormat { .. }), "{later:?}");

    let shortened = spoiled(|file| change(file, |bytes| bytes.truncate(8192)));
    assert!(matches!(shortened, OpenError::Damaged { .. } | OpenError::Failed { .. }), "{shortened:?}");

    let scribbled = spoiled(|file| change(file, |bytes| bytes[4096..].fill(0xa5)));
    assert!(matches!(scribbled, OpenError::Damaged { .. }), "{scribbled:?}");
}

#[test]
fn a_refusing_file_system_is_told_apart_from_a_full_one() {
    let told = |kind| disk::of_io(Path::new("/var/lib/x"), io::Error::from(kind)).to_string();
    assert!(told(io::ErrorKind::PermissionDenied).starts_with("no permission"));
    assert!(told(io::ErrorKind::ReadOnlyFilesystem).starts_with("no permission"));
    assert!(told(io::ErrorKind::StorageFull).contains("is full: free some space"));
    assert!(told(io::ErrorKind::Other).contains("cannot be opened"));
}
