//! One store of one kind, with a clock that the test owns, and the means to close and open it again.

use std::sync::Arc;

use cubewarden::ids::{Bucket, ObjectKind};
use cubewarden::store::embedded::Embedded;
use cubewarden::store::redis::{Redis, Time};
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Batch, Committed, Log, Record, Store, Version};
use cubewarden::time::{Clock, ManualClock, UnixMillis};

use crate::support::redis::{RedisServer, waited};

/// Opens a store; owns whatever must live as long as its contents.
type Open = Box<dyn Fn(Arc<dyn Clock>) -> Arc<dyn Store> + Send + Sync>;

/// See the head of the file.
pub(super) struct Place {
    pub(super) clock: ManualClock,
    store: Option<Arc<dyn Store>>,
    /// `None` for what is gone when it is closed.
    open: Option<Open>,
    make: fn() -> Self,
}

impl Place {
    pub(super) fn embedded_on_disk() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open: Open = Box::new(move |clock| Arc::new(Embedded::open(dir.path(), clock).unwrap()));
        let clock = Self::clock();
        Self {
            store: Some(open(Arc::new(clock.clone()))),
            open: Some(open),
            clock,
            make: Self::embedded_on_disk,
        }
    }

    pub(super) fn embedded_in_memory() -> Self {
        let clock = Self::clock();
        let store = Embedded::in_memory(Arc::new(clock.clone())).unwrap();
        Self { store: Some(Arc::new(store)), open: None, clock, make: Self::embedded_in_memory }
    }

    pub(super) fn redis() -> Self {
        let server = RedisServer::start();
        let open: Open = Box::new(move |clock| {
            Arc::new(waited(Redis::open(&server.settings(), Time::Of(clock))).unwrap())
        });
        let clock = Self::clock();
        Self { store: Some(open(Arc::new(clock.clone()))), open: Some(open), clock, make: Self::redis }
    }

    fn clock() -> ManualClock {
        ManualClock::at(UnixMillis(1_800_000_000_000))
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.store.clone().unwrap()
    }

    /// An empty one of the same kind.
    pub(super) fn another(&self) -> Self {
        (self.make)()
    }

    pub(super) fn lasts(&self) -> bool {
        self.open.is_some()
    }

    /// Closes it and opens it again. All handles must have been given back.
    pub(super) fn reopen(&mut self) {
        let open = self.open.as_ref().expect("what does not last is not reopened");
        assert_eq!(Arc::strong_count(self.store.as_ref().unwrap()), 1, "somebody still holds the store");
        self.store = None;
        self.store = Some(open(Arc::new(self.clock.clone())));
    }

    pub(super) async fn record(&self, key: &Key) -> Record {
        self.store().read(std::slice::from_ref(key)).await.unwrap().records.remove(0)
    }

    pub(super) async fn now(&self) -> UnixMillis {
        self.store().read(&[]).await.unwrap().now
    }

    pub(super) async fn size(&self, set: &Set) -> u64 {
        self.store().sizes(std::slice::from_ref(set)).await.unwrap()[0]
    }

    pub(super) async fn members(&self, set: &Set) -> Vec<String> {
        self.store().members(set, None, 1000).await.unwrap()
    }

    pub(super) async fn due(&self, until: u64) -> Vec<String> {
        self.store().due(UnixMillis(until), 1000).await.unwrap()
    }

    pub(super) async fn log(&self) -> Vec<Vec<u8>> {
        let logged = self.store().log(Log::Calls, 0, 1000).await.unwrap();
        logged.into_iter().map(|logged| logged.value).collect()
    }

    pub(super) async fn commit(&self, batch: Batch) -> Committed {
        self.store().commit(batch).await.unwrap()
    }

    /// Commits what must succeed.
    pub(super) async fn done(&self, batch: Batch) -> Version {
        match self.commit(batch).await {
            Committed::Done(version) => version,
            other => panic!("not done: {other:?}"),
        }
    }
}

pub(super) fn volume(id: &str) -> Key {
    Key::Object(ObjectKind::Volume, id.to_owned())
}

pub(super) fn slots(bucket: &str) -> Set {
    Set::Slots(Bucket::parse(bucket).unwrap())
}

pub(super) fn put(key: &Key, value: &str) -> Batch {
    Batch { put: vec![(key.clone(), value.into())], ..Batch::default() }
}

pub(super) fn join(set: &Set, member: &str) -> Batch {
    Batch { join: vec![(set.clone(), member.to_owned())], ..Batch::default() }
}

pub(super) fn leave(set: &Set, member: &str) -> Batch {
    Batch { leave: vec![(set.clone(), member.to_owned())], ..Batch::default() }
}
