//! Mode `shadow`: what it sees it counts and decides, what it would refuse it says, and what passes it is as it was.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cube::{CubeSim, Profile};
use crate::support::http::{Answer, Caller};
use crate::support::warden::{self, Builder, Running};

const BODY: &str =
    r#"{ "templateID":"tpl-000000000000000000000001", "timeout":300, "metadata":{"x":"\u0079"} }"#;
const NOBODY: &str = "00000000000000000000000000000000";

/// A Cube behind a shadow, and a twin of it that is asked directly.
struct World {
    cube: CubeSim,
    twin: CubeSim,
    clock: ManualClock,
    warden: Running,
    config: String,
}

fn tenants() -> String {
    let one = |name: &str, key: &str| {
        let hash = hex::encode(Sha256::digest(key));
        format!("[[tenant]]\nname = \"{name}\"\nkeys_sha256 = [\"{hash}\"]\nbuckets = [\"{name}/prod\"]\n")
    };
    one("a", "e2b_aa") + &one("b", "e2b_bb")
}

fn limits(limit: u32) -> String {
    let of = |name| format!("[[bucket]]\nnamespace = \"{name}\"\nenv = \"prod\"\nlimit = {limit}\n");
    format!("[admission]\nwait = \"0s\"\n{}{}", of("a"), of("b"))
}

fn before(cube: &CubeSim, config: &str, mode: &str) -> Builder {
    let builder = warden::before(&cube.url()).config(&format!("mode = \"{mode}\"\n{config}"));
    builder.env("KEY_OF_CUBE", "cube-key").env("CUBEWARDEN_UPSTREAM_API_KEY_ENV", "KEY_OF_CUBE")
}

async fn world(config: &str) -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = || CubeSim::builder().profile(Profile::V070).seed(7).clock(clock.clone()).api_key("cube-key");
    let (cube, twin) = (cube().start().await.unwrap(), cube().start().await.unwrap());
    let warden = before(&cube, config, "shadow").clock(&clock).without_tasks().start().await;
    World { cube, twin, clock, warden, config: config.to_owned() }
}

/// What matters of an answer; its framing is each hop's own.
fn told(answer: &Answer) -> (u16, BTreeMap<String, String>, Vec<u8>) {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = answer.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    let headers =
        headers.filter(|(name, _)| !["date", "content-length", "transfer-encoding"].contains(&name.as_str()));
    (answer.status.as_u16(), headers.collect(), answer.body.to_vec())
}

/// What a Cube was sent last: request line, headers, body; without who was addressed and who asks.
fn sent(cube: &CubeSim) -> (String, BTreeMap<String, String>, Vec<u8>) {
    let seen = cube.requests().pop().unwrap();
    let own = ["host", "x-api-key", "content-length"];
    let headers = seen.head.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let headers = headers.filter(|(name, _)| !own.contains(&name.as_str())).collect();
    (format!("{} {}", seen.head.method, seen.head.target), headers, seen.body.to_vec())
}

impl World {
    fn a(&self) -> Caller {
        self.warden.caller_with("e2b_aa")
    }

