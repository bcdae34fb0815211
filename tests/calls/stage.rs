//! What the stories share: a Cube, a warden before it, its tenants, and the books that must balance when a story ends.
//!
//! Must stay true: on a manual clock nothing moves but by the test's hand; what is waited for is a condition, never a while.

use std::collections::BTreeSet;
use std::time::Duration;

use cubewarden::time::{Clock as _, ManualClock, UnixMillis, WallClock};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cube::{CubeSim, Profile};
use crate::support::http::{Answer, Caller};
use crate::support::{until, warden};

/// A create that asks for nothing special.
pub(super) const BODY: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":300}"#;
/// Nobody's id, well formed.
pub(super) const NOBODY: &str = "00000000000000000000000000000000";
/// No waiting: a full bucket is said at once.
pub(super) const NO_WAIT: &str = "[admission]\nwait = \"0s\"\n";

/// A Cube and a warden before it.
pub(super) struct Stage {
    pub(super) cube: CubeSim,
    pub(super) warden: warden::Running,
    pub(super) clock: ManualClock,
}

/// A body with these metadata.
pub(super) fn body_with(metadata: &Value) -> String {
    json!({"templateID": "tpl-000000000000000000000001", "timeout": 300, "metadata": metadata}).to_string()
}

/// One bucket with a limit.
pub(super) fn limit_of(bucket: &str, limit: u32) -> String {
    let (namespace, env) = bucket.split_once('/').unwrap();
    format!("[[bucket]]\nnamespace = \"{namespace}\"\nenv = \"{env}\"\nlimit = {limit}\n")
}

