//! A Cube, perhaps a warden before it, and everybody who calls them, on one thread and one clock.
//!
//! How the clock is driven: everything runs on one runtime of one thread, which runs only while this file lets it. It lets it until
//! everything stands still (no request, no touch of the ledger, no task begun or ended, no answer heard for a few turns, each of
//! which waits for what the loopback still carries), then sets the clock to the next sleeper's time, at least [`GRAIN`] later, and
//! begins anew. So half an hour passes in seconds, and no length of it depends on how fast the machine is.
//! The warden is the real one with its own background tasks, which sleep on the same clock.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cubewarden::time::{Clock as _, ManualClock, UnixMillis};
use tokio::runtime::{Builder, Runtime};

use super::people::Tally;
use crate::crash::plain::Plain;
use crate::crash::world::Echo;
use crate::cube::{CubeSim, Profile};
use crate::support::faulty_store::FaultyStore;
use crate::support::http::Caller;
use crate::support::warden::{self, Running};

/// Sleepers less than this apart are woken together: a thousand small steps would show nothing more.
const GRAIN: Duration = Duration::from_millis(100);
/// Idle connections age by the machine's clock, which must not matter here: they are kept.
const CONFIG: &str = "[upstream]\nidle = \"1h\"\nwrite_idle = \"1h\"\n";
/// So many turns without a sign of life, and everything stands still.
const QUIET: usize = 3;

/// See the head of the file.
pub(super) struct Stage {
    pub(super) clock: ManualClock,
    pub(super) cube: CubeSim,
    pub(super) tally: Arc<Tally>,
    warden: Option<Running>,
    store: Option<Arc<FaultyStore>>,
    echo: Echo,
    runtime: Runtime,
}

impl Stage {
    /// An empty Cube of that summer, and nobody.
    pub(super) fn new(seed: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let clock = ManualClock::at(UnixMillis(1_781_740_800_000));
        let builder = CubeSim::builder().profile(Profile::V051).clock(clock.clone()).seed(seed);
        let cube = runtime.block_on(builder.start()).unwrap();
        let (tally, echo) = (Arc::new(Tally::default()), Echo::new());
        Self { clock, cube, tally, warden: None, store: None, echo, runtime }
    }

    /// A warden before it with default settings, so in enforce mode and without limits, and with its background tasks.
    pub(super) fn start_warden(&mut self, seed: u64) {
        let store = FaultyStore::wrap(Arc::new(Plain::new(self.clock.clone())));
        let builder = warden::before(&self.cube.url()).clock(&self.clock).config(CONFIG);
        let builder = builder.store(Arc::clone(&store) as _).seed(seed);
        self.store = Some(store);
        self.warden = Some(self.runtime.block_on(builder.start()));
        self.settle();
    }

    /// The warden, where there is one.
    pub(super) fn warden(&self) -> &Running {
        self.warden.as_ref().unwrap()
    }

    /// Somebody who calls the warden, or Cube itself where there is none.
    pub(super) fn caller(&self) -> Caller {
        self.warden.as_ref().map_or_else(|| Caller::new(&self.cube.url()), Running::caller)
    }

    /// Somebody begins to live on this stage, for ever.
    pub(super) fn enters(&self, life: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(life));
    }

    /// Asks for something that needs no time.
    pub(super) fn ask<T>(&self, question: impl Future<Output = T>) -> T {
        self.runtime.block_on(question)
    }

    /// Lets so much time pass.
    pub(super) fn pass(&self, length: Duration) {
        let end = self.clock.now().plus(length);
        self.settle();
        while self.clock.now() < end {
            let soonest = self.clock.now().plus(GRAIN);
            self.clock.set(self.clock.next_due().unwrap_or(end).max(soonest).min(end));
            self.cube.tick();
            self.settle();
        }
    }

    /// Lets everything run that can without the clock.
    fn settle(&self) {
        let mut quiet = 0;
        let mut before = self.pulse();
        while quiet < QUIET {
            self.echo.wait();
            self.runtime.block_on(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
            let now = self.pulse();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
        }
    }

    /// Changes with everything that happens anywhere.
    fn pulse(&self) -> impl PartialEq + use<> {
        let touches = self.store.as_ref().map(|store| store.touches());
        let heard = self.tally.heard.load(Relaxed);
        (self.cube.counters(), touches, self.runtime.metrics().num_alive_tasks(), heard)
    }
}
