//! Every labelled series of the reconciler, the kills and the upstream's latency moves, each by a story of its own.

use std::time::Duration;

use super::stage::{BODY, Stage, path, refused, timed};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::until;

const SECOND: Duration = Duration::from_secs(1);
/// A create that lives for a minute.
const SHORT: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":60}"#;

/// A marker of ours that no record has.
const MARKER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn reconciled(stage: &Stage, result: &str) -> u64 {
    stage.metric(&format!(r#"cubewarden_reconciled_total{{result="{result}"}}"#))
}

fn kills(stage: &Stage) -> [u64; 4] {
    ["gone", "already_gone", "failed", "quarantined"]
        .map(|result| stage.metric(&format!(r#"cubewarden_kills_total{{result="{result}"}}"#)))
}

#[tokio::test]
async fn what_the_reconciler_settles_is_counted_by_what_it_came_to() {
    let stage = timed(Profile::V070, "").await;
    let keyed = |key: &str| stage.warden.caller().with("idempotency-key", key);
    for key in ["claimed", "left"] {
        stage.cube.fault(Fault::Reset { done: true }.on(Kind::Create).times(1));
        assert_eq!(keyed(key).post("/sandboxes", BODY).await.status, 504);
        stage.skip(5 * SECOND);
        stage.due().await;
    }
    assert_eq!((reconciled(&stage, "found"), reconciled(&stage, "claimed")), (2, 0));
    for _ in 0..2 {
        assert_eq!(keyed("claimed").post("/sandboxes", BODY).await.status, 201);
        assert_eq!(reconciled(&stage, "claimed"), 1, "it is claimed once");
    }
    stage.skip(121 * SECOND);
    stage.due().await;
    assert_eq!(reconciled(&stage, "unclaimed"), 1);

    stage.cube.fault(Fault::Reset { done: false }.on(Kind::Create).times(1));
    assert_eq!(stage.warden.caller().post("/sandboxes", BODY).await.status, 504);
    stage.warden.caller().create(SHORT).await;
    for wait in [80, 5, 5, 510] {
        stage.skip(wait * SECOND);
        stage.due().await;
    }
    assert_eq!(reconciled(&stage, "never_came"), 1);
    assert!(reconciled(&stage, "ended") >= 1);

    stage.cube.seed_sandboxes(1, &[].into());
    stage.inventory().await;
    assert_eq!(reconciled(&stage, "imported"), 1);
    stage.cube.seed_sandboxes(1, &[].into());
    stage.inventory().await;
    let ours = [("namespace", "default"), ("env", "dev"), ("owner_id", "default.dev.p.r")];
    let carried = [("managed_by", "cubewarden"), ("cw_marker", MARKER)];
    let ledger = stage.warden.warden.ledger.id();
    let labels = ours.into_iter().chain(carried).chain([("cw_ledger", ledger.as_str())]);
    stage.cube.seed_sandboxes(1, &labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
    stage.inventory().await;
    let counted = ["imported", "round", "unrecorded"].map(|result| reconciled(&stage, result));
    assert_eq!(counted, [1, 1, 1]);
}

#[tokio::test]
async fn tries_to_kill_are_counted_by_what_they_came_to() {
    let stage = timed(Profile::V070, "[reconciler]\nquarantine_after = 2\n").await;
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!(kills(&stage), [1, 0, 0, 0]);

    let id = caller.create(SHORT).await;
    stage.skip(61 * SECOND);
    assert_eq!(caller.delete(&path(&id, "")).await.status, 404);
    assert_eq!(kills(&stage), [1, 1, 0, 0]);

    let id = caller.create(BODY).await;
    let sick = Fault::Refuse { status: 500, body: "{}".into(), retry_after: None };
    stage.cube.fault(sick.on(Kind::Delete));
    let delete = tokio::spawn(async move { caller.delete(&path(&id, "")).await });
    until("the first try has failed", || kills(&stage) == [1, 1, 1, 0]).await;
    stage.skip(2 * SECOND);
    stage.due().await;
    until("it is given up", || kills(&stage) == [1, 1, 1, 1]).await;
    stage.skip(60 * SECOND);
    assert_eq!(delete.await.unwrap().status, 503);
}

#[tokio::test]
async fn what_was_asked_of_cube_is_measured_by_whom_it_was_for() {
    let stage = timed(Profile::V070, "").await;
    let asked = |method: &str, asker: &str| {
        let name = "cubewarden_upstream_seconds_count";
        stage.metric(&format!(r#"{name}{{asker="{asker}",method="{method}"}}"#))
    };
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    assert_eq!((asked("POST", "call"), asked("POST", "task"), asked("POST", "pass_through")), (1, 0, 0));
    assert_eq!(caller.get("/health").await.status, 200);
    assert_eq!((asked("GET", "pass_through"), asked("GET", "task")), (1, 0));
    stage.inventory().await;
    assert_eq!((asked("GET", "task"), asked("GET", "call")), (1, 0));
    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!((asked("DELETE", "task"), asked("DELETE", "call")), (1, 0));
}

#[tokio::test]
async fn what_the_skin_refuses_is_counted_as_any_refusal() {
    let stage = timed(Profile::V070, "").await;
    let large = "x".repeat(2 * 1024 * 1024 + 1);
    let answer = stage.warden.caller().post("/sandboxes", &large).await;
    refused(&answer, 413, "BODY_TOO_LARGE");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    let count = || stage.metric(r#"cubewarden_refusals_total{bucket="other",reason="BODY_TOO_LARGE"}"#);
    until("it is counted once its answer is out", || count() == 1).await;
}
