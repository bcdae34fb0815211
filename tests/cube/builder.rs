//! What a simulator is started with.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use cubewarden::time::{Chance, Clock, ManualClock, WallClock};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use super::credentials::{Lock, RateLimit};
use super::faults::{Fault, Faults};
use super::latency::Latency;
use super::model::{Blueprint, Cube};
use super::profile::Profile;
use super::server::Shared;
use super::sim::CubeSim;
use super::write_path::WritePath;

/// Requests remembered unless said otherwise.
const MEMORY: usize = 20_000;

/// What a simulator is started with.
pub(crate) struct Builder {
    profile: Profile,
    manual: Option<ManualClock>,
    seed: u64,
    lock: Lock,
    rate: Option<u64>,
    hosts: usize,
    latency: Latency,
    write_path: Option<WritePath>,
    memory: usize,
    listen: SocketAddr,
    admin: Option<SocketAddr>,
}

impl CubeSim {
    /// A v0.7.0 on a free port with three hosts, no key, no latency, on the machine's clock.
    pub(crate) fn builder() -> Builder {
        Builder {
            profile: Profile::V070,
            manual: None,
            seed: 1,
            lock: Lock::Open,
            rate: None,
            hosts: 3,
            latency: Latency::None,
            write_path: None,
            memory: MEMORY,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin: None,
        }
    }
}

impl Builder {
    /// The version.
    pub(crate) fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// A clock that the test moves.
    pub(crate) fn clock(mut self, clock: ManualClock) -> Self {
        self.manual = Some(clock);
        self
    }

    /// Same seed, same requests, same bytes.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Cube's one static key.
    pub(crate) fn api_key(self, key: &str) -> Self {
        self.lock(Lock::Key(key.to_owned()))
    }

    /// Any kind of authentication.
    pub(crate) fn lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// Calls a second and key on sandbox routes; like `CubeAPI`, only where there is a lock.
    pub(crate) fn rate_limit(mut self, per_second: u64) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// How many hosts: `node-0` and so on.
    pub(crate) fn hosts(mut self, hosts: usize) -> Self {
        self.hosts = hosts;
        self
    }

    /// Whether answers take time.
    pub(crate) fn latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// A write path whose capacity falls with residents and writes under way; off unless said. The same as the fault of that name,
    /// so clearing the faults heals it.
    pub(crate) fn write_path(mut self, path: WritePath) -> Self {
        self.write_path = Some(path);
        self
    }

    /// How many requests are remembered; 0 also stops the counting behind `high_water`, for long load runs.
    pub(crate) fn memory(mut self, requests: usize) -> Self {
        self.memory = requests;
        self
    }

    /// Where to listen; a free port of the loopback if not said.
    pub(crate) fn listen(mut self, addr: SocketAddr) -> Self {
        self.listen = addr;
        self
    }

    /// Opens the side door there.
    pub(crate) fn admin(mut self, addr: SocketAddr) -> Self {
        self.admin = Some(addr);
        self
    }

    /// Starts listening.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub(crate) async fn start(self) -> io::Result<CubeSim> {
        let listener = TcpListener::bind(self.listen).await?;
        let door = match self.admin {
            Some(admin) => Some(TcpListener::bind(admin).await?),
            None => None,
        };
        let (manual, write_path) = (self.manual.clone(), self.write_path);
        let sim = CubeSim::run(self.shared(), manual, listener, door)?;
        if let Some(path) = write_path {
            sim.fault(Fault::StrainedWrites(path));
        }
        Ok(sim)
    }

    fn shared(self) -> Shared {
        let clock: Arc<dyn Clock> = match self.manual {
            Some(manual) => Arc::new(manual),
            None => Arc::new(WallClock),
        };
        let chance = Chance::seeded(self.seed);
        let blueprint = Blueprint {
            profile: self.profile,
            hosts: self.hosts,
            domain: "cube.test".to_owned(),
            counting: self.memory > 0,
        };
        let cube = Cube::new(blueprint, clock.now(), &chance);
        let locked = self.lock != Lock::Open;
        Shared {
            profile: self.profile,
            lock: self.lock,
            latency: self.latency,
            memory: self.memory,
            cube: Mutex::new(cube),
            faults: Mutex::new(Faults::default()),
            rate: self.rate.filter(|_| locked).map(|rate| Mutex::new(RateLimit::new(rate))),
            seen: Mutex::new(VecDeque::new()),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            stirred: Notify::new(),
            idle_close: watch::Sender::new(None),
            held: watch::Sender::new(0),
            releases: watch::Sender::new(0),
            clock,
            chance,
        }
    }
}
