//! DELETE: the intent first, then the proof; what a client is told is what was proven.

use std::time::Duration;

use super::stage::{BODY, NO_WAIT, NOBODY, Stage, limit_of, path, real, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::State;
use crate::support::http::Answer;
use crate::support::until;

const SECOND: Duration = Duration::from_secs(1);

async fn paused(stage: &Stage) -> String {
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    assert_eq!(caller.post(&path(&id, "/pause"), "").await.status, 204);
    until("it is paused", || stage.cube.sandbox(&id).is_some_and(|one| one.state == State::Paused)).await;
    stage.cube.forget_requests();
    id
}

fn failing(status: u16) -> Fault {
    Fault::Refuse { status, body: format!(r#"{{"code":{status},"message":"no"}}"#), retry_after: None }
}

/// Starts a DELETE and does not wait for it.
fn delete(stage: &Stage, id: &str) -> tokio::task::JoinHandle<Answer> {
    let (caller, path) = (stage.warden.caller(), path(id, ""));
    tokio::spawn(async move { caller.delete(&path).await })
}

/// CB01
#[tokio::test]
async fn a_paused_sandbox_that_refuses_its_delete_is_woken_and_deleted() {
    let stage = timed(Profile::V051, "").await;
    let id = paused(&stage).await;
    let answer = stage.warden.caller().delete(&path(&id, "")).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let (delete, wake) = (format!("DELETE /sandboxes/{id}"), format!("POST /sandboxes/{id}/resume"));
    assert_eq!(stage.asked(), [&delete, &wake, &delete, &format!("GET /sandboxes/{id}")].map(String::as_str));
    let wake = stage.cube.requests()[1].body.clone();
    let wake: serde_json::Value = serde_json::from_slice(&wake).unwrap();
    assert_eq!((&wake["autoPause"], &wake["timeout"]), (&false.into(), &60.into()));
    stage.balance(0).await;
}

/// CB01
#[tokio::test]
async fn where_delete_just_works_nobody_is_woken() {
    for profile in [Profile::V060, Profile::V070] {
        let stage = timed(profile, "").await;
        let id = paused(&stage).await;
        assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204);
        assert_eq!(stage.asked(), [format!("DELETE /sandboxes/{id}")]);
        stage.balance(0).await;
    }
}

#[tokio::test]
async fn paused_ones_are_woken_a_few_at_a_time() {
    let stage = real(Profile::V051, "[reconciler]\nmax_wakes = 2\n").await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(paused(&stage).await);
    }
    let held = stage.cube.fault(Fault::Hold { done: false }.on(Kind::Resume));
    let deletes: Vec<_> = ids.iter().map(|id| delete(&stage, id)).collect();
    stage.cube.until_held(2).await;
    until("all were refused", || stage.asked().iter().filter(|line| line.starts_with("DELETE")).count() == 6)
        .await;
    stage.settle().await;
    assert_eq!(stage.cube.held(), 2, "the budget of wake-ups is two");
    stage.cube.remove_fault(held);
    stage.cube.release();
    for answer in deletes {
        assert_eq!(answer.await.unwrap().status, 204);
    }
    stage.balance(0).await;
}

/// CB03
#[tokio::test]
async fn a_delete_that_cube_puts_off_is_repeated_when_cube_said() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    let busy = stage.cube.fault(Fault::DeleteBusy.on(Kind::Delete).times(1));
    let answer = delete(&stage, &id);
    let line = format!("DELETE /sandboxes/{id}");
    until("Cube has put it off", || stage.cube.struck(busy) == 1).await;
    stage.until_due(2 * SECOND).await;
    assert_eq!(stage.states().await, ["killing"]);
    stage.skip(Duration::from_millis(1999));
    stage.settle().await;
    assert_eq!((stage.times(&line), stage.warden.held().await), (1, 1), "not before it was told to");
    stage.skip(Duration::from_millis(1));
    assert_eq!(answer.await.unwrap().status, 204);
    assert_eq!(stage.times(&line), 2);
    stage.balance(0).await;
}

