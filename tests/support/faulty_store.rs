//! A store that fails as stores do: by name, at a commit of the test's choice, on top of a real one.
//!
//! Must stay true: without faults it is the store it wraps. A dead one (`hang_*`) never answers anything again, like a
//! process that was killed; the store below lives on and can be wrapped anew, like the file after a restart.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fmt;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cubewarden::store::schema::{Key, Set, decode_entry};
use cubewarden::store::{Batch, Committed, Log, Logged, Page, Sharing, Snapshot, Store, StoreError};
use cubewarden::time::{Clock, UnixMillis};
use tokio::sync::watch;

/// Which commits a fault strikes. Commits are counted from 1, as they come in.
pub(crate) enum When {
    /// This one.
    Nth(u64),
    /// So many, from now on.
    Next(u64),
    /// All that look like that, until [`FaultyStore::heal`].
    Matching(Box<dyn Fn(&Batch) -> bool + Send + Sync>),
}

/// What happens to a commit.
#[derive(Clone)]
enum Fault {
    Unavailable,
    LoseReply,
    HangBefore,
    HangAfter,
    Slow(Arc<dyn Clock>, Duration),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Up,
    Down,
    Dead,
}

/// See the head of the file.
pub(crate) struct FaultyStore {
    below: Arc<dyn Store>,
    commits: AtomicU64,
    /// Everything that was asked of it.
    touches: AtomicU64,
    /// Commits that the store below has not confirmed yet.
    under_way: AtomicUsize,
    story: Mutex<Vec<String>>,
    plan: Mutex<Vec<(When, Fault)>>,
    life: watch::Sender<Life>,
}

impl FaultyStore {
    pub(crate) fn wrap(below: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            below,
            commits: AtomicU64::new(0),
            touches: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            story: Mutex::default(),
            plan: Mutex::default(),
            life: watch::Sender::new(Life::Up),
        })
    }

    /// Nothing is done, and it says that it could not.
    pub(crate) fn unavailable(&self, when: When) {
        self.strike(when, Fault::Unavailable);
    }

    /// It is done, but it says that it could not.
    pub(crate) fn lose_reply(&self, when: When) {
        self.strike(when, Fault::LoseReply);
    }

    /// The process dies before the n-th commit: that one is not done, and nothing ever answers again.
    pub(crate) fn hang_before(&self, n: u64) {
        self.strike(When::Nth(n), Fault::HangBefore);
    }

    /// The process dies after the n-th commit: that one is done, and nothing ever answers again.
    pub(crate) fn hang_after(&self, n: u64) {
        self.strike(When::Nth(n), Fault::HangAfter);
    }

    /// It is done after `length` on `clock`.
    pub(crate) fn slow(&self, when: When, clock: Arc<dyn Clock>, length: Duration) {
        self.strike(when, Fault::Slow(clock, length));
    }

    /// Reads and commits alike are unavailable until [`FaultyStore::heal`].
    pub(crate) fn down(&self) {
        self.live(Life::Down);
    }

    /// Forgets all faults; the dead stay dead.
    pub(crate) fn heal(&self) {
        self.plan.lock().unwrap().clear();
        self.live(Life::Up);
    }

    /// How many commits have come in.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(SeqCst)
    }

    /// How often anything was asked of it; a store that nobody touches stands still.
    pub(crate) fn touches(&self) -> u64 {
        self.touches.load(SeqCst)
    }

    /// How many commits wait for the store below.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(SeqCst)
    }

    /// What the commits were about, in words, oldest first; the n-th is the one that `hang_*(n)` strikes.
    pub(crate) fn story(&self) -> Vec<String> {
        self.story.lock().unwrap().clone()
    }

    /// Whether it has died.
    pub(crate) fn is_dead(&self) -> bool {
        *self.life.borrow() == Life::Dead
    }

    /// Ready once it is dead: then the test may let the callers go.
    pub(crate) async fn died(&self) {
        let mut life = self.life.subscribe();
        life.wait_for(|life| *life == Life::Dead).await.expect("the sender is in self");
    }

    fn strike(&self, when: When, fault: Fault) {
        self.plan.lock().unwrap().push((when, fault));
    }

    fn live(&self, as_: Life) {
        self.life.send_if_modified(|life| {
            let changes = *life != Life::Dead && *life != as_;
            *life = if changes { as_ } else { *life };
            changes
        });
    }

    /// The first planned fault that this commit meets; one that is used up is forgotten.
    fn meets(&self, number: u64, batch: &Batch) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap();
        let met = plan.iter().position(|(when, _)| match when {
            When::Nth(nth) => *nth == number,
            When::Next(left) => *left > 0,
            When::Matching(matches) => matches(batch),
        })?;
        let (when, fault) = &mut plan[met];
        let fault = fault.clone();
        if let When::Next(left) = when {
            *left -= 1;
        }
        Some(fault)
    }

    async fn commit_below(&self, batch: Batch) -> Result<Committed, StoreError> {
        let _counted = UnderWay::count(&self.under_way);
        self.below.commit(batch).await
    }

    /// Every operation passes here first.
    async fn pass(&self) -> Result<(), StoreError> {
        self.touches.fetch_add(1, SeqCst);
        let life = *self.life.borrow();
        match life {
            Life::Up => Ok(()),
            Life::Down => Err(unavailable()),
            Life::Dead => std::future::pending().await,
        }
    }

    async fn die<T>(&self) -> T {
        self.live(Life::Dead);
        std::future::pending().await
    }
}

