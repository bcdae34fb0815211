//! The collector: incidents replayed hour by hour, races with the sweep, and what must never happen in between.
//!
//! `old` is how the system of the article judged: each replay shows first that its rule would have left things as they were.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alive;
mod incidents;
mod leaders;
mod old;
mod races;
mod scale;
mod told;
mod traffic;

use std::time::Duration;

use cubewarden::ids::SandboxId;
use cubewarden::rules::entry::Entry;
use cubewarden::tasks::Cycle;
use cubewarden::time::{Clock as _, ManualClock, UnixMillis};

use crate::cube::{CubeSim, Profile};
use crate::support::http::Answer;
use crate::support::warden::{self, Running};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const TEMPLATE: &str = "tpl-000000000000000000000001";
/// Nobody waits for a slot: the clock stands still while they would. Caps are in nobody's way.
const PLAIN: &str = "[admission]\nwait = \"0s\"\n[adopt]\nbucket = \"none\"\n\
                     [collector]\nmax_kills_per_cycle = 1000\nmax_kills_per_bucket = 1000\n";

/// A Cube and a warden before it, both on the test's clock; the tasks run when the test says so.
struct World {
    clock: ManualClock,
    cube: CubeSim,
    warden: Running,
    config: String,
    cycle: Duration,
}

/// Cycles a minute apart.
async fn world(profile: Profile, config: &str) -> World {
    paced(profile, MINUTE, config).await
}

/// Cycles so far apart: what takes days is replayed in larger steps.
async fn paced(profile: Profile, cycle: Duration, config: &str) -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().profile(profile).clock(clock.clone()).start().await.unwrap();
    let seconds = cycle.as_secs();
    let times = format!("cycle = \"{seconds}s\"\nnewborn_grace = \"{}s\"\n", seconds.max(180));
    let config = format!("{PLAIN}{times}{config}");
    let warden = warden::before(&cube.url()).config(&config).clock(&clock).without_tasks().start().await;
    World { clock, cube, warden, config, cycle }
}

impl World {
    /// What the tasks do about now.
    async fn tick(&self) -> Cycle {
        self.cube.tick();
        self.settle().await;
        let cycle = self.warden.warden.tasks.tick_collector().await.unwrap();
        self.settle().await;
        cycle
    }

    /// What is due, and the kills to their end.
    async fn settle(&self) {
        self.warden.warden.tasks.tick_due().await.unwrap();
        self.warden.warden.finish().await;
    }

    /// So many cycles, each a cycle's time after the one before.
    async fn cycles(&self, count: usize) {
        for _ in 0..count {
            self.cube.advance(self.cycle).unwrap();
            assert_eq!(self.tick().await, Cycle::Done);
        }
    }

    /// The same warden goes by more configuration from now on.
    fn reload(&self, more: &str) {
        let config = format!("{}{more}", self.config);
        let settings = warden::before(&self.cube.url()).config(&config).settings();
        self.warden.warden.reload(&settings);
    }

    async fn create(&self, timeout: u32, on_timeout: &str) -> String {
        self.warden.caller().create(&body(timeout, on_timeout)).await
    }

    async fn try_create(&self) -> Answer {
        self.warden.caller().post("/sandboxes", &body(300, "kill")).await
    }

    async fn lease(&self, bucket: &str, run: &str, timeout: u32) -> Answer {
        let (namespace, env) = bucket.split_once('/').unwrap();
        let body = format!(
            r#"{{"namespace":"{namespace}","env":"{env}","project":"p","run":"{run}","template_id":"{TEMPLATE}","timeout":{timeout}}}"#
        );
        let answer = self.warden.caller().post("/v1/leases", &body).await;
        assert!(answer.status.is_success(), "{answer:?}");
        answer
    }

    async fn beat(&self, lease: &Answer) -> u16 {
        let body =
            format!(r#"{{"owner_id":"{}","lease_id":"{}"}}"#, lease.text("owner_id"), lease.text("lease_id"));
        self.warden.caller().post("/v1/lease-heartbeats", &body).await.status.as_u16()
    }

    async fn entry(&self, id: &str) -> Entry {
        let id = SandboxId::new(id).unwrap();
        self.warden.warden.ledger.find(&id).await.unwrap().unwrap()
    }

    fn is_there(&self, id: &str) -> bool {
        self.cube.sandbox(id).is_some()
    }

    /// How often Cube was asked this by a method and an ending of the path.
    fn asked(&self, method: &str, ending: &str) -> usize {
        let requests = self.cube.requests();
        requests
            .iter()
            .filter(|seen| seen.head.method == method && seen.head.target.ends_with(ending))
            .count()
    }

    /// What the admin interface answers.
    async fn admin(&self, path: &str) -> serde_json::Value {
        let head = http::Request::builder().uri(path).body(()).unwrap().into_parts().0;
        let answer = self.warden.warden.admin.answer(&head).await;
        assert_eq!(answer.status(), 200, "{path}: {answer:?}");
        serde_json::from_slice(answer.body()).unwrap_or(serde_json::Value::Null)
    }

    /// The value of a series of the metrics.
    async fn metric(&self, series: &str) -> f64 {
        let head = http::Request::builder().uri("/metrics").body(()).unwrap().into_parts().0;
        let answer = self.warden.warden.admin.answer(&head).await;
        let text = String::from_utf8(answer.body().to_vec()).unwrap();
        let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
        line.unwrap_or_else(|| panic!("no {series}")).rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    fn now(&self) -> UnixMillis {
        self.clock.now()
    }
}

fn body(timeout: u32, on_timeout: &str) -> String {
    format!(
        r#"{{"templateID":"{TEMPLATE}","timeout":{timeout},"lifecycle":{{"onTimeout":"{on_timeout}","autoResume":true}}}}"#
    )
}
