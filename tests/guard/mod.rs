//! The guard of the write path, over HTTP, before a simulator whose writes fail; on a clock that the test moves.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blocked;
mod creates;
mod deletes;
mod healthy;
mod seen;

use std::time::Duration;

use cubewarden::rules::breaker::State;
use cubewarden::rules::write_path::View;
use cubewarden::time::{ManualClock, UnixMillis};
use tokio::task::JoinHandle;

use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile};
use crate::support::http::Answer;
use crate::support::warden::{self, Running};

const SECOND: Duration = Duration::from_secs(1);
/// Never ends by itself.
const BODY: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":360000}"#;

/// A Cube and a warden before it, both on the test's clock, in open mode and without background tasks.
struct World {
    cube: CubeSim,
    warden: Running,
}

async fn world(config: &str) -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().profile(Profile::V070).clock(clock.clone()).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
    World { cube, warden }
}

/// What `CubeMaster` answers without an answer of its own: a failure.
fn timed_out() -> Fault {
    Fault::Refuse { status: 408, body: String::new(), retry_after: None }
}

impl World {
    /// Whatever was ready has run: all of this runs on one thread, and what was asked later was answered.
    async fn settle(&self) {
        for _ in 0..3 {
            assert_eq!(self.warden.caller().get("/health").await.status, 200);
        }
    }

    /// So long passes, and the tasks do what they do each second.
    async fn pass(&self, seconds: u32) {
        self.cube.advance(seconds * SECOND).unwrap();
        self.settle().await;
        self.tick().await;
        self.settle().await;
    }

    async fn tick(&self) {
        self.warden.warden.tasks.tick_due().await.unwrap();
        self.warden.warden.tasks.tick_write_path().await.unwrap();
    }

    /// A call that is under way while the test goes on.
    fn begin(&self, method: &'static str, path: String, body: Option<&'static str>) -> JoinHandle<Answer> {
        let caller = self.warden.caller();
        tokio::spawn(async move { caller.call(method, &path, body).await })
    }

    async fn create(&self) -> Answer {
        self.warden.caller().post("/sandboxes", BODY).await
    }

    /// Creates that end at once, until the breaker of creates is open.
    async fn break_creates(&self) {
        let rule = self.cube.fault(timed_out().on(Kind::Create));
        for _ in 0..5 {
            assert_eq!(self.create().await.status, 504);
        }
        self.cube.remove_fault(rule);
        assert!(matches!(self.view().creates, State::Open { .. }), "{:?}", self.view());
    }

    fn view(&self) -> View {
        self.warden.warden.cube.guard().view()
    }

    /// How many creates Cube has seen.
    fn creates_sent(&self) -> usize {
        let seen = self.cube.requests();
        seen.iter()
            .filter(|seen| seen.head.method == "POST" && seen.head.target.ends_with("/sandboxes"))
            .count()
    }
}

/// Creates are not sent: 503, says when to come again, and that retrying at once does harm.
#[track_caller]
fn shut(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.text("error_code"), "WRITE_PATH_OPEN");
    assert_eq!(answer.header("should-retry"), Some("false"));
    let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=180).contains(&seconds), "{seconds}");
}
