//! What the tasks find out: lost creates, lying lists, the dead that come back, a ledger that cannot be asked or read.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::store::embedded::Embedded;
use cubewarden::store::schema::Key;
use cubewarden::store::{Batch, Store};
use serde_json::json;

use super::stage::{BODY, Stage, path, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::FaultyStore;
use crate::support::warden;

const SECOND: Duration = Duration::from_secs(1);

/// A create whose answer is lost before anything was done.
async fn lose_a_create(stage: &Stage) {
    stage.cube.fault(Fault::Reset { done: false }.on(Kind::Create).times(1));
    let answer = stage.warden.caller_with("e2b_aa").post("/sandboxes", BODY).await;
    refused(&answer, 504, "OUTCOME_UNKNOWN");
}

#[tokio::test]
async fn what_never_came_is_believed_after_three_listings_and_the_horizon() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    lose_a_create(&stage).await;
    // Before it can have arrived, a listing without it says nothing.
    for (wait, held) in [(0, 1), (79, 1), (1, 1), (5, 1), (510, 1), (4, 1), (1, 0)] {
        stage.skip(wait * SECOND);
        stage.due().await;
        assert_eq!(stage.warden.held().await, held, "after {wait} more seconds");
    }
    stage.balance(0).await;
}

#[tokio::test]
async fn the_horizon_alone_proves_nothing_without_three_listings() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    lose_a_create(&stage).await;
    let fails = stage.cube.fault(Fault::ListFails);
    for _ in 0..5 {
        stage.skip(300 * SECOND);
        stage.due().await;
        assert_eq!(stage.warden.held().await, 1, "a listing that fails is none");
    }
    stage.cube.remove_fault(fails);
    for held in [1, 1, 0] {
        stage.skip(5 * SECOND);
        stage.due().await;
        assert_eq!(stage.warden.held().await, held);
    }
    stage.balance(0).await;
}

#[tokio::test]
async fn a_list_that_leaves_out_what_exists_proves_nothing() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let known = stage.a().create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    lose_a_create(&stage).await;
    let lies = stage.cube.fault(Fault::EmptyList);
    for _ in 0..10 {
        stage.skip(100 * SECOND);
        stage.due().await;
        stage.inventory().await;
    }
    assert_eq!(stage.warden.held().await, 2);
    assert_eq!(stage.a().get(&path(&known, "")).await.status, 200);
    stage.cube.remove_fault(lies);
    for _ in 0..3 {
        stage.skip(5 * SECOND);
        stage.due().await;
    }
    stage.balance(1).await;
}

#[tokio::test]
async fn a_deadline_that_passed_is_asked_about_five_seconds_later() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    stage.a().create(r#"{"templateID":"tpl-000000000000000000000001","timeout":60}"#).await;
    let moved = stage.a().create(r#"{"templateID":"tpl-000000000000000000000001","timeout":60}"#).await;
    assert_eq!(stage.a().post(&path(&moved, "/timeout"), r#"{"timeout":120}"#).await.status, 204);
    stage.skip(64 * SECOND);
    stage.due().await;
    assert_eq!(stage.warden.held().await, 2);
    stage.skip(SECOND);
    stage.due().await;
    assert_eq!(stage.warden.held().await, 1, "the other's deadline has moved");
    stage.skip(60 * SECOND);
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn traffic_keeps_a_sandbox_whose_deadline_has_passed() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(r#"{"templateID":"tpl-000000000000000000000001","timeout":60}"#).await;
    for _ in 0..6 {
        stage.skip(30 * SECOND);
        stage.cube.traffic(&id);
        stage.due().await;
    }
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 200);
    stage.balance(1).await;
    stage.skip(61 * SECOND);
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn the_dead_that_come_back_are_charged_and_killed_again() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(BODY).await;
    stage.cube.fault(Fault::Resurrect { after_ms: 90_000 }.on(Kind::Delete).times(1));
    assert_eq!(stage.a().delete(&path(&id, "")).await.status, 204);
    stage.balance(0).await;
    stage.skip(91 * SECOND);
    assert_eq!(stage.cube.alive().len(), 1);
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 404, "dead to its owner all the same");
    stage.inventory().await;
    assert_eq!(stage.warden.held().await, 1);
    stage.due().await;
    stage.balance(0).await;
    assert!(stage.cube.alive().is_empty());
}

#[tokio::test]
async fn an_operation_in_flight_keeps_a_404_from_being_believed() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    stage.skip(200 * SECOND);
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Pause).times(1));
    let (a, route) = (stage.a(), path(&id, "/pause"));
    let pause = tokio::spawn(async move { a.post(&route, "").await });
    stage.cube.until_held(1).await;
    let missing =
        Fault::Refuse { status: 404, body: r#"{"code":404,"message":"no"}"#.into(), retry_after: None };
    stage.cube.fault(missing.on(Kind::Get).times(1));
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 404);
    assert_eq!(stage.warden.held().await, 1);
    stage.cube.release();
    assert_eq!(pause.await.unwrap().status, 204);
    stage.balance(1).await;
}

