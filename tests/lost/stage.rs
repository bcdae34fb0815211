//! Two wardens on one Redis before one Cube, all on one clock that the test moves; and what must be true in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cubewarden::ledger::Standing;
use cubewarden::rules::entry::Entry;
use cubewarden::time::{Clock as _, ManualClock, UnixMillis, WallClock};

use crate::cube::CubeSim;
use crate::support::http::Answer;
use crate::support::redis::RedisServer;
use crate::support::warden::{self, Running};

pub(super) const START: UnixMillis = UnixMillis(1_800_000_000_000);
pub(super) const BODY: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":3000}"#;
/// Eight slots, and nobody waits for one.
pub(super) const CONFIG: &str = "[admission]\nwait = \"0s\"\n[bucket_defaults]\nlimit = 8";

/// See the head of the file.
pub(super) struct Stage {
    pub(super) server: RedisServer,
    pub(super) clock: ManualClock,
    pub(super) cube: CubeSim,
}

impl Stage {
    pub(super) async fn on(server: RedisServer) -> Self {
        let clock = ManualClock::at(START);
        let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
        Self { server, clock, cube }
    }

    pub(super) async fn warden(&self) -> Running {
        let store = self.server.store_at(&self.clock).await;
        let plan = warden::before(&self.cube.url()).config(CONFIG).clock(&self.clock);
        plan.store(store).without_tasks().start().await
    }

    /// Two that know of each other, and that have taken in what Cube lists.
    pub(super) async fn two(&self) -> [Running; 2] {
        let two = [self.warden().await, self.warden().await];
        for one in &two {
            one.warden.tasks.tick_inventory().await.unwrap();
            one.warden.tasks.tick_beat().await.unwrap();
        }
        two
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.cube.tick();
    }

    /// A client of Redis that looks behind the wardens' backs.
    pub(super) fn tell_redis(&self, words: &[&str]) {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).exec(&mut self.server.connection()).unwrap();
    }

    /// Each sandbox that lives has one entry, each entry its sandbox, and no slot is held for anything else.
    #[track_caller]
    pub(super) fn balanced<'a>(
        &'a self,
        warden: &'a Running,
        wanted: usize,
    ) -> impl Future<Output = BTreeMap<String, Entry>> + Send + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let entries = warden.entries().await;
            let named = |entry: &Entry| Some((entry.sandbox.as_ref()?.to_string(), entry.clone()));
            let by_sandbox: BTreeMap<String, Entry> = entries.iter().filter_map(named).collect();
            let alive: BTreeSet<String> = self.cube.alive().into_iter().map(|alive| alive.id).collect();
            let of_ledger: BTreeSet<String> = by_sandbox.keys().cloned().collect();
            assert_eq!(of_ledger, alive, "{caller}: {entries:#?}");
            assert_eq!((entries.len(), warden.held().await), (wanted, wanted as u64), "{caller}");
            by_sandbox
        }
    }

    /// How many DELETEs Cube has seen.
    pub(super) fn deletes(&self) -> usize {
        self.cube.requests().iter().filter(|seen| seen.head.method == "DELETE").count()
    }
}

/// Carries the rebuild on at each warden until all are sound.
pub(super) async fn rebuilt(wardens: &[&Running]) {
    for _ in 0..4 {
        for one in wardens {
            one.warden.tasks.tick_rebuild().await.unwrap();
        }
    }
    for one in wardens {
        assert_eq!(one.warden.ledger.standing(), Standing::Sound);
    }
}

#[track_caller]
pub(super) fn unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.text("error_code"), "LEDGER_UNAVAILABLE");
    assert!(
        answer.text("message").contains("lost") && answer.text("message").contains("rebuilt"),
        "{answer:?}"
    );
}

/// A create is refused, and nothing else, until the warden has found out why: the way to Redis may be broken first.
pub(super) async fn finds_out(warden: &Running) {
    for _ in 0..500 {
        let answer = warden.caller().post("/sandboxes", BODY).await;
        assert_eq!((answer.status.as_u16(), answer.text("error_code").as_str()), (503, "LEDGER_UNAVAILABLE"));
        if answer.text("message").contains("rebuilt") {
            return unavailable(&answer);
        }
        WallClock.sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not find out");
}

/// The value of a series without labels.
pub(super) async fn metric(warden: &Running, name: &str) -> String {
    let request = http::Request::get("/metrics").body(()).unwrap().into_parts().0;
    let text = warden.warden.admin.answer(&request).await.into_body();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// What `/readyz` says of the ledger.
pub(super) async fn state(warden: &Running) -> String {
    let request = http::Request::get("/readyz").body(()).unwrap().into_parts().0;
    let body = warden.warden.admin.answer(&request).await.into_body();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    body["ledger"]["state"].as_str().unwrap().to_owned()
}

/// The decisions of a kind.
pub(super) async fn decisions(warden: &Running, kind: &str) -> Vec<serde_json::Value> {
    let all = warden.warden.ledger.decisions(0, 10_000).await.unwrap();
    let all = all.into_iter().map(|(_, text)| serde_json::from_str::<serde_json::Value>(&text).unwrap());
    all.filter(|decision| decision["decision"] == kind).collect()
}