/// EB23
#[tokio::test]
async fn a_delete_that_fails_three_times_frees_its_slot_with_the_fourth() {
    let stage = timed(Profile::V070, &(limit_of("default/dev", 1) + NO_WAIT)).await;
    let id = stage.warden.caller().create(BODY).await;
    let fault = stage.cube.fault(failing(500).on(Kind::Delete).times(3));
    let answer = delete(&stage, &id);
    for (failed, wait) in [(1, 2), (2, 4), (3, 8)] {
        until("it failed", || stage.cube.struck(fault) == failed).await;
        stage.until_due(wait * SECOND).await;
        assert_eq!(stage.states().await, ["killing"]);
        refused(&stage.warden.caller().post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
        stage.skip(wait * SECOND);
    }
    // 14 s are within the client's 25: it is told once it is proven, and not before.
    assert_eq!(answer.await.unwrap().status, 204);
    assert_eq!(stage.times(&format!("DELETE /sandboxes/{id}")), 4);
    stage.balance(0).await;
}

/// EB23
#[tokio::test]
async fn a_client_whose_delete_keeps_failing_is_not_told_that_it_is_done() {
    let stage =
        timed(Profile::V070, "[reconciler]\nquarantine_after = 3\nquarantine_retry = \"10m\"\n").await;
    let id = stage.warden.caller().create(BODY).await;
    let fault = stage.cube.fault(failing(500).on(Kind::Delete));
    let first = delete(&stage, &id);
    for (failed, wait) in [(1, 2), (2, 4)] {
        until("it failed", || stage.cube.struck(fault) == failed).await;
        stage.until_due(wait * SECOND).await;
        stage.skip(wait * SECOND);
    }
    let first = first.await.unwrap();
    refused(&first, 503, "DELETE_PENDING");
    assert_eq!(first.header("retry-after"), Some("2"));
    assert_eq!((stage.states().await, stage.warden.held().await), (vec!["quarantined"], 1));
    assert_eq!(stage.warden.caller().get(&path(&id, "")).await.status, 404, "dead to its callers");
    stage.skip(599 * SECOND);
    stage.due().await;
    assert_eq!(stage.cube.struck(fault), 3, "retried slowly");
    stage.cube.clear_faults();
    stage.skip(SECOND);
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn a_repeated_delete_of_a_quarantined_one_tries_at_once() {
    let stage = timed(Profile::V070, "[reconciler]\nquarantine_after = 1\n").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(failing(500).on(Kind::Delete).times(1));
    refused(&stage.warden.caller().delete(&path(&id, "")).await, 503, "DELETE_PENDING");
    assert_eq!(stage.states().await, ["quarantined"]);
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204);
    stage.balance(0).await;
}

#[tokio::test]
async fn a_hung_delete_is_pending_after_25_s_and_a_second_one_joins_it() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    let first = delete(&stage, &id);
    stage.cube.until_held(1).await;
    stage.skip(25 * SECOND);
    let first = first.await.unwrap();
    refused(&first, 503, "DELETE_PENDING");
    assert_eq!(first.header("retry-after"), Some("2"));
    assert_eq!(stage.states().await, ["killing"]);
    let second = delete(&stage, &id);
    stage.settle().await;
    stage.cube.release();
    assert_eq!(second.await.unwrap().status, 204);
    assert_eq!(stage.times(&format!("DELETE /sandboxes/{id}")), 1, "the second joined the first");
    stage.balance(0).await;
}

#[tokio::test]
async fn how_long_a_client_waits_for_its_delete_is_the_operators_to_say() {
    let stage = timed(Profile::V070, "[reconciler]\ndelete_wait = \"5s\"\n").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    let answer = delete(&stage, &id);
    stage.cube.until_held(1).await;
    stage.skip(5 * SECOND);
    refused(&answer.await.unwrap(), 503, "DELETE_PENDING");
    stage.cube.release();
    stage.balance(0).await;
}

#[tokio::test]
async fn two_deletes_at_once_are_one_and_both_are_told() {
    let stage = real(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    let (one, two) = (delete(&stage, &id), delete(&stage, &id));
    stage.cube.until_held(1).await;
    stage.settle().await;
    stage.cube.release();
    assert_eq!([one.await.unwrap().status, two.await.unwrap().status], [204, 204]);
    assert_eq!(stage.times(&format!("DELETE /sandboxes/{id}")), 1);
    let third = stage.warden.caller().delete(&path(&id, "")).await;
    refused(&third, 404, "NOT_FOUND");
    stage.balance(0).await;
}

#[tokio::test]
async fn a_lost_answer_to_delete_is_cleared_by_a_get() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    // Old enough for a 404 to be believed.
    stage.skip(181 * SECOND);
    stage.cube.fault(Fault::LoseAnswer.on(Kind::Delete).times(1));
    let answer = stage.warden.caller().delete(&path(&id, "")).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    stage.balance(0).await;
}