/// A stage whose ledger can fail.
async fn on_a_store(config: &str) -> (Stage, Arc<FaultyStore>, Arc<dyn Store>) {
    let mut stage = timed(Profile::V070, config).await;
    let below: Arc<dyn Store> = Arc::new(Embedded::in_memory(Arc::new(stage.clock.clone())).unwrap());
    let store = FaultyStore::wrap(Arc::clone(&below));
    let warden = warden::before(&stage.cube.url()).config(config).clock(&stage.clock).without_tasks();
    stage.warden = warden.store(Arc::clone(&store) as _).start().await;
    (stage, store, below)
}

#[tokio::test]
async fn without_the_ledger_reads_answer_what_they_can_attribute_and_the_rest_is_503() {
    let (stage, store, _) = on_a_store(&two_tenants()).await;
    let (a, b) = (stage.a(), stage.b());
    let (of_a, of_b) = (a.create(BODY).await, b.create(BODY).await);
    let strange = stage.cube.plant(crate::cube::model::Plant::default());
    store.down();
    let seen = |answer: crate::support::http::Answer| {
        assert_eq!(answer.status, 200, "{answer:?}");
        let items = answer.json();
        items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["sandboxID"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(a.get("/sandboxes").await), [of_a.as_str()]);
    assert_eq!(seen(b.get("/v2/sandboxes").await), [of_b.as_str()]);
    assert_eq!(a.get(&path(&of_a, "")).await.status, 200);
    for unseen in [&of_b, &strange] {
        refused(&a.get(&path(unseen, "")).await, 503, "LEDGER_UNAVAILABLE");
    }
    let longer = a.post(&path(&of_a, "/timeout"), r#"{"timeout":600}"#).await;
    assert_eq!(longer.status, 204, "{longer:?}");
    for (method, route, body) in [
        ("POST", path(&of_a, "/timeout"), r#"{"timeout":5}"#),
        ("POST", path(&of_a, "/timeout"), r#"{"timeout":0}"#),
        ("POST", path(&of_b, "/timeout"), r#"{"timeout":600}"#),
        ("POST", path(&strange, "/timeout"), r#"{"timeout":600}"#),
        ("POST", path(&of_a, "/connect"), r#"{"timeout":600}"#),
        ("POST", path(&of_a, "/pause"), ""),
        ("POST", path(&of_a, "/snapshots"), "{}"),
        ("DELETE", path(&of_a, ""), ""),
        ("POST", "/sandboxes".to_owned(), BODY),
        ("GET", "/volumes".to_owned(), ""),
    ] {
        let answer = a.call(method, &route, Some(body)).await;
        refused(&answer, 503, "LEDGER_UNAVAILABLE");
        assert_eq!(answer.header("should-retry"), Some("false"), "{method} {route}");
        assert!(answer.header("retry-after").is_some(), "{method} {route}");
    }
    assert_eq!(a.get("/templates").await.status, 200, "what only passes goes on");
    assert_eq!(a.get("/health").await.status, 200);
    assert!(stage.warden.warden.tasks.tick_due().await.is_err(), "the tasks do nothing");
    assert!(stage.warden.warden.tasks.tick_inventory().await.is_err());
    assert_eq!(stage.cube.alive().len(), 3);
    store.heal();
    assert_eq!(a.delete(&path(&of_a, "")).await.status, 204);
    stage.balance(1).await;
}

#[tokio::test]
async fn in_open_mode_without_the_ledger_reads_go_on() {
    let (stage, store, _) = on_a_store("").await;
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    store.down();
    assert_eq!(caller.get("/v2/sandboxes").await.json().as_array().map(Vec::len), Some(1));
    assert_eq!(caller.get(&path(&id, "")).await.status, 200);
    assert_eq!(caller.get("/snapshots").await.status, 200);
    refused(&caller.post("/sandboxes", BODY).await, 503, "LEDGER_UNAVAILABLE");
    refused(&caller.delete(&path(&id, "")).await, 503, "LEDGER_UNAVAILABLE");
    store.heal();
    stage.balance(1).await;
}

#[tokio::test]
async fn a_settlement_that_cannot_be_written_is_found_out_later() {
    let (stage, store, _) = on_a_store(&two_tenants()).await;
    // Reserved, dispatched, and then the ledger is gone.
    stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let a = stage.a();
    let create = tokio::spawn(async move { a.post("/sandboxes", BODY).await });
    stage.cube.until_held(1).await;
    store.down();
    stage.cube.release();
    refused(&create.await.unwrap(), 504, "OUTCOME_UNKNOWN");
    store.heal();
    assert_eq!(stage.states().await, ["dispatched"]);
    stage.skip(80 * SECOND);
    stage.due().await;
    stage.due().await;
    stage.until_held(0).await;
    stage.balance(0).await;
    assert!(stage.cube.alive().is_empty(), "nobody could claim it");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_named_and_the_others_go_on() {
    let (stage, _, below) = on_a_store(&two_tenants()).await;
    let (bad, good) = (stage.a().create(BODY).await, stage.a().create(BODY).await);
    let entries = stage.warden.entries().await;
    let marker =
        entries.iter().find(|entry| entry.sandbox.as_ref().unwrap().as_str() == bad).unwrap().marker.clone();
    let key = Key::Entry(marker);
    let was = below.read(std::slice::from_ref(&key)).await.unwrap().records.remove(0);
    let write = |value: Vec<u8>| Batch { put: vec![(key.clone(), value)], ..Batch::default() };
    below.commit(write(b"not a record".to_vec())).await.unwrap();
    let (_, corrupt) = stage.warden.warden.ledger.charged(None).await.unwrap();
    assert!(corrupt[0].to_string().contains(&key.to_string()), "{corrupt:?}");
    assert_eq!(stage.warden.held().await, 2, "it stays charged");
    let answer = stage.a().get(&path(&bad, "")).await;
    assert!([200, 503].contains(&answer.status.as_u16()), "{answer:?}");
    assert_eq!(stage.a().get(&path(&good, "")).await.status, 200);
    let listed = stage.a().get("/sandboxes").await;
    assert!(format!("{listed:?}").contains(&good), "{listed:?}");
    stage.skip(306 * SECOND);
    stage.due().await;
    assert_eq!(stage.warden.held().await, 1, "the good one is asked about, and gone");
    let status = stage.warden.warden.tasks.status();
    assert_eq!(status.corrupt_records, 1);
    below.commit(write(was.value)).await.unwrap();
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn another_ledgers_sandboxes_are_nobodys_here() {
    let (stage, _, _) = on_a_store(&two_tenants()).await;
    let metadata = json!({"managed_by": "cubewarden", "cw_ledger": "ffffffffffffffff", "namespace": "a", "env": "prod",
        "owner_id": "x", "cw_marker": "0123456789abcdef0123456789abcdef"});
    let metadata = serde_json::from_value(metadata).unwrap();
    let id = stage.cube.plant(crate::cube::model::Plant { metadata, ..Default::default() });
    stage.inventory().await;
    assert_eq!(stage.warden.warden.tasks.foreign(), 1);
    refused(&stage.a().get(&path(&id, "")).await, 404, "NOT_FOUND");
    refused(&stage.a().delete(&path(&id, "")).await, 404, "NOT_FOUND");
    assert_eq!(stage.a().get("/sandboxes").await.json(), json!([]));
    assert_eq!(stage.cube.alive().len(), 1);
    stage.balance(0).await;
}
