//! A Cube, a ledger and one warden on one thread and one clock: nothing moves unless the test lets it.
//!
//! Cube and clients run on one runtime (outside), the warden on another (inside). A crash drops the warden's runtime with
//! everything that was under way in it, as kill -9 would; Cube goes on, and so does what the ledger's file holds.
//! Must stay true: after [`World::settle`] nothing is under way but what waits for the clock, for a held request, or for a
//! store that has died.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Marker, SandboxId};
use cubewarden::rules::entry::{Entry, State};
use cubewarden::store::Store;
use cubewarden::store::embedded::Embedded;
use cubewarden::time::{Clock as _, ManualClock, UnixMillis};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::plain::Plain;
use crate::cube::{CubeSim, Profile};
use crate::support::faulty_store::FaultyStore;
use crate::support::http::{Answer, Caller};
use crate::support::warden::{self, Running};

/// The template of every create here.
pub(super) const TEMPLATE: &str = "tpl-000000000000000000000001";
/// So many turns without a sign of life, and everything stands still.
const QUIET: usize = 3;
/// A call that is not answered after so many seconds never will be.
const PATIENCE: u64 = 400;

/// Where the ledger lies, whether or not a warden lives.
enum Place {
    Disk(tempfile::TempDir),
    Memory(Arc<dyn Store>),
}

/// A call under way; `None` after the connection was lost.
pub(super) struct Call(JoinHandle<Result<Answer, String>>);

impl Call {
    /// The client hangs up.
    pub(super) fn hang_up(self) {
        self.0.abort();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// A byte sent to oneself: once it has come round, so has everything that was sent before it.
pub(crate) struct Echo(TcpStream, TcpStream);

impl Echo {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        there.set_nodelay(true).unwrap();
        Self(there, listener.accept().unwrap().0)
    }

    pub(crate) fn wait(&self) {
        (&self.0).write_all(&[0]).unwrap();
        (&self.1).read_exact(&mut [0]).unwrap();
    }
}

/// See the head of the file.
pub(super) struct World {
    pub(super) clock: ManualClock,
    pub(super) cube: CubeSim,
    config: String,
    place: Place,
    store: Option<Arc<FaultyStore>>,
    warden: Option<Running>,
    client: Option<Caller>,
    ticks: BTreeMap<&'static str, JoinHandle<()>>,
    echo: Echo,
    inside: Option<Runtime>,
    outside: Runtime,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

impl World {
    /// A world whose ledger is a file; its warden runs.
    pub(super) fn on_disk(profile: Profile, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::new(profile, config, 1, |_| Place::Disk(directory))
    }

    /// A world whose ledger is in memory and outlives its warden all the same: many commits cost little.
    pub(super) fn in_memory(profile: Profile, config: &str, seed: u64) -> Self {
        Self::new(profile, config, seed, |clock| Place::Memory(Arc::new(Plain::new(clock))))
    }

    fn new(profile: Profile, config: &str, seed: u64, place: impl FnOnce(ManualClock) -> Place) -> Self {
        let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
        let place = place(clock.clone());
        let outside = runtime();
        let builder = CubeSim::builder().profile(profile).clock(clock.clone()).seed(seed);
        let cube = outside.block_on(builder.start()).unwrap();
        let config = config.to_owned();
        let (store, warden, client, ticks, inside) = (None, None, None, BTreeMap::new(), None);
        let echo = Echo::new();
        let mut world =
            Self { clock, cube, config, place, store, warden, client, ticks, echo, inside, outside };
        world.start(|_| {});
        world
    }

    /// Opens the ledger and starts a warden on it; `plan` may plan faults of the store. False if it died of them.
    pub(super) fn start(&mut self, plan: impl FnOnce(&FaultyStore)) -> bool {
        assert!(self.inside.is_none(), "one warden at a time");
        let below: Arc<dyn Store> = match &self.place {
            Place::Disk(directory) => {
                Arc::new(Embedded::open(directory.path(), Arc::new(self.clock.clone())).unwrap())
            }
            Place::Memory(store) => Arc::clone(store),
        };
        let store = FaultyStore::wrap(below);
        plan(&store);
        let inside = runtime();
        let builder = warden::before(&self.cube.url()).clock(&self.clock).config(&self.config);
        let builder = builder.store(Arc::clone(&store) as _).without_tasks();
        let starting = inside.spawn(builder.start());
        (self.store, self.inside) = (Some(store), Some(inside));
        for _ in 0..100 {
            self.settle();
            if starting.is_finished() || self.is_dead() {
                break;
            }
        }
        if !starting.is_finished() {
            assert!(self.is_dead(), "only a dead store keeps a warden from starting");
            self.crash();
            return false;
        }
        let warden = self.inside.as_ref().unwrap().block_on(starting).unwrap();
        let tasks = Arc::clone(&warden.warden.tasks);
        self.client = Some(warden.caller());
        self.warden = Some(warden);
        self.tick("learn", async move { tasks.learn().await });
        true
    }

