//! The handle that tests hold: starts, steers and asks a simulator. Dropping it stops it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use cubewarden::time::ManualClock;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::faults::Rule;
use super::model::{OnTimeout, Plant, Sandbox, State, Traffic};
use super::profile::Profile;
use super::server::{Seen, Shared, listen, sweep};
use super::{admin, routes};

/// A running simulator; stops when dropped.
pub(crate) struct CubeSim {
    handle: Handle,
    tasks: Vec<JoinHandle<()>>,
}

/// All verbs of a running simulator; clones steer the same one.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    router: Router,
    addr: SocketAddr,
    admin: Option<SocketAddr>,
    manual: Option<ManualClock>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

/// A sandbox that exists, as the simulator knows it (not as an answer shows it).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Alive {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) template: String,
    pub(crate) state: State,
    /// As the client gave it, without system labels.
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) on_timeout: OnTimeout,
    pub(crate) auto_resume: bool,
    /// What the control plane shows, in Unix milliseconds.
    pub(crate) end_at_ms: Option<u64>,
    /// When the idle window really closes.
    pub(crate) deadline_ms: Option<u64>,
}

impl From<&Sandbox> for Alive {
    fn from(one: &Sandbox) -> Self {
        Self {
            id: one.id.clone(),
            host: one.host.clone(),
            template: one.template.clone(),
            state: one.state,
            metadata: (*one.labels).clone(),
            on_timeout: one.on_timeout,
            auto_resume: one.auto_resume,
            end_at_ms: one.end_at().map(|at| at.0),
            deadline_ms: one.deadline().map(|at| at.0),
        }
    }
}

impl CubeSim {
    /// Sets a simulator going on listeners that are already bound.
    pub(super) fn run(
        shared: Shared,
        manual: Option<ManualClock>,
        listener: TcpListener,
        door: Option<TcpListener>,
    ) -> io::Result<Self> {
        let shared = Arc::new(shared);
        let admin = door.as_ref().map(TcpListener::local_addr).transpose()?;
        let handle = Handle(Arc::new(Inner {
            router: routes::router(&shared),
            addr: listener.local_addr()?,
            admin,
            manual,
            listening: Mutex::new(None),
            shared: Arc::clone(&shared),
        }));
        handle.listen_on(listener);
        let mut tasks = vec![tokio::spawn(sweep(shared))];
        tasks.extend(door.map(|door| tokio::spawn(admin::serve(handle.clone(), door))));
        Ok(Self { handle, tasks })
    }
}

impl Deref for CubeSim {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for CubeSim {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(listening) = self.handle.take_listening() {
            listening.abort();
        }
    }
}

/// Where it is, and its life.
impl Handle {
    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    /// The same as a base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Where the side door is, if it is open.
    pub(crate) fn admin_addr(&self) -> Option<SocketAddr> {
        self.0.admin
    }

    /// The version.
    pub(crate) fn profile(&self) -> Profile {
        self.0.shared.profile
    }

    /// The clock, if it is one that can be moved.
    pub(crate) fn clock(&self) -> Option<&ManualClock> {
        self.0.manual.as_ref()
    }

    /// Stops listening and closes all connections; state and side door stay.
    pub(crate) async fn stop(&self) {
        if let Some(listening) = self.take_listening() {
            listening.abort();
            // It ends by being aborted.
            let _aborted = listening.await;
        }
    }

    /// Listens again on the same address after [`Handle::stop`].
    ///
    /// # Errors
    /// If somebody took the address meanwhile.
    pub(crate) async fn revive(&self) -> io::Result<()> {
        self.listen_on(TcpListener::bind(self.addr()).await?);
        Ok(())
    }

