//! The lives of sandboxes: idle windows, ends, pauses, and what each version makes of them.

use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};

use super::raw::{Answer, call, call_as, until};
use crate::cube::faults::Fault;
use crate::cube::model::{State, Traffic};
use crate::cube::{CubeSim, Profile};

const TEMPLATE: &str = "tpl-000000000000000000000001";
const START: UnixMillis = UnixMillis(1_795_957_013_000);

struct Stage {
    sim: CubeSim,
    clock: ManualClock,
}

impl Stage {
    async fn with(profile: Profile) -> Self {
        let clock = ManualClock::at(START);
        let sim = CubeSim::builder().profile(profile).clock(clock.clone()).start().await;
        Self { sim: sim.expect("the loopback has a free port"), clock }
    }

    async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        call(self.sim.addr(), method, path, body).await
    }

    async fn create(&self, more: Value) -> String {
        let mut body = json!({ "templateID": TEMPLATE });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let answer = self.call("POST", "/sandboxes", body).await;
        assert_eq!(answer.code(), 201, "{}", answer.body);
        answer.json()["sandboxID"].as_str().expect("an id").to_owned()
    }

    async fn get(&self, id: &str) -> Answer {
        self.call("GET", &format!("/sandboxes/{id}"), Value::Null).await
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn traffic_moves_the_idle_window_but_never_end_at_and_reads_move_neither() {
    let stage = Stage::with(Profile::V051).await;
    let id = stage.create(json!({ "timeout": 60 })).await;
    let end = stage.get(&id).await.json()["endAt"].clone();
    assert_eq!(end, "2026-11-29T12:57:53.000Z");

    stage.pass(50);
    assert_eq!(stage.sim.traffic(&id), Traffic::Served);
    stage.pass(50);
    let after = stage.get(&id).await;
    assert_eq!((after.code(), &after.json()["endAt"]), (200, &end), "alive, with an end in the past");

    // The reads above and this one keep nobody alive.
    stage.pass(9);
    assert_eq!(stage.get(&id).await.code(), 200);
    stage.pass(1);
    assert_eq!(stage.get(&id).await.code(), 404);
    assert_eq!(stage.sim.alive(), []);
    assert_eq!(stage.sim.traffic(&id), Traffic::Unknown);
}

#[tokio::test]
async fn the_sweeper_pauses_what_asked_for_it_in_the_form_that_the_version_reads() {
    let flat = json!({ "timeout": 60, "autoPause": true, "autoResume": { "enabled": true } });
    let nested = json!({ "timeout": 60, "lifecycle": { "onTimeout": "pause", "autoResume": true } });
    for (profile, flat_pauses) in [(Profile::V051, false), (Profile::V060, false), (Profile::V070, true)] {
        let stage = Stage::with(profile).await;
        let (flat, nested) = (stage.create(flat.clone()).await, stage.create(nested.clone()).await);
        stage.pass(60);
        let held = |id: &str| stage.sim.sandbox(id).map(|one| one.state);
        assert_eq!(held(&flat), flat_pauses.then_some(State::Paused), "{profile}");
        assert_eq!(held(&nested), Some(State::Paused), "{profile}");

        assert_eq!(stage.sim.traffic(&nested), Traffic::Woken);
        stage.pass(59);
        assert_eq!(held(&nested), Some(State::Running), "{profile}: a fresh window");
        stage.pass(1);
        assert_eq!(held(&nested), Some(State::Paused), "{profile}");
    }
}

#[tokio::test]
async fn a_paused_sandbox_that_is_to_be_killed_outlives_its_deadline_before_v070_only() {
    for (profile, code) in [(Profile::V051, 200), (Profile::V060, 200), (Profile::V070, 404)] {
        let stage = Stage::with(profile).await;
        let id = stage.create(json!({ "timeout": 60 })).await;
        let paused = stage.call("POST", &format!("/sandboxes/{id}/pause"), Value::Null).await;
        assert_eq!(paused.code(), 204);
        assert_eq!(stage.sim.traffic(&id), Traffic::Refused, "nobody asked for auto-resume");
        stage.pass(61);
        assert_eq!(stage.get(&id).await.code(), code, "{profile}");
    }
}

#[tokio::test]
async fn v070_shows_a_paused_sandbox_without_metadata_template_and_size_until_it_is_woken() {
    let stage = Stage::with(Profile::V070).await;
    let id = stage.create(json!({ "metadata": { "owner": "alice" } })).await;
    stage.call("POST", &format!("/sandboxes/{id}/pause"), Value::Null).await;
    let paused = stage.get(&id).await.json();
    let shown = (&paused["templateID"], &paused["metadata"], &paused["cpuCount"], &paused["state"]);
    assert_eq!(shown, (&json!(""), &Value::Null, &json!(0), &json!("paused")));
    let listed = stage.call("GET", "/v2/sandboxes?metadata=owner%3Dalice", Value::Null).await.json();
    assert_eq!(listed[0]["state"], "paused", "the list still knows all");

    stage.call("POST", &format!("/sandboxes/{id}/connect"), json!({})).await;
    assert_eq!(stage.get(&id).await.json()["metadata"]["owner"], "alice");
}

#[tokio::test]
async fn connect_to_a_running_one_is_deaf_before_v070_and_only_extends_since() {
    for (profile, ends) in
        [(Profile::V051, [60, 60, 60]), (Profile::V060, [60, 60, 60]), (Profile::V070, [60, 900, 900])]
    {
        let stage = Stage::with(profile).await;
        let id = stage.create(json!({ "timeout": 60 })).await;
        for (asked, end) in [30, 900, 100].into_iter().zip(ends) {
            let connected =
                stage.call("POST", &format!("/sandboxes/{id}/connect"), json!({ "timeout": asked })).await;
            assert_eq!(connected.code(), 200);
            let held = stage.sim.sandbox(&id).and_then(|one| one.end_at_ms);
            assert_eq!(held, Some(START.0 + end * 1000), "{profile}, asked for {asked}");
        }
    }
}

#[tokio::test]
async fn only_v070_and_only_to_e2b_shows_the_far_end_of_what_never_ends() {
    const E2B: &str = "e2b-python-sdk/2.50.0";
    for (profile, far) in [(Profile::V051, false), (Profile::V060, false), (Profile::V070, true)] {
        let stage = Stage::with(profile).await;
        let path = format!("/sandboxes/{}", stage.create(json!({})).await);
        let end = |answer: Answer| answer.json()["endAt"].as_str().map(str::to_owned);
        assert_eq!(end(stage.call("GET", &path, Value::Null).await), None, "{profile}");
        let seen = end(call_as(stage.sim.addr(), E2B, "GET", &path, Value::Null).await);
        assert_eq!(seen.as_deref(), far.then_some("9999-12-31T23:59:59Z"), "{profile}");
    }
}

#[tokio::test]
async fn a_slow_pause_is_seen_in_the_list_refuses_deletes_and_is_waited_for_by_v070_only() {
    for (profile, busy) in [(Profile::V051, 500), (Profile::V060, 503), (Profile::V070, 503)] {
        let stage = Stage::with(profile).await;
        let id = stage.create(json!({})).await;
        stage.sim.fault(Fault::SlowPause { ms: 5000 });
        let path = format!("/sandboxes/{id}");
        let pause = format!("{path}/pause");
        let pausing = stage.call("POST", &pause, Value::Null);
        let meanwhile = async {
            let pausing = || stage.sim.sandbox(&id).is_some_and(|one| one.state == State::Pausing);
            until("it is pausing", pausing).await;
            let list = stage.call("GET", "/v2/sandboxes", Value::Null).await.json();
            assert_eq!(list[0]["state"], "pausing", "{profile}");
            assert_eq!(stage.get(&id).await.json()["state"], "running", "{profile}: GET has no word for it");
            assert_eq!(stage.call("DELETE", &path, Value::Null).await.code(), busy, "{profile}");
            stage.pass(5);
        };
        let (answered, ()) = tokio::join!(pausing, meanwhile);
        assert_eq!(answered.code(), 204, "{profile}");
        assert_eq!(stage.sim.sandbox(&id).map(|one| one.state), Some(State::Paused), "{profile}");
    }
}

#[tokio::test]
async fn a_volume_is_mounted_by_its_id_and_cannot_be_deleted_while_it_is() {
    for profile in [Profile::V060, Profile::V070] {
        let stage = Stage::with(profile).await;
        stage.call("POST", "/volumes", json!({ "name": "v1" })).await;
        let twice = stage.call("POST", "/volumes", json!({ "name": "v1" })).await;
        assert_eq!(twice.code(), 409, "{profile}");
        let mount = |name: &str| json!([{ "name": name, "path": "/data" }]);
        let id = stage.create(json!({ "volumeMounts": mount("v1") })).await;
        let foreign = json!({ "templateID": TEMPLATE, "volumeMounts": mount("v2") });
        assert_eq!(stage.call("POST", "/sandboxes", foreign).await.code(), 404, "{profile}");

        assert_eq!(stage.call("DELETE", "/volumes/v1", Value::Null).await.code(), 409, "{profile}");
        stage.call("DELETE", &format!("/sandboxes/{id}"), Value::Null).await;
        assert_eq!(stage.call("DELETE", "/volumes/v1", Value::Null).await.code(), 204, "{profile}");
    }
}
