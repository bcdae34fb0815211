//! Some wardens of one ledger, each a process of its own: started, killed, told to stop, started again.
//!
//! Must stay true: what a warden said is kept over its deaths; one that finds no ledger at its start is started again, as
//! whoever runs it in earnest would.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use cubewarden::time::{Clock as _, WallClock};
use serde_json::Value;
use tokio::sync::watch;

use super::LIMIT;
use crate::cube::CubeSim;
use crate::process::program::{Serving, Site};
use crate::support::redis::RedisServer;

/// The name of the ledger.
const LEDGER: &str = "chaos";
/// How often one that ended at once is started again, a tenth of a second apart.
const STARTS: usize = 300;
/// How often the end is looked for, a tenth of a second apart. More than a minute: then the dead are known to be dead.
const LOOKS: usize = 1200;

/// Short times, in the order of the real ones.
const TIMES: &str = r#"
[admission]
wait = "3s"
[collector]
cycle = "1s"
heartbeat = "1s"
root_fresh = "2s"
newborn_grace = "1s"
[reconciler]
search = "100ms"
ambiguous_horizon = "6s"
claim = "3s"
deadline_grace = "1s"
delete_wait = "2s"
delete_retry = "50ms"
delete_retry_max = "500ms"
"#;

/// See the head of the file.
pub(super) struct Wardens {
    sites: Vec<Site>,
    serving: Vec<Option<Serving>>,
    addresses: watch::Sender<Vec<String>>,
}

impl Wardens {
    /// One before `cube` for each way to Redis.
    pub(super) async fn start(cube: &CubeSim, ways: &[String]) -> Self {
        let site = |url: &String| {
            let config = format!(
                "kind = \"redis\"\nurl = \"{url}\"\nname = \"{LEDGER}\"\n[bucket_defaults]\nlimit = {LIMIT}\n{TIMES}"
            );
            Site::new(&cube.url(), &config)
                .env("CUBEWARDEN_UPSTREAM_CALL_TIMEOUT", "3s")
                .env("CUBEWARDEN_UPSTREAM_WAKE_TIMEOUT", "5s")
        };
        let sites: Vec<Site> = ways.iter().map(site).collect();
        let serving = sites.iter().map(|_| None).collect();
        let addresses = watch::Sender::new(vec![String::new(); ways.len()]);
        let mut wardens = Self { sites, serving, addresses };
        for which in 0..ways.len() {
            wardens.revive(which).await;
        }
        for which in 0..ways.len() {
            wardens.until_ready(which).await;
        }
        wardens
    }

    pub(super) fn count(&self) -> usize {
        self.sites.len()
    }

    /// Where clients find them; empty for one that is not there.
    pub(super) fn addresses(&self) -> watch::Receiver<Vec<String>> {
        self.addresses.subscribe()
    }

    pub(super) fn serving(&self, which: usize) -> &Serving {
        self.serving[which].as_ref().expect("it runs")
    }

    pub(super) fn kill(&mut self, which: usize) {
        self.serving[which].take().expect("it runs").kill();
        // Its address stays known to clients: they find out.
    }

    /// Tells it to stop, and waits until it has.
    pub(super) async fn stop(&mut self, which: usize) {
        self.serving[which].take().expect("it runs").stop().await;
    }

    /// Starts it, and again if it ends at once.
    pub(super) async fn revive(&mut self, which: usize) {
        let mut said = Vec::new();
        for _ in 0..STARTS {
            match self.sites[which].try_serve().await {
                Ok(serving) => {
                    self.addresses.send_modify(|addresses| addresses[which].clone_from(&serving.proxy));
                    self.serving[which] = Some(serving);
                    return;
                }
                Err(why) => said = why,
            }
            WallClock.sleep(Duration::from_millis(100)).await;
        }
        panic!("warden {which} does not start: {said:?}");
    }

    /// Waits until it says so itself.
    pub(super) async fn until_ready(&self, which: usize) {
        let operator = self.serving(which).operator();
        let mut last = Value::Null;
        for _ in 0..LOOKS {
            let answer = operator.get("/readyz").await;
            if answer.status == 200 {
                return;
            }
            last = answer.json();
            WallClock.sleep(Duration::from_millis(100)).await;
        }
        panic!("warden {which} is not ready: {last}\n{}", self.story().await);
    }

