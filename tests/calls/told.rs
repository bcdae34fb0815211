//! What a client is told of an end, also when it asks again, and when the ledger or Cube fails in the middle.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::store::Store;
use cubewarden::store::embedded::Embedded;
use cubewarden::time::Clock;

use super::stage::{BODY, NO_WAIT, Stage, limit_of, path, refused, timed};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::{FaultyStore, When};
use crate::support::http::Answer;
use crate::support::warden;

const SECOND: Duration = Duration::from_secs(1);

/// Starts a DELETE that hangs at Cube, and lets the client's patience pass.
async fn pending(stage: &Stage, id: &str) {
    let held = stage.cube.held();
    let (caller, route) = (stage.warden.caller(), path(id, ""));
    let delete: tokio::task::JoinHandle<Answer> = tokio::spawn(async move { caller.delete(&route).await });
    stage.cube.until_held(held.max(1)).await;
    stage.settle().await;
    stage.skip(25 * SECOND);
    refused(&delete.await.unwrap(), 503, "DELETE_PENDING");
}

#[tokio::test]
async fn whoever_was_sent_away_gets_its_204_when_it_comes_back_and_only_once() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    pending(&stage, &id).await;
    stage.cube.release();
    stage.balance(0).await;
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204);
    refused(&stage.warden.caller().delete(&path(&id, "")).await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn whoever_waits_again_is_told_and_then_nothing_is_owed() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    pending(&stage, &id).await;
    let (caller, route) = (stage.warden.caller(), path(&id, ""));
    let again = tokio::spawn(async move { caller.delete(&route).await });
    stage.settle().await;
    stage.cube.release();
    assert_eq!(again.await.unwrap().status, 204);
    refused(&stage.warden.caller().delete(&path(&id, "")).await, 404, "NOT_FOUND");
    stage.balance(0).await;
}

#[tokio::test]
async fn a_delete_that_happened_is_told_so_though_its_answer_was_lost_at_any_age() {
    for age in [0, 181] {
        let stage = timed(Profile::V070, "").await;
        let id = stage.warden.caller().create(BODY).await;
        stage.skip(age * SECOND);
        stage.cube.fault(Fault::LoseAnswer.on(Kind::Delete).times(1));
        assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204, "{age}");
        // A 404 of what is newborn is believed later; the slot waits for that, the client does not.
        assert_eq!(stage.warden.held().await, u64::from(age == 0));
        stage.skip(200 * SECOND);
        stage.due().await;
        stage.balance(0).await;
        refused(&stage.warden.caller().delete(&path(&id, "")).await, 404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn what_was_gone_before_it_was_deleted_is_a_404_however_often() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.skip(181 * SECOND);
    assert!(stage.cube.let_die(&id));
    for _ in 0..2 {
        refused(&stage.warden.caller().delete(&path(&id, "")).await, 404, "NOT_FOUND");
    }
    stage.balance(0).await;
}

/// A stage on a store that fails on purpose, with one slot.
async fn on_a_store() -> (Stage, Arc<FaultyStore>) {
    let config = limit_of("default/dev", 1) + NO_WAIT;
    let mut stage = timed(Profile::V070, &config).await;
    let clock: Arc<dyn Clock> = Arc::new(stage.clock.clone());
    let below: Arc<dyn Store> = Arc::new(Embedded::in_memory(clock).unwrap());
    let store = FaultyStore::wrap(below);
    let builder = warden::before(&stage.cube.url()).config(&config).clock(&stage.clock).without_tasks();
    stage.warden = builder.store(Arc::clone(&store) as Arc<dyn Store>).start().await;
    (stage, store)
}

#[tokio::test]
async fn a_delete_whose_intent_stands_is_pending_when_the_ledger_fails_after_it() {
    let (stage, store) = on_a_store().await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.fault(Fault::Hold { done: true }.on(Kind::Delete).times(1));
    let (caller, route) = (stage.warden.caller(), path(&id, ""));
    let delete = tokio::spawn(async move { caller.delete(&route).await });
    stage.cube.until_held(1).await;
    store.down();
    stage.cube.release();
    refused(&delete.await.unwrap(), 503, "DELETE_PENDING");
    store.heal();
    let again = stage.warden.caller().delete(&path(&id, "")).await;
    assert!([204, 404].contains(&again.status.as_u16()), "{again:?}");
    stage.skip(200 * SECOND);
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn nobody_is_told_that_nothing_was_done_when_the_reply_to_an_intent_is_lost() {
    let (stage, store) = on_a_store().await;
    let id = stage.warden.caller().create(BODY).await;
    store.lose_reply(When::Nth(store.commits() + 1));
    let answer = stage.warden.caller().delete(&path(&id, "")).await;
    refused(&answer, 503, "LEDGER_UNAVAILABLE");
    assert!(!answer.text("message").contains("nothing was done"), "{answer:?}");
    assert_eq!(stage.states().await, ["killing"]);
    stage.due().await;
    stage.balance(0).await;
}

#[tokio::test]
async fn what_cube_did_is_answered_as_cube_did_though_the_ledger_cannot_hear_it() {
    let (stage, store) = on_a_store().await;
    let id = stage.warden.caller().create(BODY).await;
    store.unavailable(When::Nth(store.commits() + 2));
    let answer = stage.warden.caller().post(&path(&id, "/timeout"), r#"{"timeout":900}"#).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    stage.balance(1).await;
}

#[tokio::test]
async fn a_dispatch_that_was_not_confirmed_sends_nothing_and_gives_its_slot_back_at_the_next_look() {
    let (stage, store) = on_a_store().await;
    store.lose_reply(When::Nth(store.commits() + 1));
    refused(&stage.warden.caller().post("/sandboxes", BODY).await, 503, "LEDGER_UNAVAILABLE");
    assert_eq!(stage.created().len(), 0, "nothing was sent");
    assert_eq!(stage.states().await, ["dispatched"]);
    // The store stays away for one look more.
    store.unavailable(When::Next(1));
    assert!(stage.warden.warden.tasks.tick_due().await.is_err());
    stage.warden.warden.tasks.tick_due().await.unwrap();
    assert_eq!(stage.warden.held().await, 0);
    stage.warden.caller().create(BODY).await;
    stage.balance(1).await;
}

#[tokio::test]
async fn a_fenced_pause_says_that_nothing_was_paused() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    let fenced = stage.warden.caller().post(&path(&id, "-gmx22x1lw/pause"), "").await;
    refused(&fenced, 412, "FENCED_GENERATION");
    assert!(stage.warden.entries().await[0].paused_since().is_none());
    assert_eq!(stage.times(&format!("POST /sandboxes/{id}/pause")), 0);
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 204);
    refused(&stage.warden.caller().post(&path(&id, "-gmx22x1lw/pause"), "").await, 404, "NOT_FOUND");
    stage.balance(0).await;
}

#[tokio::test]
async fn a_refresh_of_nothing_is_cubes_to_refuse_and_the_sandbox_is_looked_at() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    for body in ["{}", r#"{"duration":0}"#] {
        let answer = stage.warden.caller().post(&path(&id, "/refreshes"), body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    // A Cube that takes it for an end.
    stage
        .cube
        .fault(Fault::Refuse { status: 204, body: String::new(), retry_after: None }.on(Kind::Refreshes));
    assert!(stage.cube.let_die(&id));
    assert_eq!(stage.warden.caller().post(&path(&id, "/refreshes"), "{}").await.status, 204);
    stage.skip(5 * SECOND);
    stage.due().await;
    stage.balance(0).await;
}