/// Counts one until dropped: a caller may leave in the middle.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn count(under_way: &'a AtomicUsize) -> Self {
        under_way.fetch_add(1, SeqCst);
        Self(under_way)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// What a commit leads to: the state of the entry it writes, else the first record it names.
fn about(batch: &Batch) -> String {
    let entry = batch.put.iter().find(|(key, _)| matches!(key, Key::Entry(_)));
    match entry.map(|(_, value)| decode_entry(value).unwrap()) {
        Some(entry) if entry.operations.is_empty() => entry.state.name().to_owned(),
        Some(entry) => format!("{} with {} in flight", entry.state.name(), entry.operations.len()),
        None => {
            let other = batch.put.first().map(|(key, _)| key).or(batch.remove.first());
            other.map_or_else(|| "notes".to_owned(), ToString::to_string)
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("a fault of the test".to_owned())
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.pass().await?;
        let number = self.commits.fetch_add(1, SeqCst) + 1;
        self.story.lock().unwrap().push(about(&batch));
        match self.meets(number, &batch) {
            None => self.commit_below(batch).await,
            Some(Fault::Unavailable) => Err(unavailable()),
            Some(Fault::LoseReply) => {
                self.commit_below(batch).await?;
                Err(unavailable())
            }
            Some(Fault::HangBefore) => self.die().await,
            Some(Fault::HangAfter) => {
                self.commit_below(batch).await?;
                self.die().await
            }
            Some(Fault::Slow(clock, length)) => {
                clock.sleep(length).await;
                self.commit_below(batch).await
            }
        }
    }

    async fn read(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        self.pass().await?;
        self.below.read(keys).await
    }

    fn clock(&self) -> Option<UnixMillis> {
        self.below.clock()
    }

    async fn members(&self, set: &Set, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        self.pass().await?;
        self.below.members(set, after, most).await
    }

    async fn sizes(&self, sets: &[Set]) -> Result<Vec<u64>, StoreError> {
        self.pass().await?;
        self.below.sizes(sets).await
    }

    async fn due(&self, until: UnixMillis, most: usize) -> Result<Vec<String>, StoreError> {
        self.pass().await?;
        self.below.due(until, most).await
    }

    async fn log(&self, log: Log, after: u64, most: usize) -> Result<Vec<Logged>, StoreError> {
        self.pass().await?;
        self.below.log(log, after, most).await
    }

    async fn trim_log(&self, log: Log, keep: u64, through: u64) -> Result<(), StoreError> {
        self.pass().await?;
        self.below.trim_log(log, keep, through).await
    }

    async fn scan(&self, from: Option<&str>) -> Result<Page, StoreError> {
        self.pass().await?;
        self.below.scan(from).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.below.changes()
    }

    fn sharing(&self) -> Sharing {
        self.below.sharing()
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("below", &self.below).finish_non_exhaustive()
    }
}