    /// A minute passes for the dead: they are not among those who live any more, and those who do say so anew.
    pub(super) fn bury(&self, server: &RedisServer) {
        let key = format!("{{cw:{LEDGER}}}:instances");
        redis::cmd("DEL").arg(key).exec(&mut server.connection()).unwrap();
        // A new look at the configuration is a beat at once.
        self.serving.iter().flatten().for_each(|serving| serving.signal("HUP"));
    }

    /// Waits until every warden says that the ledger is what Cube has: one living entry for each sandbox, and no other.
    pub(super) async fn until_ledger_is_cube(&self, cube: &CubeSim) {
        let mut last = String::new();
        for _ in 0..LOOKS {
            let mut agreed = true;
            for serving in self.serving.iter().flatten() {
                let shown = serving.operator().get("/v1/admin/sandboxes?limit=1000").await.json();
                let shown = shown["sandboxes"].as_array().cloned().unwrap_or_default();
                let alive: BTreeSet<String> = cube.alive().into_iter().map(|one| one.id).collect();
                let named = |entry: &Value| entry["sandbox_id"].as_str().map(str::to_owned);
                let of_ledger: BTreeSet<String> = shown.iter().filter_map(named).collect();
                let live = shown.iter().all(|entry| entry["state"] == "live");
                agreed &= live && of_ledger == alive && shown.len() == alive.len();
                if !agreed {
                    last = format!("Cube has {alive:?}, the ledger {shown:#?}");
                }
            }
            if agreed {
                return;
            }
            WallClock.sleep(Duration::from_millis(100)).await;
        }
        panic!("the ledger is not what Cube has: {last}\n{}", self.story().await);
    }

    /// All decisions that the ledger still has, oldest first.
    pub(super) async fn decisions(&self) -> Vec<Value> {
        let Some(serving) = self.serving.iter().flatten().next() else { return Vec::new() };
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let path = format!("/v1/admin/decisions?limit=1000&after={after}");
            let Ok(page) = serving.operator().try_call("GET", &path, None).await else { return all };
            let page = page.json();
            all.extend(page["decisions"].as_array().cloned().unwrap_or_default());
            match page["next_after"].as_u64() {
                Some(next) => after = next,
                None => return all,
            }
        }
    }

    /// What must not happen and did, with everything that was decided about the sandboxes that it names.
    pub(super) async fn story_of(&self, wrongs: &[String]) -> String {
        let mut story = format!("{wrongs:#?}\n{}", self.story().await);
        let decisions = self.decisions().await;
        let named = |record: &Value| {
            let id = record["sandbox_id"].as_str();
            id.is_some_and(|id| wrongs.iter().any(|wrong| wrong.contains(id)))
        };
        let markers: BTreeSet<&str> = decisions
            .iter()
            .filter(|record| named(record))
            .filter_map(|one| one["marker"].as_str())
            .collect();
        let about = |record: &&Value| record["marker"].as_str().is_some_and(|one| markers.contains(one));
        for decision in decisions.iter().filter(about) {
            writeln!(story, "about it: {decision}").unwrap();
        }
        story
    }

    /// What each warden complained of, and the last decisions: for whoever reads about a failure.
    pub(super) async fn story(&self) -> String {
        let mut story = String::new();
        for (which, serving) in self.serving.iter().enumerate() {
            let log = serving.as_ref().map(Serving::log).unwrap_or_default();
            let loud = |line: &&Value| line["level"] == "ERROR" || line["level"] == "WARN";
            let loud: Vec<&Value> = log.iter().filter(loud).collect();
            for line in &loud[loud.len().saturating_sub(15)..] {
                writeln!(story, "warden {which}: {line}").unwrap();
            }
        }
        let decisions = self.decisions().await;
        for decision in &decisions[decisions.len().saturating_sub(60)..] {
            writeln!(story, "{decision}").unwrap();
        }
        story
    }
}