#[tokio::test]
async fn codes_that_prove_nothing_free_nothing() {
    let stage = timed(Profile::V070, "").await;
    let never = r#"{"templateID":"tpl-000000000000000000000001"}"#;
    let id = stage.warden.caller().create(never).await;
    stage.skip(200 * SECOND);
    for code in [130_406, 130_408] {
        let fault = Fault::Backend { code, message: "NotFoundAtCubelet".into() };
        let deletes = stage.cube.fault(fault.clone().on(Kind::Delete));
        let gets = stage.cube.fault(fault.on(Kind::Get));
        stage.warden.caller().get(&path(&id, "")).await;
        stage.skip(120 * SECOND);
        stage.due().await;
        assert_eq!(stage.states().await, ["live"], "{code}");
        stage.cube.remove_fault(deletes);
        stage.cube.remove_fault(gets);
    }
    let empty = Fault::Refuse { status: 404, body: String::new(), retry_after: None };
    stage.cube.fault(empty.on(Kind::Get).times(1));
    stage.warden.caller().get(&path(&id, "")).await;
    assert_eq!(stage.states().await, ["live"], "a 404 of somebody else proves nothing");
    stage.balance(1).await;
}

#[tokio::test]
async fn a_delete_while_a_connect_is_in_flight_wins_and_the_connect_finds_it_dead() {
    let stage = real(Profile::V070, "").await;
    let id = paused(&stage).await;
    let held = stage.cube.fault(Fault::Hold { done: false }.on(Kind::Connect).times(1));
    let (caller, route) = (stage.warden.caller(), path(&id, "/connect"));
    let connect = tokio::spawn(async move { caller.post(&route, r#"{"timeout":60}"#).await });
    stage.cube.until_held(1).await;
    let deleted = delete(&stage, &id);
    until("the delete is under way", || stage.times(&format!("DELETE /sandboxes/{id}")) >= 1).await;
    assert_eq!(stage.warden.held().await, 1, "an operation is in flight: nothing is proven");
    refused(&stage.warden.caller().post(&path(&id, "/connect"), "{}").await, 404, "NOT_FOUND");
    stage.cube.remove_fault(held);
    stage.cube.release();
    assert_eq!(connect.await.unwrap().status, 404);
    let deleted = deleted.await.unwrap();
    assert_eq!(deleted.status, 204, "it was there, and is gone by this DELETE: {deleted:?}");
    stage.balance(0).await;
}

#[tokio::test]
async fn timeout_0_is_a_delete() {
    let stage = timed(Profile::V051, "").await;
    let id = paused(&stage).await;
    let answer = stage.warden.caller().post(&path(&id, "/timeout"), r#"{"timeout":0}"#).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    assert!(stage.cube.alive().is_empty());
    stage.balance(0).await;
}

#[tokio::test]
async fn anothers_delete_is_the_404_of_nobodys_and_touches_nothing() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(BODY).await;
    stage.cube.forget_requests();
    let (anothers, nobodys) =
        (stage.b().delete(&path(&id, "")).await, stage.b().delete(&path(NOBODY, "")).await);
    refused(&anothers, 404, "NOT_FOUND");
    refused(&nobodys, 404, "NOT_FOUND");
    assert_eq!(stage.times(&format!("DELETE /sandboxes/{id}")), 0);
    stage.balance(1).await;
}

#[tokio::test]
async fn in_open_mode_what_has_no_record_is_deleted_as_before() {
    let stage = timed(Profile::V070, "[adopt]\nbucket = \"none\"\n").await;
    let id = stage.cube.plant(crate::cube::model::Plant::default());
    assert_eq!(stage.warden.caller().get(&path(&id, "")).await.status, 200);
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204);
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 404);
    stage.balance(0).await;
}