    /// Kill -9: everything that is under way in the warden is cut off, and its ledger is given back.
    pub(super) fn crash(&mut self) {
        (self.warden, self.inside, self.client) = (None, None, None);
        self.ticks.clear();
        let store = self.store.take().unwrap();
        assert_eq!(Arc::strong_count(&store), 1, "the dead hold the ledger");
        drop(store);
        self.settle();
    }

    /// Whether a warden runs (its store may be dead).
    pub(super) fn is_up(&self) -> bool {
        self.warden.is_some()
    }

    /// Whether the store has died: then nothing is left but to crash.
    pub(super) fn is_dead(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_dead())
    }

    /// The store under the running warden.
    pub(super) fn store(&self) -> &FaultyStore {
        self.store.as_ref().unwrap()
    }

    /// The running warden.
    pub(super) fn warden(&self) -> &Running {
        self.warden.as_ref().unwrap()
    }

    /// A client of the running warden.
    pub(super) fn client(&self) -> Caller {
        self.client.clone().unwrap()
    }

    /// Begins a call.
    pub(super) fn call(&self, method: &str, path: &str, body: &str) -> Call {
        self.call_as(self.client(), method, path, body)
    }

    /// Begins a call of this client.
    pub(super) fn call_as(&self, client: Caller, method: &str, path: &str, body: &str) -> Call {
        let (method, path, body) = (method.to_owned(), path.to_owned(), body.to_owned());
        Call(self.outside.spawn(async move {
            let body = (!body.is_empty()).then_some(body.as_str());
            client.try_call(&method, &path, body).await
        }))
    }

    /// Lets everything run that can. Calls that wait for the clock or for a held request wait on.
    pub(super) fn settle(&self) {
        let mut quiet = 0;
        let mut before = self.pulse();
        while quiet < QUIET {
            self.turn();
            let busy = self.store.as_ref().is_some_and(|store| store.under_way() > 0);
            let now = self.pulse();
            quiet = if busy || now != before { 0 } else { quiet + 1 };
            before = now;
            if busy {
                // The ledger's writer is a thread of its own.
                std::thread::yield_now();
            }
        }
    }

    fn turn(&self) {
        self.echo.wait();
        for runtime in self.inside.iter().chain([&self.outside]) {
            runtime.block_on(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    /// Changes with everything that happens anywhere.
    fn pulse(&self) -> impl PartialEq {
        let tasks = |runtime: &Runtime| runtime.metrics().num_alive_tasks();
        let inside = self.inside.as_ref().map(tasks);
        let touches = self.store.as_ref().map(|store| store.touches());
        (self.cube.counters(), self.cube.held(), touches, inside, tasks(&self.outside))
    }

    /// Moves the clock on and lets everything run that this makes possible.
    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.cube.tick();
        self.settle();
    }

    /// Waits for the answer of a call, second by second. `None` if it never comes, because its warden died.
    pub(super) fn finish(&self, call: Call) -> Option<Answer> {
        for _ in 0..PATIENCE {
            self.settle();
            if call.0.is_finished() {
                return self.answer(call);
            }
            if self.is_dead() || !self.is_up() {
                return None;
            }
            self.advance(Duration::from_secs(1));
        }
        panic!("a call was not answered in {PATIENCE} seconds");
    }

    /// The answer of a call that has ended; `None` if none came.
    pub(super) fn answer(&self, call: Call) -> Option<Answer> {
        self.outside.block_on(call.0).unwrap().ok()
    }

    /// Begins something inside the warden.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.inside.as_ref().unwrap().spawn(work)
    }

    /// What came of it, once it has ended.
    pub(super) fn outcome<T>(&self, work: JoinHandle<T>) -> T {
        assert!(work.is_finished(), "it goes on");
        self.inside.as_ref().unwrap().block_on(work).unwrap()
    }

    /// One call from begin to end.
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        self.finish(self.call(method, path, body))
    }