/// Tenant a (buckets a/prod and a/dev, key `e2b_aa`) and tenant b (b/prod, key `e2b_bb`).
pub(super) fn two_tenants() -> String {
    let one = |name: &str, key: &str, buckets: &str| {
        let hash = hex::encode(Sha256::digest(key));
        format!("[[tenant]]\nname = \"{name}\"\nkeys_sha256 = [\"{hash}\"]\nbuckets = [{buckets}]\n")
    };
    one("a", "e2b_aa", r#""a/prod", "a/dev""#) + &one("b", "e2b_bb", r#""b/prod""#)
}

/// The simulator and the warden on the machine's clock, with background tasks.
pub(super) async fn real(profile: Profile, config: &str) -> Stage {
    let cube = CubeSim::builder().profile(profile).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(config).start().await;
    Stage { cube, warden, clock: manual() }
}

/// Both on one clock that the test moves, without background tasks: the test calls the ticks.
pub(super) async fn timed(profile: Profile, config: &str) -> Stage {
    let clock = manual();
    let cube = CubeSim::builder().profile(profile).clock(clock.clone()).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
    Stage { cube, warden, clock }
}

fn manual() -> ManualClock {
    ManualClock::at(UnixMillis(1_800_000_000_000))
}

impl Stage {
    /// Tenant a.
    pub(super) fn a(&self) -> Caller {
        self.warden.caller_with("e2b_aa")
    }

    /// Tenant b.
    pub(super) fn b(&self) -> Caller {
        self.warden.caller_with("e2b_bb")
    }

    /// The requests that Cube has seen, as `METHOD /path` without the query; health checks left out.
    pub(super) fn asked(&self) -> Vec<String> {
        let requests = self.cube.requests();
        let lines = requests.iter().map(|seen| {
            let path = seen.head.target.split('?').next().unwrap_or_default();
            format!("{} {path}", seen.head.method)
        });
        lines.filter(|line| line != "GET /health").collect()
    }

    /// How many of them were this.
    pub(super) fn times(&self, line: &str) -> usize {
        self.asked().iter().filter(|asked| *asked == line).count()
    }

    /// Someone sleeps on the clock for exactly so long from now: then so long passes.
    #[track_caller]
    pub(super) fn pass(&self, length: Duration) -> impl Future<Output = ()> + Send + '_ {
        let due = self.clock.now().plus(length);
        let someone = until("someone sleeps until then", move || self.clock.next_due() == Some(due));
        async move {
            someone.await;
            self.skip(length);
        }
    }

    /// Whatever was ready has run: all of this runs on one thread, and what was asked later was answered.
    pub(super) async fn settle(&self) {
        for _ in 0..2 {
            assert_eq!(self.warden.caller().get("/health").await.status, 200);
        }
    }

    /// The first entry is to be looked at so long from now, and whoever waits for that sleeps.
    pub(super) async fn until_due(&self, length: Duration) {
        let due = self.clock.now().plus(length);
        for _ in 0..3000 {
            if self.warden.entries().await.first().is_some_and(|entry| entry.due == Some(due)) {
                return self.settle().await;
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("nothing is due then: {:#?}", self.warden.entries().await);
    }

    /// The bodies of the creates that Cube has seen.
    pub(super) fn created(&self) -> Vec<String> {
        let creates = self
            .cube
            .requests()
            .into_iter()
            .filter(|seen| seen.head.method == "POST" && seen.head.target.ends_with("/sandboxes"));
        creates.map(|seen| String::from_utf8(seen.body.to_vec()).unwrap()).collect()
    }

    /// So long passes, whoever sleeps.
    pub(super) fn skip(&self, length: Duration) {
        self.cube.advance(length).expect("a clock that the test moves");
    }

    /// Everything that is due is looked at.
    pub(super) async fn due(&self) {
        self.warden.warden.tasks.tick_due().await.unwrap();
    }

    /// Cube's list is taken in.
    pub(super) async fn inventory(&self) {
        self.warden.warden.tasks.tick_inventory().await.unwrap();
    }

    /// Waits until so many slots are held.
    #[track_caller]
    pub(super) fn until_held(&self, wanted: u64) -> impl Future<Output = ()> + Send + '_ {
        let caller = std::panic::Location::caller();
        async move {
            for _ in 0..3000 {
                if self.warden.held().await == wanted {
                    return;
                }
                WallClock.sleep(Duration::from_millis(10)).await;
            }
            panic!("{caller}: {wanted} slots wanted, held by {:#?}", self.warden.entries().await);
        }
    }

    /// Waits until all entries that hold a slot, and there are some, are in this state.
    #[track_caller]
    pub(super) fn until_state<'a>(&'a self, wanted: &'a str) -> impl Future<Output = ()> + Send + 'a {
        let caller = std::panic::Location::caller();
        async move {
            for _ in 0..3000 {
                let states = self.states().await;
                if !states.is_empty() && states.iter().all(|state| *state == wanted) {
                    return;
                }
                WallClock.sleep(Duration::from_millis(10)).await;
            }
            panic!("{caller}: {wanted} wanted, there is {:?}", self.states().await);
        }
    }

    /// The states of all entries that hold a slot.
    pub(super) async fn states(&self) -> Vec<&'static str> {
        self.warden.entries().await.iter().map(|entry| entry.state.name()).collect()
    }

    /// The invariant at the end of each story, once everything under way has ended: slots = entries = sandboxes alive that
    /// the warden made or adopted.
    #[track_caller]
    pub(super) fn balance(&self, wanted: usize) -> impl Future<Output = ()> + Send + '_ {
        let caller = std::panic::Location::caller();
        async move {
            let mut books = None;
            for _ in 0..3000 {
                let now = self.books().await;
                if now == (wanted, wanted, true) {
                    return;
                }
                books = Some(now);
                WallClock.sleep(Duration::from_millis(10)).await;
            }
            let entries = self.warden.entries().await;
            panic!(
                "{caller}: wanted {wanted}, (slots, entries, same as alive) = {books:?}; {:#?} {entries:#?}",
                self.cube.alive()
            );
        }
    }

    async fn books(&self) -> (usize, usize, bool) {
        let entries = self.warden.entries().await;
        let ids: BTreeSet<String> =
            entries.iter().filter_map(|entry| entry.sandbox.as_ref().map(ToString::to_string)).collect();
        let ledger = self.warden.warden.ledger.id().to_string();
        let ours = self
            .cube
            .alive()
            .into_iter()
            .filter(|alive| ids.contains(&alive.id) || alive.metadata.get("cw_ledger") == Some(&ledger));
        let alive: BTreeSet<String> = ours.map(|alive| alive.id).collect();
        let held = usize::try_from(self.warden.held().await).unwrap();
        (held, entries.len(), ids == alive && ids.len() == entries.len())
    }

    /// The value of a metric by its whole name with labels.
    pub(super) fn metric(&self, name: &str) -> u64 {
        let text = self.warden.warden.metrics.render(None);
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.unwrap_or_else(|| panic!("no metric {name} in {text}")).parse().unwrap()
    }
}

/// A refusal: its status, its code in words, and a body that says both.
#[track_caller]
pub(super) fn refused(answer: &Answer, status: u16, reason: &str) {
    assert_eq!(answer.status.as_u16(), status, "{answer:?}");
    assert_eq!(answer.json()["code"], status, "{answer:?}");
    assert_eq!(answer.json()["error_code"], reason, "{answer:?}");
    assert!(!answer.text("message").is_empty());
}

/// `/sandboxes/{id}` and what follows.
pub(super) fn path(id: &str, tail: &str) -> String {
    format!("/sandboxes/{id}{tail}")
}
