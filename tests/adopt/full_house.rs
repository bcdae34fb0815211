//! 250 sandboxes, default settings, a client at work since before the warden came.

use std::time::Duration;

use cubewarden::ids::Bucket;
use cubewarden::rules::entry::Origin;
use serde_json::Value;

use super::{asked, clock, inhabited, minutes, plant, slots};
use crate::cube::{CubeSim, Profile};
use crate::support::http::Caller;
use crate::support::warden;

const MANY: usize = 250;

/// What an SDK does in a day, on a share of the sandboxes. The same to a Cube and to its twin.
const WORK: &[(&str, &str, &str)] = &[
    ("GET", "/sandboxes/{a}", ""),
    ("GET", "/v2/sandboxes", ""),
    ("POST", "/sandboxes/{a}/timeout", r#"{"timeout":7200}"#),
    ("POST", "/sandboxes/{b}/pause", ""),
    ("GET", "/sandboxes/{b}", ""),
    ("POST", "/sandboxes/{b}/connect", r#"{"timeout":9000}"#),
    ("GET", "/sandboxes/{b}", ""),
    ("POST", "/sandboxes/{paused}/resume", r#"{"timeout":9000}"#),
    ("GET", "/sandboxes/{paused}/logs", ""),
    ("POST", "/sandboxes/{a}/refreshes", r#"{"duration":600}"#),
    ("GET", "/v2/sandboxes?state=paused", ""),
    ("POST", "/sandboxes/{c}/snapshots", "{}"),
    ("DELETE", "/sandboxes/{c}", ""),
    ("GET", "/sandboxes/{nobody}", ""),
    ("DELETE", "/sandboxes/{nobody}", ""),
    ("GET", "/sandboxes", ""),
];

/// One client, working on the same things in both Cubes.
struct Client<'a> {
    twin: Caller,
    ids: &'a [String],
}

impl Client<'_> {
    /// Works once through the list; what it hears must be the same on both sides.
    async fn works(&self, round: usize, through: &Caller) {
        let id = |n: usize| self.ids[(round * 30 + n) % MANY].as_str();
        for (method, path, body) in WORK {
            let path = path.replace("{a}", id(8)).replace("{b}", id(14)).replace("{c}", id(22));
            let path = path.replace("{paused}", id(10)).replace("{nobody}", &"e".repeat(32));
            let body = (!body.is_empty()).then_some(*body);
            let direct = self.twin.call(method, &path, body).await;
            let through = through.call(method, &path, body).await;
            assert_eq!(through.status, direct.status, "{round} {method} {path}: {direct:?} {through:?}");
            assert_eq!(steady(&through.json()), steady(&direct.json()), "{round} {method} {path}");
        }
    }
}

/// An answer without what two Cubes draw by chance; lists in the order of their ids, for Cube promises none.
fn steady(json: &Value) -> Value {
    let mut json = json.clone();
    match &mut json {
        Value::Array(items) => {
            *items = items.iter().map(steady).collect();
            items.sort_by_key(|item| item["sandboxID"].as_str().unwrap_or_default().to_owned());
        }
        Value::Object(fields) => {
            for chance in ["startedAt", "snapshotID", "names", "trafficAccessToken", "envdAccessToken"] {
                fields.remove(chance);
            }
        }
        _ => {}
    }
    json
}

/// A twin on the same clock, who is never governed.
async fn twins(profile: Profile) -> (cubewarden::time::ManualClock, CubeSim, CubeSim, Vec<String>) {
    let clock = clock();
    let (cube, ids) = inhabited(profile, &clock, MANY).await;
    let (twin, same) = inhabited(profile, &clock, MANY).await;
    assert_eq!(ids, same);
    (clock, cube, twin, ids)
}

/// Two hours, a warden's tasks run every `step` minutes.
async fn check(profile: Profile, step: usize) {
    let (clock, cube, twin, ids) = twins(profile).await;
    let client = Client { twin: Caller::new(&twin.url()), ids: &ids };
    client.works(0, &Caller::new(&cube.url())).await;
    let alive = cube.alive().len();

    let running = warden::before(&cube.url()).clock(&clock).without_tasks().start().await;
    let caller = running.caller();
    client.works(1, &caller).await;
    running.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(
        slots(&running).await,
        alive - 1,
        "all that stood there, but what the client deleted meanwhile"
    );
    let bucket = Bucket::parse("default/dev").unwrap();
    let entries = running.entries().await;
    assert!(entries.iter().all(|entry| entry.origin == Origin::Imported && entry.bucket == bucket));
    client.works(2, &caller).await;

    for number in (step..=120).step_by(step) {
        minutes(step, &clock, &cube, &running).await;
        twin.tick();
        if number % 20 == 0 {
            client.works(2 + number / 20, &caller).await;
        }
        let (left, right) = (cube.alive(), twin.alive());
        let same = left.iter().map(|one| &one.id).eq(right.iter().map(|one| &one.id));
        assert!(same, "{profile}: minute {number}: {} and {} are alive", left.len(), right.len());
    }
    assert_eq!(slots(&running).await, cube.alive().len(), "slots are sandboxes");
    let own = asked(&cube, "DELETE", true);
    let clients: Vec<String> = asked(&twin, "DELETE", false);
    assert!(
        own.iter().all(|path| clients.contains(path)),
        "the warden deletes for its clients only: {own:?}"
    );
    assert!(asked(&cube, "POST", true).is_empty());
}

#[tokio::test]
async fn nobody_who_works_on_v051_notices_that_a_warden_came() {
    check(Profile::V051, 10).await;
}

#[tokio::test]
async fn nobody_who_works_on_v060_notices_that_a_warden_came() {
    check(Profile::V060, 5).await;
}

#[tokio::test]
async fn nobody_who_works_on_v070_notices_that_a_warden_came() {
    check(Profile::V070, 2).await;
}

#[tokio::test]
async fn a_limit_lower_than_what_stands_there_refuses_new_ones_only() {
    let clock = clock();
    let (cube, ids) = inhabited(Profile::V070, &clock, MANY).await;
    let config = "[admission]\nwait = \"0s\"\n[bucket_defaults]\nlimit = 100";
    let running = warden::before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
    running.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(slots(&running).await, MANY);
    let caller = running.caller();
    let refused = caller.post("/sandboxes", r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    assert_eq!((refused.status.as_u16(), refused.text("error_code")), (429, "CAPACITY_EXCEEDED".to_owned()));
    for id in ids.iter().take(20) {
        assert_eq!(caller.get(&format!("/sandboxes/{id}")).await.status, 200);
        let connected = caller.post(&format!("/sandboxes/{id}/connect"), r#"{"timeout":90000}"#).await;
        assert!(connected.status.is_success(), "{connected:?}");
    }
    for _ in 0..60 {
        minutes(1, &clock, &cube, &running).await;
    }
    assert!(asked(&cube, "DELETE", false).is_empty());
    assert!(slots(&running).await > 100 && slots(&running).await == cube.alive().len());
    assert_eq!(cube.high_water(&[]), MANY);
}

#[tokio::test]
async fn what_is_made_round_the_warden_later_is_taken_in_and_told_apart() {
    let clock = clock();
    let (cube, _) = inhabited(Profile::V070, &clock, 10).await;
    let running = warden::before(&cube.url()).clock(&clock).without_tasks().start().await;
    running.warden.tasks.tick_inventory().await.unwrap();
    let round = plant(&cube, 2);
    let seen = running.caller().get(&format!("/sandboxes/{round}")).await;
    assert_eq!((seen.status.as_u16(), running.held().await), (200, 10), "callable before it has a record");
    minutes(1, &clock, &cube, &running).await;
    let entries = running.entries().await;
    let made_round: Vec<_> = entries.iter().filter(|entry| entry.origin == Origin::Round).collect();
    assert_eq!((entries.len(), made_round.len()), (11, 1));
    assert_eq!(made_round[0].sandbox.as_ref().unwrap().as_str(), round);
    clock.advance(Duration::from_secs(1));
    assert_eq!(running.caller().delete(&format!("/sandboxes/{round}")).await.status, 204);
    assert_eq!((running.held().await, cube.sandbox(&round)), (10, None));
}
