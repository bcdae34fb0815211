//! The background tasks, tick by tick, on a clock that the test moves.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod listings;
mod markers;

use std::time::Duration;

use cubewarden::rules::entry::Entry;
use cubewarden::time::{ManualClock, UnixMillis};

use crate::cube::{CubeSim, Profile};
use crate::support::warden::{self, Running};

const SECOND: Duration = Duration::from_secs(1);
/// Never ends by itself.
const ENDLESS: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":360000}"#;

/// A Cube and a warden before it, both on the test's clock, in open mode and without background tasks.
struct World {
    cube: CubeSim,
    warden: Running,
}

async fn world() -> World {
    configured("").await
}

async fn configured(config: &str) -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().profile(Profile::V070).clock(clock.clone()).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
    World { cube, warden }
}

impl World {
    fn skip(&self, seconds: u32) {
        self.cube.advance(seconds * SECOND).unwrap();
    }

    async fn due(&self) {
        self.warden.warden.tasks.tick_due().await.unwrap();
    }

    async fn inventory(&self) {
        self.warden.warden.tasks.tick_inventory().await.unwrap();
    }

    async fn create(&self) -> String {
        self.warden.caller().create(ENDLESS).await
    }

    async fn delete(&self, id: &str) {
        assert_eq!(self.warden.caller().delete(&format!("/sandboxes/{id}")).await.status, 204);
    }

    /// The entry of a sandbox.
    async fn entry(&self, id: &str) -> Option<Entry> {
        self.warden.warden.ledger.find(&cubewarden::ids::SandboxId::new(id).unwrap()).await.unwrap()
    }

    /// How often Cube was asked this, as `METHOD /path` without the query.
    fn times(&self, line: &str) -> usize {
        let requests = self.cube.requests();
        let asked = requests
            .iter()
            .map(|seen| format!("{} {}", seen.head.method, seen.head.target.split('?').next().unwrap()));
        asked.filter(|asked| asked == line).count()
    }
}
