//! Reuse through create: an owner that asks again gets its living sandbox under a new generation; late clean-ups of whoever
//! held it before end nothing.

use std::time::Duration;

use serde_json::json;

use super::stage::{NO_WAIT, Stage, body_with, path, real, refused, timed};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::State;
use crate::support::http::Answer;

const SECOND: Duration = Duration::from_secs(1);
const QUALIFIED: &str = "[bucket_defaults]\nreuse = true\nids = \"qualified\"\n";
const BARE: &str = "[bucket_defaults]\nreuse = true\n";

/// A create for the session `s`.
fn session() -> String {
    body_with(&json!({"session_id": "s"}))
}

async fn asks(stage: &Stage) -> Answer {
    let answer = stage.warden.caller().post("/sandboxes", &session()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

/// The bare id.
fn bare(answer: &Answer) -> String {
    answer.text("sandboxID")[..32].to_owned()
}

#[tokio::test]
async fn an_owner_that_asks_again_gets_the_same_sandbox_under_a_new_generation_and_no_slot() {
    let config = format!("{NO_WAIT}{QUALIFIED}limit = 1\n");
    let stage = timed(Profile::V070, &config).await;
    let first = asks(&stage).await;
    stage.skip(SECOND);
    let second = asks(&stage).await;
    assert_eq!(bare(&first), bare(&second));
    assert_ne!(first.text("sandboxID"), second.text("sandboxID"), "the generation rises");
    assert_ne!(first.header("x-cube-lease-id"), second.header("x-cube-lease-id"));
    // What Cube gives only once is given again.
    assert_eq!(first.json()["trafficAccessToken"], second.json()["trafficAccessToken"]);
    assert_eq!(stage.created().len(), 1, "Cube made one sandbox");
    let entries = stage.warden.entries().await;
    assert_eq!((entries.len(), entries[0].holders, entries[0].claims), (1, 2, 2));
    // Somebody without an owner of its own, or with another, is somebody else.
    refused(
        &stage.warden.caller().post("/sandboxes", &body_with(&json!({"run": "t"}))).await,
        429,
        "CAPACITY_EXCEEDED",
    );
    stage.balance(1).await;
}

#[tokio::test]
async fn with_qualified_ids_every_late_clean_up_is_fenced_and_the_holders_own_works() {
    for profile in [Profile::V051, Profile::V070] {
        let stage = timed(profile, QUALIFIED).await;
        let caller = stage.warden.caller();
        let a = asks(&stage).await.text("sandboxID");
        let b = asks(&stage).await.text("sandboxID");
        let dead = caller.delete(&path(&a, "")).await;
        refused(&dead, 404, "NOT_FOUND");
        refused(&caller.post(&path(&a, "/timeout"), r#"{"timeout":0}"#).await, 404, "NOT_FOUND");
        refused(&caller.post(&path(&a, "/timeout"), r#"{"timeout":1}"#).await, 404, "NOT_FOUND");
        refused(&caller.post(&path(&a, "/connect"), r#"{"timeout":60}"#).await, 404, "NOT_FOUND");
        refused(&caller.post(&path(&a, "/refreshes"), r#"{"duration":1}"#).await, 404, "NOT_FOUND");
        refused(&caller.post(&path(&a, "/pause"), "").await, 412, "FENCED_GENERATION");
        refused(&caller.get(&path(&a, "")).await, 404, "NOT_FOUND");
        assert_eq!(stage.states().await, ["live"]);
        assert_eq!(stage.metric("cubewarden_decisions_total{decision=\"fenced\"}"), 7);
        assert_eq!(caller.get(&path(&b, "")).await.status, 200);
        assert_eq!(caller.delete(&path(&b, "")).await.status, 204);
        stage.balance(0).await;
    }
}

#[tokio::test]
async fn a_list_names_the_present_generation_and_a_bare_id_joins_it() {
    let stage = timed(Profile::V070, QUALIFIED).await;
    let caller = stage.warden.caller();
    asks(&stage).await;
    let b = asks(&stage).await;
    let listed = caller.get("/sandboxes").await.json();
    assert_eq!(listed[0]["sandboxID"], b.json()["sandboxID"]);
    for asked in [bare(&b), b.text("sandboxID")] {
        assert_eq!(caller.get(&path(&asked, "")).await.json()["sandboxID"], b.json()["sandboxID"]);
    }
    assert_eq!(caller.post(&path(&bare(&b), "/connect"), r#"{"timeout":60}"#).await.status, 200);
    let same = stage.warden.entries().await;
    assert_eq!(same[0].holders, 2, "connect never raises a generation");
}

#[tokio::test]
async fn with_bare_ids_an_unproven_delete_gives_up_a_claim_and_ends_nothing_that_is_in_use() {
    let stage = timed(Profile::V070, &format!("{BARE}on_timeout = \"pause\"\n")).await;
    let caller = stage.warden.caller();
    let id = bare(&asks(&stage).await);
    asks(&stage).await;
    // A's kill, its set_timeout(0), its connect and kill: all arrive late.
    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!(caller.post(&path(&id, "/timeout"), r#"{"timeout":0}"#).await.status, 204);
    assert_eq!(caller.post(&path(&id, "/connect"), r#"{"timeout":60}"#).await.status, 200);
    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!(stage.states().await, ["live"], "B's sandbox lives");
    assert!(stage.cube.sandbox(&id).is_some_and(|one| one.state == State::Running));
    // A shorter end is accepted and moves nothing; a longer one moves it; an interruption cannot be put off.
    let before = stage.warden.entries().await[0].deadline;
    assert_eq!(caller.post(&path(&id, "/timeout"), r#"{"timeout":1}"#).await.status, 204);
    assert_eq!(stage.warden.entries().await[0].deadline, before);
    refused(&caller.post(&path(&id, "/pause"), "").await, 412, "FENCED_GENERATION");
    // B's own kill: accepted at once; it goes when no claim and no root is left.
    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!(stage.states().await, ["live"], "its granted end is ahead");
    stage.skip(SECOND * 400);
    stage.due().await;
    stage.due().await;
    stage.balance(0).await;
    assert!(stage.cube.sandbox(&id).is_none());
    assert!(stage.metric("cubewarden_decisions_total{decision=\"defer\"}") >= 4);
}

#[tokio::test]
async fn the_lease_id_in_a_header_proves_a_holder_where_ids_are_bare() {
    let stage = timed(Profile::V070, BARE).await;
    let a = asks(&stage).await;
    let b = asks(&stage).await;
    let id = bare(&b);
    let by = |answer: &Answer| {
        stage.warden.caller().with("x-cube-lease-id", answer.header("x-cube-lease-id").unwrap())
    };
    refused(&by(&a).delete(&path(&id, "")).await, 409, "FENCED_GENERATION");
    refused(&by(&a).post(&path(&id, "/connect"), r#"{"timeout":60}"#).await, 409, "FENCED_GENERATION");
    assert_eq!(by(&b).post(&path(&id, "/timeout"), r#"{"timeout":30}"#).await.status, 204);
    assert_eq!(by(&b).delete(&path(&id, "")).await.status, 204);
    stage.balance(0).await;
    let bad = stage.warden.caller().with("x-cube-lease-id", "no spaces").delete(&path(&id, "")).await;
    refused(&bad, 400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_paused_sandbox_is_woken_for_the_owner_that_asks_again() {
    for profile in [Profile::V051, Profile::V060, Profile::V070] {
        let stage = timed(profile, QUALIFIED).await;
        let a = asks(&stage).await;
        assert_eq!(stage.warden.caller().post(&path(&a.text("sandboxID"), "/pause"), "").await.status, 204);
        stage.skip(SECOND * 5);
        stage.cube.forget_requests();
        let b = asks(&stage).await;
        assert_eq!(bare(&a), bare(&b));
        assert!(stage.cube.sandbox(&bare(&b)).is_some_and(|one| one.state == State::Running));
        assert_eq!(stage.times(&format!("POST /sandboxes/{}/connect", bare(&b))), 1);
        let entry = stage.warden.entries().await.remove(0);
        assert_eq!((entry.incarnation, entry.paused_since()), (1, None), "{profile:?}");
        stage.balance(1).await;
    }
}

#[tokio::test]
async fn a_running_sandbox_is_renewed_for_its_new_holder_and_its_end_is_read_back() {
    let stage = timed(Profile::V070, QUALIFIED).await;
    asks(&stage).await;
    let first = stage.warden.entries().await.remove(0).deadline.unwrap();
    stage.skip(SECOND * 150);
    stage.cube.forget_requests();
    let b = asks(&stage).await;
    assert_eq!(stage.times(&format!("POST /sandboxes/{}/timeout", bare(&b))), 1);
    // Once to see whether it still runs, once to see what came of the renewal.
    assert_eq!(stage.times(&format!("GET /sandboxes/{}", bare(&b))), 2);
    let renewed = stage.warden.entries().await.remove(0).deadline.unwrap();
    assert_eq!(renewed.since(first), SECOND * 150);
}

#[tokio::test]
async fn what_is_asked_for_otherwise_is_refused_and_metadata_and_timeout_may_differ() {
    let stage = timed(Profile::V070, QUALIFIED).await;
    let caller = stage.warden.caller();
    asks(&stage).await;
    let same = r#"{"timeout":60,"metadata":{"session_id":"s","more":"x"},"templateID":"tpl-000000000000000000000001","envVars":null}"#;
    assert_eq!(caller.post("/sandboxes", same).await.status, 201);
    let other =
        r#"{"templateID":"tpl-000000000000000000000001","metadata":{"session_id":"s"},"envVars":{"A":"b"}}"#;
    refused(&caller.post("/sandboxes", other).await, 409, "LEASE_MISMATCH");
    stage.balance(1).await;
}

#[tokio::test]
async fn two_creates_of_one_owner_at_once_become_one_sandbox() {
    let stage = real(Profile::V070, QUALIFIED).await;
    let hold = stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let spawn = || {
        let caller = stage.warden.caller();
        tokio::spawn(async move { caller.post("/sandboxes", &session()).await })
    };
    let first = spawn();
    stage.cube.until_held(1).await;
    let second = spawn();
    stage.settle().await;
    stage.cube.remove_fault(hold);
    stage.cube.release();
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.status, second.status), (201.try_into().unwrap(), 201.try_into().unwrap()));
    assert_eq!(bare(&first), bare(&second));
    assert_eq!(stage.created().len(), 1);
    stage.balance(1).await;
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_goes_to_the_owner_that_asks_again_as_its_first_holder() {
    let stage = timed(Profile::V070, BARE).await;
    stage.cube.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    let caller = stage.warden.caller();
    refused(&caller.post("/sandboxes", &session()).await, 504, "OUTCOME_UNKNOWN");
    stage.due().await;
    let b = asks(&stage).await;
    assert_eq!(stage.created().len(), 1, "it was found");
    let entry = stage.warden.entries().await.remove(0);
    assert_eq!((entry.holders, entry.claim_until), (1, None), "nobody was ever given it before");
    assert_eq!(caller.delete(&path(&bare(&b), "")).await.status, 204, "its bare id is proof enough");
    stage.balance(0).await;
}

#[tokio::test]
async fn an_owner_whose_sandbox_has_ended_gets_a_new_one() {
    let stage = timed(Profile::V070, QUALIFIED).await;
    let a = asks(&stage).await;
    assert_eq!(stage.warden.caller().delete(&path(&a.text("sandboxID"), "")).await.status, 204);
    let b = asks(&stage).await;
    assert_ne!(bare(&a), bare(&b));
    // One that Cube ended by itself, and nobody has noticed.
    assert!(stage.cube.let_die(&bare(&b)));
    stage.skip(SECOND * 301);
    let c = asks(&stage).await;
    assert_ne!(bare(&c), bare(&b));
    stage.balance(1).await;
}