    /// The background task that looks at what is due, once; left alone while its last round is still under way.
    pub(super) fn tick_due(&mut self) {
        let tasks = Arc::clone(&self.warden().warden.tasks);
        self.tick("due", async move {
            tasks.tick_due().await.unwrap();
        });
    }

    /// The background task that takes in Cube's list, once.
    pub(super) fn tick_inventory(&mut self) {
        let tasks = Arc::clone(&self.warden().warden.tasks);
        self.tick("inventory", async move { tasks.tick_inventory().await.unwrap() });
    }

    /// One cycle of the collector.
    pub(super) fn tick_collector(&mut self) {
        let tasks = Arc::clone(&self.warden().warden.tasks);
        self.tick("inventory", async move {
            let _cycle = tasks.tick_collector().await.unwrap();
        });
    }

    fn tick(&mut self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let inside = self.inside.as_ref().unwrap();
        if let Some(last) = self.ticks.remove(name) {
            if !last.is_finished() {
                self.ticks.insert(name, last);
                return;
            }
            inside.block_on(last).unwrap();
        }
        self.ticks.insert(name, inside.spawn(work));
        self.settle();
    }

    /// Lets the reconciler work past every horizon: densely at first, then every minute, for half an hour.
    pub(super) fn reconcile(&mut self) {
        let steps = [(5, 12), (60, 30)];
        for (seconds, count) in steps {
            for _ in 0..count {
                self.tick_due();
                if seconds == 60 {
                    self.tick_inventory();
                }
                self.advance(Duration::from_secs(seconds));
            }
        }
        self.tick_due();
    }

    /// Every entry that holds a slot.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.inside.as_ref().unwrap().block_on(self.warden().entries())
    }

    /// The entry of a sandbox.
    pub(super) fn entry_of(&self, sandbox: &str) -> Option<Entry> {
        let ledger = &self.warden().warden.ledger;
        let id = SandboxId::new(sandbox).unwrap();
        self.inside.as_ref().unwrap().block_on(ledger.find(&id)).unwrap()
    }

    /// The ids of all sandboxes that exist.
    pub(super) fn alive(&self) -> BTreeSet<String> {
        self.cube.alive().into_iter().map(|one| one.id).collect()
    }

    /// I2 and I4 at any moment: every sandbox that the warden asked for holds a slot, and is traced to its owner by its metadata alone
    /// and by the ledger alone.
    pub(super) fn check_counted(&self, what: &str) {
        let ledger = &self.warden().warden.ledger;
        for one in self.cube.alive() {
            let label = |key: &str| one.metadata.get(key).map(String::as_str).unwrap_or_default();
            assert_eq!(label("managed_by"), "cubewarden", "{what}: {one:?}");
            assert_eq!(label("cw_ledger"), ledger.id().as_str(), "{what}");
            let marker = Marker::new(label("cw_marker")).unwrap();
            let entry = self.inside.as_ref().unwrap().block_on(ledger.entry(&marker)).unwrap();
            let entry = entry.unwrap_or_else(|| panic!("{what}: no entry for {one:?}"));
            assert!(entry.charged(), "{what}: {} is alive and holds no slot: {:?}", one.id, entry.state);
            assert_eq!(entry.owner.as_str(), label("owner_id"), "{what}");
            let bucket = format!("{}/{}", label("namespace"), label("env"));
            assert_eq!(entry.bucket.to_string(), bucket, "{what}");
        }
    }

    /// After the reconciler has run: slots = entries = sandboxes, all of them living, each with its owner.
    pub(super) fn check_settled(&self, what: &str) {
        self.check_counted(what);
        let entries = self.entries();
        let held = self.inside.as_ref().unwrap().block_on(self.warden().held());
        assert_eq!(held, entries.len() as u64, "{what}: slots and entries");
        for entry in &entries {
            assert!(matches!(entry.state, State::Live(_)), "{what}: not settled: {entry:?}");
        }
        let of_entries = entries.iter().filter_map(|entry| Some(entry.sandbox.as_ref()?.to_string()));
        let of_entries: BTreeSet<String> = of_entries.collect();
        assert_eq!(of_entries.len(), entries.len(), "{what}: one sandbox, one entry");
        assert_eq!(of_entries, self.alive(), "{what}: entries and sandboxes");
        let now = self.clock.now();
        let busy = entries.iter().find(|entry| entry.busy(now));
        assert!(busy.is_none(), "{what}: an operation never ended: {busy:?}");
    }
}
