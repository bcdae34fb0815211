//! Idempotency-Key: one tenant, one key, one body: one upstream call and one answer.

use std::time::Duration;

use super::stage::{BODY, Stage, path, real, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::{Answer, Caller};

const SECOND: Duration = Duration::from_secs(1);

fn create(caller: &Caller) -> tokio::task::JoinHandle<Answer> {
    let caller = caller.clone();
    tokio::spawn(async move { caller.post("/sandboxes", BODY).await })
}

async fn with_key(profile: Profile) -> (Stage, Caller) {
    let stage = timed(profile, "").await;
    let caller = stage.warden.caller().with("idempotency-key", "k-1");
    (stage, caller)
}

/// EB09
#[tokio::test]
async fn two_creates_at_once_with_one_key_are_one() {
    let stage = real(Profile::V070, "").await;
    let caller = stage.warden.caller().with("idempotency-key", "k-1");
    let held = stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let (one, two) = (create(&caller), create(&caller));
    stage.cube.until_held(1).await;
    assert_eq!(stage.warden.held().await, 1);
    stage.cube.remove_fault(held);
    stage.cube.release();
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    assert_eq!((one.status.as_u16(), two.status.as_u16()), (201, 201));
    assert_eq!(one.body, two.body, "the same answer");
    assert_eq!(stage.times("POST /sandboxes"), 1);
    let third = caller.post("/sandboxes", BODY).await;
    assert_eq!((third.status, &third.body), (one.status, &one.body));
    stage.balance(1).await;
}

/// EB09
#[tokio::test]
async fn a_key_with_another_body_is_a_conflict() {
    let (stage, caller) = with_key(Profile::V070).await;
    caller.create(BODY).await;
    let other = caller.post("/sandboxes", &BODY.replace("300", "301")).await;
    refused(&other, 409, "IDEMPOTENCY_MISMATCH");
    assert_eq!(stage.times("POST /sandboxes"), 1);
    stage.balance(1).await;
}

/// EB09
#[tokio::test]
async fn a_retry_with_its_key_claims_the_sandbox_whose_answer_was_lost() {
    let (stage, caller) = with_key(Profile::V070).await;
    stage.cube.fault(Fault::Block { late_ms: Some(35_000) }.on(Kind::Create).times(1));
    let first = create(&caller);
    stage.pass(30 * SECOND).await;
    refused(&first.await.unwrap(), 504, "OUTCOME_UNKNOWN");
    stage.skip(5 * SECOND);
    stage.due().await;
    assert_eq!(stage.states().await, ["live"], "found, and kept for a retry that can claim it");
    let retry = caller.post("/sandboxes", BODY).await;
    assert_eq!((retry.status.as_u16(), retry.text("sandboxID")), (201, stage.cube.alive()[0].id.clone()));
    assert_eq!(retry.text("templateID"), "tpl-000000000000000000000001");
    assert_eq!(stage.times("POST /sandboxes"), 1);
    stage.skip(121 * SECOND);
    stage.due().await;
    stage.balance(1).await;
}

#[tokio::test]
async fn a_found_create_that_nobody_claims_is_killed_after_120_s() {
    let (stage, caller) = with_key(Profile::V070).await;
    stage.cube.fault(Fault::Reset { done: true }.on(Kind::Create).times(1));
    refused(&caller.post("/sandboxes", BODY).await, 504, "OUTCOME_UNKNOWN");
    stage.due().await;
    assert_eq!(stage.states().await, ["live"]);
    stage.skip(119 * SECOND);
    stage.due().await;
    assert_eq!(stage.states().await, ["live"]);
    stage.skip(SECOND);
    stage.due().await;
    stage.due().await;
    stage.balance(0).await;
    let retry = caller.post("/sandboxes", BODY).await;
    assert_eq!(retry.status, 201, "what came to nothing is free again");
    assert_eq!(stage.times("POST /sandboxes"), 2);
    stage.balance(1).await;
}

#[tokio::test]
async fn a_retry_while_the_outcome_is_open_waits_for_it() {
    let (stage, caller) = with_key(Profile::V070).await;
    stage.cube.fault(Fault::Reset { done: true }.on(Kind::Create).times(1));
    refused(&caller.post("/sandboxes", BODY).await, 504, "OUTCOME_UNKNOWN");
    let retry = create(&caller);
    assert_eq!(caller.get("/health").await.status, 200);
    assert!(!retry.is_finished());
    stage.due().await;
    let retry = retry.await.unwrap();
    assert_eq!(retry.status, 201, "{retry:?}");
    assert_eq!(stage.times("POST /sandboxes"), 1);
    stage.balance(1).await;
}

#[tokio::test]
async fn a_key_is_free_again_once_its_create_was_refused_or_its_sandbox_is_gone() {
    let (stage, caller) = with_key(Profile::V070).await;
    stage.cube.fault(Fault::NoResource.on(Kind::Create).times(1));
    assert_eq!(caller.post("/sandboxes", BODY).await.status, 429);
    let first = caller.create(BODY).await;
    assert_eq!(caller.delete(&path(&first, "")).await.status, 204);
    let second = caller.create(BODY).await;
    assert_ne!(first, second);
    stage.balance(1).await;
}

#[tokio::test]
async fn a_key_lasts_a_day_and_is_its_tenants_own() {
    let stage = timed(Profile::V070, &two_tenants()).await;
    // Each time over a new connection: an old one has long been closed.
    let a = || stage.a().with("idempotency-key", "k");
    let b = || stage.b().with("idempotency-key", "k");
    let never = r#"{"templateID":"tpl-000000000000000000000001"}"#;
    let of_a = a().create(never).await;
    let of_b = b().create(never).await;
    assert_ne!(of_a, of_b);
    stage.skip((24 * 3600 - 1) * SECOND);
    assert_eq!(a().create(never).await, of_a);
    stage.skip(SECOND);
    assert_ne!(a().create(never).await, of_a);
    for bad in ["", &"x".repeat(256)] {
        let answer = stage.a().with("idempotency-key", bad).post("/sandboxes", never).await;
        refused(&answer, 400, "BAD_REQUEST");
    }
    let twice = stage.a().with("idempotency-key", "x").with("idempotency-key", "y");
    refused(&twice.post("/sandboxes", never).await, 400, "BAD_REQUEST");
    stage.balance(3).await;
}

#[tokio::test]
async fn a_create_with_a_key_is_kept_for_its_retry_when_its_client_hangs_up() {
    let stage = real(Profile::V070, "").await;
    let caller = stage.warden.caller().with("idempotency-key", "k");
    stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let create = create(&caller);
    stage.cube.until_held(1).await;
    create.abort();
    assert!(create.await.is_err());
    for _ in 0..2 {
        assert_eq!(caller.get("/health").await.status, 200);
    }
    stage.cube.release();
    let id = caller.create(BODY).await;
    assert_eq!(stage.cube.alive()[0].id, id);
    assert_eq!(stage.times("POST /sandboxes"), 1);
    stage.balance(1).await;
}