    /// Asks through the shadow and directly, and finds no difference but the suffix of an id.
    #[track_caller]
    fn same<'a>(
        &'a self,
        asker: &'a Caller,
        method: &'a str,
        path: &'a str,
        body: Option<&'a str>,
    ) -> impl Future<Output = Answer> + 'a {
        let line = std::panic::Location::caller();
        async move {
            let twin = Caller::new(&self.twin.url()).with("x-api-key", "cube-key");
            let bare = path.replace("-gmx22x1lw", "");
            let direct = twin.call(method, &bare, body).await;
            let through = asker.call(method, path, body).await;
            assert_eq!(told(&through), told(&direct), "{line}: {method} {path}");
            assert_eq!(sent(&self.cube), sent(&self.twin), "{line}: {method} {path}");
            through
        }
    }

    /// The reasons for which the log says that something would have been refused.
    async fn would_refuse(&self) -> Vec<String> {
        let ledger = &self.warden.warden.ledger;
        ledger.write_notes().await.unwrap();
        let log = ledger.decisions(0, 1000).await.unwrap();
        let log = log.into_iter().map(|(_, text)| serde_json::from_str::<Value>(&text).unwrap());
        let ours = log.filter(|decision| decision["decision"] == "would_refuse");
        ours.map(|decision| decision["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Slots held, and how many sandboxes there are.
    async fn counted(&self) -> (u64, usize) {
        (self.warden.held().await, self.cube.alive().len())
    }
}

#[tokio::test]
async fn nothing_is_changed_on_the_way_up_or_down() {
    let world = world(&tenants()).await;
    let a = world.a();
    let id = world.same(&a, "POST", "/sandboxes", Some(BODY)).await.text("sandboxID");
    let of = |tail: &str| format!("/sandboxes/{id}{tail}");
    world.same(&a, "GET", &of("-gmx22x1lw"), None).await;
    world.same(&a, "GET", "/v2/sandboxes?state=running,paused&limit=1", None).await;
    world.same(&a, "POST", &of("/timeout"), Some(r#"{"timeout":600}"#)).await;
    world.same(&a, "POST", &of("/pause"), Some("")).await;
    world.same(&a, "POST", &of("/connect"), Some("{\"timeout\": 60}")).await;
    world.same(&a, "POST", "/v2/sandboxes", Some(BODY)).await;
    world.same(&a, "POST", "/sandboxes", Some("{not json")).await;
    world.same(&a, "POST", &of("/fork"), Some("{}")).await;
    world.same(&a, "GET", &format!("/sandboxes/{NOBODY}"), None).await;
    world.same(&a, "DELETE", &format!("/sandboxes/{NOBODY}"), None).await;
    world.same(&a, "DELETE", &of("-gmx22x1lw"), None).await;
    world.same(&a, "DELETE", &of(""), None).await;
}

#[tokio::test]
async fn nothing_is_refused_and_what_would_have_been_is_said() {
    let world = world(&(tenants() + &limits(1))).await;
    let (a, stranger) = (world.a(), world.warden.caller_with("e2b_cc"));
    world.same(&a, "POST", "/sandboxes", Some(BODY)).await;
    assert_eq!(world.would_refuse().await, [""; 0], "all was well so far, and nobody is called a stranger");
    world.same(&a, "POST", "/sandboxes", Some(BODY)).await;
    assert_eq!(world.would_refuse().await, ["CAPACITY_EXCEEDED"]);
    world.same(&stranger, "GET", "/sandboxes", None).await;
    world.same(&stranger, "POST", "/sandboxes", Some(BODY)).await;
    let mounting = r#"{"templateID":"tpl-000000000000000000000001","metadata":{"host-mount":"[]"}}"#;
    let answer = world.same(&world.warden.caller_with("e2b_bb"), "POST", "/sandboxes", Some(mounting)).await;
    assert_eq!(answer.status, 201);
    assert_eq!(
        world.would_refuse().await[1..],
        ["UNAUTHENTICATED", "UNAUTHENTICATED", "FORBIDDEN_FIELD"].map(str::to_owned)
    );
    assert_eq!(world.counted().await, (4, 4), "and all are counted");
}

#[tokio::test]
async fn creates_are_counted_where_they_belong_and_deletes_free_them_whoever_asks() {
    let world = world(&tenants()).await;
    let (a, b) = (world.a(), world.warden.caller_with("e2b_bb"));
    let made = [a.create(BODY).await, a.create(BODY).await, b.create(BODY).await];
    let bucket = |entry: &cubewarden::rules::entry::Entry| entry.bucket.to_string();
    let mut buckets: Vec<String> = world.warden.entries().await.iter().map(bucket).collect();
    buckets.sort();
    assert_eq!(buckets, ["a/prod", "a/prod", "b/prod"]);
    assert_eq!(world.counted().await, (3, 3));
    assert_eq!(a.delete(&format!("/sandboxes/{}", made[0])).await.status, 204);
    assert_eq!(world.counted().await, (2, 2));
    assert_eq!(b.delete(&format!("/sandboxes/{}", made[1])).await.status, 204, "it is nobody's to refuse");
    assert_eq!(world.would_refuse().await, ["NOT_FOUND"]);
    assert_eq!(world.counted().await, (1, 1));
    // Found gone by its owner's DELETE, before a 404 is believed and after.
    assert!(world.cube.let_die(&made[2]));
    assert_eq!(b.delete(&format!("/sandboxes/{}", made[2])).await.status, 404);
    assert_eq!(world.warden.entries().await[0].state.name(), "live", "condemned by nobody");
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(b.delete(&format!("/sandboxes/{}", made[2])).await.status, 404);
    assert_eq!(world.counted().await, (0, 0));
}

#[tokio::test]
async fn the_tasks_end_nothing_and_enforcing_begins_with_what_was_seen() {
    let world = world(&(tenants() + &limits(2))).await;
    let a = world.a();
    let ids = [a.create(BODY).await, a.create(BODY).await, a.create(BODY).await];
    // One that nobody waits for, and one past its end that traffic keeps alive: neither is ended.
    world.cube.seed_sandboxes(1, &BTreeMap::from([("cw_marker".to_owned(), "f".repeat(32))]));
    for _ in 0..4 {
        world.warden.warden.tasks.tick_inventory().await.unwrap();
        world.warden.warden.tasks.tick_due().await.unwrap();
        world.clock.advance(Duration::from_secs(60));
    }
    assert!(!world.cube.requests().iter().any(|seen| seen.head.method == "DELETE"));
    assert_eq!(world.cube.alive().len(), 4);
    let enforcing = before(&world.cube, &world.config, "enforce").settings();
    world.warden.warden.reload(&enforcing);
    assert_eq!(a.post("/sandboxes", BODY).await.status, 429, "three are counted, two are allowed");
    assert_eq!(world.warden.caller_with("e2b_cc").get("/sandboxes").await.status, 401);
    let b = world.warden.caller_with("e2b_bb");
    assert_eq!(b.delete(&format!("/sandboxes/{}", ids[0])).await.status, 404, "it is a's");
    assert_eq!(a.get("/sandboxes").await.json().as_array().unwrap().len(), 3);
    for id in &ids[..2] {
        assert_eq!(a.delete(&format!("/sandboxes/{id}")).await.status, 204);
    }
    assert_eq!(a.post("/sandboxes", BODY).await.status, 201);
    let labelled = world.cube.alive().iter().filter(|one| one.metadata.contains_key("managed_by")).count();
    assert_eq!(labelled, 1, "from now on sandboxes are named as ours");
    assert_eq!(json!(world.warden.held().await), json!(2));
}