    /// A Cube API that was restarted: all connections lost, state kept.
    ///
    /// # Errors
    /// If somebody took the address meanwhile.
    pub(crate) async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        self.revive().await
    }

    fn listen_on(&self, listener: TcpListener) {
        let task = tokio::spawn(listen(Arc::clone(&self.0.shared), self.0.router.clone(), listener));
        *self.0.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    fn take_listening(&self) -> Option<JoinHandle<()>> {
        self.0.listening.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Faults.
impl Handle {
    /// One more fault in force; its number.
    pub(crate) fn fault(&self, rule: impl Into<Rule>) -> u64 {
        let number = self.0.shared.faults().add(rule.into());
        self.apply_world();
        number
    }

    /// Takes one fault back.
    pub(crate) fn remove_fault(&self, number: u64) {
        self.0.shared.faults().remove(number);
        self.apply_world();
    }

    /// Takes all faults back. Requests that hang or are held stay so; see [`Handle::release`].
    pub(crate) fn clear_faults(&self) {
        self.0.shared.faults().clear();
        self.apply_world();
    }

    /// The rules in force.
    pub(crate) fn faults(&self) -> Vec<(u64, Rule)> {
        self.0.shared.faults().rules().to_vec()
    }

    /// How many requests the fault has struck.
    pub(crate) fn struck(&self, number: u64) -> u64 {
        self.0.shared.faults().struck(number)
    }

    /// How many requests are held now.
    pub(crate) fn held(&self) -> usize {
        *self.0.shared.held.borrow()
    }

    /// Ready once at least `count` requests are held.
    pub(crate) async fn until_held(&self, count: usize) {
        let mut held = self.0.shared.held.subscribe();
        // The sender lives as long as the simulator.
        let _there = held.wait_for(|held| *held >= count).await;
    }

    /// Lets all requests go that are held now.
    pub(crate) fn release(&self) {
        self.0.shared.releases.send_modify(|released| *released += 1);
    }

    fn apply_world(&self) {
        let (world, idle) = {
            let faults = self.0.shared.faults();
            (faults.world(), faults.idle_close())
        };
        self.0.shared.cube().set_world(world);
        self.0.shared.idle_close.send_replace(idle);
    }
}

/// The sandboxes.
impl Handle {
    /// Every sandbox that exists now, paused ones too, by id.
    pub(crate) fn alive(&self) -> Vec<Alive> {
        self.tick();
        self.0.shared.cube().sandboxes().map(Alive::from).collect()
    }

    /// One of them.
    pub(crate) fn sandbox(&self, id: &str) -> Option<Alive> {
        self.tick();
        self.0.shared.cube().sandbox(id).map(Alive::from)
    }

    /// Somebody spoke to the sandbox itself.
    pub(crate) fn traffic(&self, id: &str) -> Traffic {
        self.tick();
        let traffic = self.0.shared.cube().traffic(id, self.0.shared.clock.now());
        self.0.shared.stirred.notify_one();
        traffic
    }

    /// What `CubeProxy` remembers of traffic, in Unix milliseconds.
    pub(crate) fn last_active(&self, since: u64) -> BTreeMap<String, u64> {
        let cube = self.0.shared.cube();
        let spoken = cube.sandboxes().filter_map(|one| Some((one.id.clone(), one.spoken_to?.0)));
        spoken.filter(|(_, at)| *at > since).collect()
    }

    /// The present, as the simulator's clock has it.
    pub(crate) fn now(&self) -> u64 {
        self.0.shared.clock.now().0
    }

    /// Lets everything happen whose time has come: sweeper, late work, pauses, resurrections.
    pub(crate) fn tick(&self) {
        self.0.shared.settle();
    }

    /// Puts a sandbox there; its id.
    pub(crate) fn plant(&self, plant: Plant) -> String {
        let shared = &self.0.shared;
        let id = shared.cube().plant(plant, shared.clock.now(), &shared.chance);
        shared.stirred.notify_one();
        id
    }

    /// Puts `count` sandboxes there that never time out, each with this metadata; their ids.
    pub(crate) fn seed_sandboxes(&self, count: usize, metadata: &BTreeMap<String, String>) -> Vec<String> {
        let one = || Plant { metadata: metadata.clone(), ..Plant::default() };
        (0..count).map(|_| self.plant(one())).collect()
    }

    /// Puts so many writes on the write path that nobody waits for; it gives them up one after another.
    pub(crate) fn overrun(&self, writes: u32) {
        self.0.shared.cube().overrun(writes, self.0.shared.clock.now());
        self.0.shared.stirred.notify_one();
    }

    /// How many writes hold the write path now, whether or not anybody waits for them.
    pub(crate) fn writes_under_way(&self) -> usize {
        self.tick();
        self.0.shared.cube().writes_under_way()
    }

    /// Puts a sandbox in a state by force; false if there is none.
    pub(crate) fn set_state(&self, id: &str, state: State) -> bool {
        self.0.shared.cube().set_state(id, state)
    }

    /// A sandbox dies by itself; false if there is none.
    pub(crate) fn let_die(&self, id: &str) -> bool {
        self.0.shared.cube().let_die(id)
    }

    /// All sandboxes, snapshots and volumes are lost, and late work with them.
    pub(crate) fn forget_everything(&self) {
        let shared = &self.0.shared;
        shared.cube().forget_everything(shared.clock.now(), &shared.chance);
    }
}

/// What has happened.
impl Handle {
    /// The requests received, oldest first, as far as remembered.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.0.shared.seen().iter().cloned().collect()
    }

    /// Forgets the requests seen so far.
    pub(crate) fn forget_requests(&self) {
        self.0.shared.seen().clear();
    }

    /// The greatest number of sandboxes ever alive or on their way at once, late ones included, among those whose metadata has all
    /// `wanted` pairs.
    pub(crate) fn high_water(&self, wanted: &[(&str, &str)]) -> usize {
        self.tick();
        self.0.shared.cube().high_water(wanted)
    }

    /// Requests and connections so far.
    pub(crate) fn counters(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
        (load(&self.0.shared.requests), load(&self.0.shared.connections))
    }

    /// Moves the clock on and lets happen what comes due; `None` if the clock is the machine's.
    pub(crate) fn advance(&self, by: Duration) -> Option<()> {
        self.clock()?.advance(by);
        self.tick();
        Some(())
    }
}
