//! Lists and reads: the caller's own, whole, even where Cube leaves things out or forgets them.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{BODY, NO_WAIT, Stage, body_with, limit_of, path, real, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::{Answer, Caller};

const SECOND: Duration = Duration::from_secs(1);

/// The ids of a list.
fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let items = answer.json();
    let id = |item: &Value| item["sandboxID"].as_str().unwrap().to_owned();
    items.as_array().unwrap().iter().map(id).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

async fn pause(caller: &Caller, id: &str) {
    assert_eq!(caller.post(&path(id, "/pause"), "").await.status, 204);
}

/// CB06
#[tokio::test]
async fn a_paused_sandbox_that_cube_leaves_out_of_its_list_stays_its_owners() {
    let config = two_tenants() + &limit_of("a/prod", 1) + NO_WAIT;
    let stage = timed(Profile::V070, &config).await;
    let body =
        r#"{"templateID":"tpl-000000000000000000000001","timeout":60,"autoPause":true,"metadata":{"k":"v"}}"#;
    let id = stage.a().create(body).await;
    stage.skip(61 * SECOND);
    assert_eq!(stage.cube.sandbox(&id).unwrap().state, crate::cube::model::State::Paused);
    let omit = stage.cube.fault(Fault::Omit { ids: [id.clone()].into() });
    for _ in 0..5 {
        stage.skip(60 * SECOND);
        stage.inventory().await;
        stage.due().await;
    }
    let entry = &stage.warden.entries().await[0];
    assert_eq!((entry.state.name(), entry.paused_since().is_some()), ("live", true));
    assert_eq!(entry.bucket.to_string(), "a/prod");
    refused(&stage.a().post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    for list in ["/sandboxes", "/v2/sandboxes", "/v2/sandboxes?state=paused", "/sandboxes?metadata=k%3Dv"] {
        assert_eq!(ids(&stage.a().get(list).await), [id.as_str()], "{list}");
        assert_eq!(ids(&stage.b().get(list).await), [""; 0], "{list}");
    }
    assert_eq!(stage.a().get(&path(&id, "")).await.text("state"), "paused");
    stage.balance(1).await;
    // Only when a GET no longer finds it is it gone, once.
    assert!(stage.cube.let_die(&id));
    stage.inventory().await;
    assert_eq!(stage.warden.held().await, 0);
    stage.inventory().await;
    stage.cube.remove_fault(omit);
    stage.a().create(BODY).await;
    refused(&stage.a().post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    stage.balance(1).await;
}

/// What the create sent: what Cube adds on its own account is left out.
fn own_metadata(item: &Value) -> serde_json::Map<String, Value> {
    let mut metadata = item["metadata"].as_object().unwrap().clone();
    metadata.retain(|key, _| !key.starts_with("cube.") && key != "X-Caller");
    metadata
}

/// CB10
#[tokio::test]
async fn what_cube_forgets_at_a_pause_the_ledger_remembers() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(&body_with(&json!({"session_id": "s 1", "k": "v"}))).await;
    let before = stage.a().get(&path(&id, "")).await.json();
    pause(&stage.a(), &id).await;
    let bare = Caller::new(&stage.cube.url()).get(&path(&id, "")).await.json();
    assert!(bare["metadata"].as_object().is_none_or(serde_json::Map::is_empty), "Cube has lost it: {bare}");
    let after = stage.a().get(&path(&id, "")).await.json();
    assert_eq!(after["templateID"], before["templateID"]);
    assert_eq!(own_metadata(&after), own_metadata(&before));
    assert_eq!(own_metadata(&after)["session_id"], "s 1");
    assert_eq!(after["state"], "paused");
    for list in ["/v2/sandboxes", "/v2/sandboxes?metadata=k%3Dv", "/sandboxes?metadata=session_id%3Ds%2B1"] {
        let listed = stage.a().get(list).await;
        assert_eq!(ids(&listed), [id.as_str()], "{list}");
        assert_eq!(own_metadata(&listed.json()[0]), own_metadata(&before), "{list}");
    }
    assert_eq!(ids(&stage.b().get("/v2/sandboxes").await), [""; 0]);
    for _ in 0..3 {
        stage.inventory().await;
    }
    assert_eq!(stage.warden.warden.tasks.foreign(), 0, "it is no stranger's");
    let connect = path(&id, "/connect");
    refused(&stage.b().post(&connect, r#"{"timeout":60}"#).await, 404, "NOT_FOUND");
    assert_eq!(stage.a().post(&connect, r#"{"timeout":60}"#).await.status.as_u16() / 100, 2);
    stage.balance(1).await;
}

#[tokio::test]
async fn labels_that_cube_does_not_show_make_nobody_a_stranger() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(&body_with(&json!({"k": "v"}))).await;
    stage.cube.fault(Fault::ForgetLabels);
    stage.inventory().await;
    assert_eq!(stage.warden.warden.tasks.foreign(), 0);
    assert_eq!(ids(&stage.a().get("/sandboxes?metadata=k%3Dv").await), [id.as_str()]);
    assert_eq!(ids(&stage.b().get("/sandboxes").await), [""; 0]);
    stage.balance(1).await;
}

#[tokio::test]
async fn each_tenant_sees_its_own_and_nothing_of_the_others() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let mut of_a = vec![stage.a().create(BODY).await];
    of_a.push(stage.a().with("x-cube-env", "dev").create(BODY).await);
    let of_b = vec![stage.b().create(BODY).await];
    let foreign = stage.cube.plant(crate::cube::model::Plant::default());
    for list in
        ["/sandboxes", "/v2/sandboxes", "/v2/sandboxes?limit=100", "/v2/sandboxes?state=running,paused"]
    {
        assert_eq!(sorted(ids(&stage.a().get(list).await)), sorted(of_a.clone()), "{list}");
        assert_eq!(ids(&stage.b().get(list).await), of_b, "{list}");
    }
    assert_eq!(stage.a().get(&path(&foreign, "")).await.status, 404, "nobody's is not everybody's");
    stage.balance(3).await;
}

#[tokio::test]
async fn filters_are_understood_as_the_sdks_mean_them() {
    let stage = real(Profile::V070, "").await;
    let caller = stage.warden.caller();
    let odd = "b c/ä&=+%";
    let id = caller.create(&body_with(&json!({"a": odd, "x": "1"}))).await;
    let other = caller.create(&body_with(&json!({"a": "other", "x": "1"}))).await;
    let once = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let quoted = |text: &str| once(text).replace('+', "%20");
    // Thrice: each half quoted, the pairs urlencoded, and that as a query value.
    let thrice = quoted(&format!("{}={}", once(&quoted("a")), once(&quoted(odd))));
    let twice = quoted(&format!("{}={}", once("a"), once(odd)));
    for metadata in [&thrice, &twice] {
        for list in ["/sandboxes", "/v2/sandboxes"] {
            assert_eq!(ids(&caller.get(&format!("{list}?metadata={metadata}")).await), [id.as_str()]);
        }
    }
    let both = caller.get("/v2/sandboxes?metadata=x%3D1").await;
    assert_eq!(sorted(ids(&both)), sorted(vec![id.clone(), other.clone()]));
    assert_eq!(ids(&caller.get("/v2/sandboxes?metadata=x%3D1%26a%3Dother").await), [other.as_str()]);
    assert_eq!(ids(&caller.get("/v2/sandboxes?metadata=x%3D2").await), [""; 0]);
    pause(&caller, &other).await;
    for (state, expected) in [
        ("running", vec![id.clone()]),
        ("paused", vec![other.clone()]),
        ("running%2Cpaused", sorted(vec![id.clone(), other.clone()])),
        ("running&state=paused", sorted(vec![id.clone(), other.clone()])),
    ] {
        let answer = caller.get(&format!("/v2/sandboxes?state={state}")).await;
        assert_eq!(sorted(ids(&answer)), expected, "{state}");
    }
    stage.balance(2).await;
}

/// All pages, one after the other.
async fn pages(caller: &Caller, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut next) = (Vec::new(), String::new());
    loop {
        let answer = caller.get(&format!("/v2/sandboxes?{query}{next}")).await;
        pages.push(ids(&answer));
        match answer.header("x-next-token") {
            Some(token) => next = format!("&nextToken={token}"),
            None => return pages,
        }
    }
}

#[tokio::test]
async fn pages_are_the_wardens_and_show_each_once() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(stage.a().create(&body_with(&json!({"n": (n % 2).to_string()}))).await);
        stage.b().create(BODY).await;
    }
    let all = pages(&stage.a(), "limit=3").await;
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(sorted(all.concat()), sorted(made.clone()));
    let odd = pages(&stage.a(), "limit=2&metadata=n%3D1").await;
    assert_eq!(odd.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let first = stage.a().get("/v2/sandboxes?limit=3").await;
    let token = first.header("x-next-token").unwrap().to_owned();
    // One of the first page dies meanwhile: the next page is the same.
    assert_eq!(stage.a().delete(&path(&ids(&first)[0], "")).await.status, 204);
    assert_eq!(ids(&stage.a().get(&format!("/v2/sandboxes?limit=3&nextToken={token}")).await), all[1]);
    refused(&stage.a().get("/v2/sandboxes?nextToken=bad").await, 400, "BAD_REQUEST");
    refused(&stage.a().get("/v2/sandboxes?limit=x").await, 400, "BAD_REQUEST");
    stage.balance(13).await;
}

#[tokio::test]
async fn what_is_condemned_is_shown_no_more() {
    let stage = timed(Profile::V070, "").await;
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    let (deleter, route) = (caller.clone(), path(&id, ""));
    let delete = tokio::spawn(async move { deleter.delete(&route).await });
    stage.cube.until_held(1).await;
    assert_eq!(ids(&caller.get("/v2/sandboxes").await), [""; 0]);
    refused(&caller.get(&path(&id, "")).await, 404, "NOT_FOUND");
    for (tail, body) in
        [("/timeout", r#"{"timeout":60}"#), ("/connect", "{}"), ("/pause", ""), ("/snapshots", "{}")]
    {
        refused(&caller.post(&path(&id, tail), body).await, 404, "NOT_FOUND");
    }
    stage.cube.release();
    assert_eq!(delete.await.unwrap().status, 204);
    stage.balance(0).await;
}

#[tokio::test]
async fn a_list_that_fails_upstream_is_cubes_own_failure_and_ends_nothing() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(BODY).await;
    stage.skip(200 * SECOND);
    for fault in [Fault::ListFails, Fault::TransportError, Fault::EmptyList] {
        let rule = stage.cube.fault(fault.on(Kind::List));
        stage.inventory().await;
        stage.due().await;
        let list = stage.a().get("/sandboxes").await;
        assert!([200, 500].contains(&list.status.as_u16()), "{list:?}");
        assert!(list.json()["code"].as_u64().is_none_or(|code| code == 500));
        assert_eq!(stage.warden.held().await, 1);
        stage.cube.remove_fault(rule);
    }
    assert_eq!(ids(&stage.a().get("/sandboxes").await), [id.as_str()]);
    stage.balance(1).await;
}

async fn held_and_shown(stage: &Stage, id: &str) -> (u64, u16) {
    let status = stage.a().get(&path(id, "")).await.status.as_u16();
    (stage.warden.held().await, status)
}

#[tokio::test]
async fn a_read_that_proves_absence_gives_the_slot_back_unless_it_is_newborn() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let body = r#"{"templateID":"tpl-000000000000000000000001"}"#;
    let id = stage.a().create(body).await;
    stage.cube.let_die(&id);
    assert_eq!(held_and_shown(&stage, &id).await, (1, 404));
    stage.skip(179 * SECOND);
    assert_eq!(held_and_shown(&stage, &id).await, (1, 404), "too young for a 404 to be believed");
    stage.skip(SECOND);
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 404);
    stage.balance(0).await;
}
