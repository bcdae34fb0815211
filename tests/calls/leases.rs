//! The native API: acquire, beat, release; sealed ids, revival, renewal, templates of the bucket.

use std::time::Duration;

use serde_json::{Value, json};

use super::stage::{Stage, path, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::State;
use crate::support::http::{Answer, Caller};

const SECOND: Duration = Duration::from_secs(1);
const TEMPLATES: &str = "[bucket_defaults]\ntemplate = \"tpl-000000000000000000000001\"\n";

async fn acquire(caller: &Caller, body: &Value) -> Answer {
    caller.post("/v1/leases", &body.to_string()).await
}

async fn acts(caller: &Caller, what: &str, lease: &Answer) -> Answer {
    let body = json!({"owner_id": lease.text("owner_id"), "lease_id": lease.text("lease_id")});
    caller.post(&format!("/v1/lease-{what}"), &body.to_string()).await
}

async fn held(stage: &Stage, run: &str) -> Answer {
    let lease = acquire(&stage.warden.caller(), &json!({"run": run})).await;
    assert!(lease.status.is_success(), "{lease:?}");
    lease
}

#[tokio::test]
async fn a_lease_is_acquired_beats_and_is_released_and_then_it_never_acts_again() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let caller = stage.warden.caller();
    let lease =
        acquire(&caller, &json!({"project": "p", "run": "r", "lease_id": "mine", "metadata": {"a": "b"}}))
            .await;
    assert_eq!(lease.status, 201, "{lease:?}");
    assert_eq!((lease.text("lease_id"), lease.text("owner_id")), ("mine".into(), "default.dev.p.r".into()));
    let id = lease.text("sandbox_id");
    assert_eq!(lease.json()["sandbox"]["sandboxID"], json!(id));
    assert_eq!(lease.json()["reused"], json!(false));
    // Leases pause when they time out, are resumed by traffic, and carry their owner.
    let sent: Value = serde_json::from_str(&stage.created()[0]).unwrap();
    assert_eq!(sent["lifecycle"], json!({"onTimeout": "pause", "autoResume": true}));
    assert_eq!(
        (&sent["timeout"], &sent["templateID"]),
        (&json!(300), &json!("tpl-000000000000000000000001"))
    );
    assert_eq!(
        (&sent["metadata"]["a"], &sent["metadata"]["owner_id"]),
        (&json!("b"), &json!("default.dev.p.r"))
    );
    assert!(sent.get("run").is_none() && sent.get("lease_id").is_none());

    stage.skip(SECOND * 30);
    let beat = acts(&caller, "heartbeats", &lease).await;
    assert_eq!(
        (beat.status.as_u16(), &beat.json()["renewed"]),
        (200, &json!(false)),
        "not after a tenth of its time"
    );
    let released = acts(&caller, "releases", &lease).await;
    assert_eq!(released.status, 202, "{released:?}");
    stage.balance(0).await;
    assert!(stage.cube.sandbox(&id).is_none());
    for what in ["heartbeats", "releases"] {
        refused(&acts(&caller, what, &lease).await, 409, "LEASE_SEALED");
    }
    let again = acquire(&caller, &json!({"project": "p", "run": "r", "lease_id": "mine"})).await;
    refused(&again, 409, "LEASE_SEALED");
}

#[tokio::test]
async fn whoever_acquires_last_holds_it_and_the_one_before_is_sealed() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let caller = stage.warden.caller();
    let (a, b) = (held(&stage, "r").await, held(&stage, "r").await);
    assert_eq!((b.status.as_u16(), &b.json()["reused"]), (200, &json!(true)));
    assert_eq!(a.text("sandbox_id"), b.text("sandbox_id"));
    assert!(b.json()["generation"].as_u64() > a.json()["generation"].as_u64());
    for what in ["heartbeats", "releases"] {
        refused(&acts(&caller, what, &a).await, 409, "LEASE_SEALED");
    }
    assert_eq!(acts(&caller, "heartbeats", &b).await.status, 200);
    // The same lease again is the same holder: nothing is overtaken by a repeated request.
    let body = json!({"run": "r", "lease_id": b.text("lease_id")});
    assert_eq!(acquire(&caller, &body).await.json()["generation"], b.json()["generation"]);
    assert_eq!(acts(&caller, "releases", &b).await.status, 202);
    stage.balance(0).await;
}

#[tokio::test]
async fn a_lease_of_nobody_or_of_somebody_else_is_a_mismatch() {
    let config = format!("{}{TEMPLATES}", two_tenants());
    let stage = timed(Profile::V070, &config).await;
    let lease = acquire(&stage.a(), &json!({"run": "r"})).await;
    assert_eq!((lease.status.as_u16(), lease.text("owner_id")), (201, "a.prod.-.r".into()));
    refused(&acts(&stage.b(), "heartbeats", &lease).await, 409, "LEASE_MISMATCH");
    refused(&acts(&stage.b(), "releases", &lease).await, 409, "LEASE_MISMATCH");
    let other = json!({"owner_id": lease.text("owner_id"), "lease_id": "another"}).to_string();
    refused(&stage.a().post("/v1/lease-heartbeats", &other).await, 409, "LEASE_MISMATCH");
    refused(&stage.a().post("/v1/lease-releases", &other).await, 409, "LEASE_MISMATCH");
    refused(
        &acquire(&stage.b(), &json!({"namespace": "a", "env": "prod", "run": "r"})).await,
        403,
        "FORBIDDEN_BUCKET",
    );
    refused(&stage.warden.caller().post("/v1/leases", "{}").await, 401, "UNAUTHENTICATED");
    stage.balance(1).await;
}

/// EB24: what a beat does is decided by the warden; nothing in the sandbox renews anything.
#[tokio::test]
async fn a_beat_renews_upstream_after_a_third_of_the_timeout_and_reads_the_end_back() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let (caller, lease) = (stage.warden.caller(), held(&stage, "r").await);
    let renewals = format!("POST /sandboxes/{}/timeout", lease.text("sandbox_id"));
    for (after, renewed) in [(99, false), (1, true), (30, false), (70, true)] {
        stage.skip(SECOND * after);
        let beat = acts(&caller, "heartbeats", &lease).await;
        assert_eq!(beat.json()["renewed"], json!(renewed), "{beat:?}");
    }
    assert_eq!(stage.times(&renewals), 2);
    let entry = stage.warden.entries().await.remove(0);
    assert_eq!(entry.deadline.unwrap().since(entry.asked), SECOND * 500, "300 s from the last renewal");
}

#[tokio::test]
async fn a_renewal_that_cube_does_not_honour_is_said_and_ends_the_lease() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let (caller, lease) = (stage.warden.caller(), held(&stage, "r").await);
    let refusing =
        Fault::Refuse { status: 500, body: r#"{"code":500,"message":"no"}"#.into(), retry_after: None };
    let fault = stage.cube.fault(refusing.on(Kind::Timeout));
    stage.skip(SECOND * 100);
    refused(&acts(&caller, "heartbeats", &lease).await, 409, "RENEWAL_FAILED");
    let entry = stage.warden.entries().await.remove(0);
    assert!(entry.lease.as_ref().is_some_and(|lease| lease.failing.is_some()));
    // It is tried at each beat from now on, and once Cube honours it all is well.
    stage.skip(SECOND * 10);
    refused(&acts(&caller, "heartbeats", &lease).await, 409, "RENEWAL_FAILED");
    stage.cube.remove_fault(fault);
    assert_eq!(acts(&caller, "heartbeats", &lease).await.json()["renewed"], json!(true));
    assert_eq!(stage.metric("cubewarden_lease_events_total{event=\"renewal_failed\"}"), 2);
}

#[tokio::test]
async fn a_lapsed_lease_that_nobody_overtook_lives_again() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let (caller, lease) = (stage.warden.caller(), held(&stage, "r").await);
    stage.skip(SECOND * 400);
    stage.cube.tick();
    let paused = stage.cube.sandbox(&lease.text("sandbox_id")).unwrap();
    assert_eq!(paused.state, State::Paused, "it timed out");
    assert_eq!(acts(&caller, "heartbeats", &lease).await.status, 200, "a beat wakes nobody");
    assert_eq!(stage.cube.sandbox(&lease.text("sandbox_id")).unwrap().state, State::Paused);
    let body = json!({"run": "r", "lease_id": lease.text("lease_id")});
    let revived = acquire(&caller, &body).await;
    assert_eq!(revived.json()["generation"], lease.json()["generation"], "{revived:?}");
    assert_eq!(stage.cube.sandbox(&lease.text("sandbox_id")).unwrap().state, State::Running);
    stage.balance(1).await;
}

#[tokio::test]
async fn templates_come_from_the_bucket_the_body_or_nowhere() {
    let light = format!("{TEMPLATES}light_template = \"tpl-000000000000000000000002\"\n");
    let stage = timed(Profile::V070, &light).await;
    let caller = stage.warden.caller();
    acquire(&caller, &json!({"run": "1", "template": "light"})).await;
    acquire(&caller, &json!({"run": "2", "template_id": "tpl-x"})).await;
    acquire(&caller, &json!({"run": "3", "templateID": "tpl-y"})).await;
    let templates: Vec<Value> = stage
        .created()
        .iter()
        .map(|body| serde_json::from_str::<Value>(body).unwrap()["templateID"].clone())
        .collect();
    assert_eq!(templates, ["tpl-000000000000000000000002", "tpl-x", "tpl-y"]);
    refused(&acquire(&caller, &json!({"run": "4", "template": "heavy"})).await, 400, "BAD_REQUEST");
    let without = timed(Profile::V070, "").await;
    refused(&acquire(&without.warden.caller(), &json!({"run": "1"})).await, 400, "BAD_REQUEST");
}

#[tokio::test]
async fn what_is_missing_or_malformed_is_named() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let caller = stage.warden.caller();
    for (path, body, names) in [
        ("/v1/leases", "{}", "owner"),
        ("/v1/leases", r#"{"run":7}"#, "run must be text"),
        ("/v1/leases", r#"{"run":"r","run":"s"}"#, "twice"),
        ("/v1/leases", r#"{"run":"r","lease_id":"a b"}"#, "lease_id"),
        ("/v1/leases", "[1]", "JSON object"),
        ("/v1/leases", r#"{"owner_id":"a/b"}"#, "owner_id"),
        ("/v1/lease-heartbeats", r#"{"owner_id":"x"}"#, "lease_id is missing"),
        ("/v1/lease-releases", r#"{"lease_id":"x"}"#, "owner_id is missing"),
    ] {
        let answer = caller.post(path, body).await;
        refused(&answer, 400, "BAD_REQUEST");
        assert!(answer.text("message").contains(names), "{path} {body}: {answer:?}");
    }
    assert_eq!(stage.asked(), Vec::<String>::new());
    stage.balance(0).await;
}

/// A release is carried out by any warden: what dies after the intent was written down is finished.
#[tokio::test]
async fn a_release_goes_on_though_cube_refuses_at_first() {
    let stage = timed(Profile::V070, TEMPLATES).await;
    let (caller, lease) = (stage.warden.caller(), held(&stage, "r").await);
    let refusing =
        Fault::Refuse { status: 500, body: r#"{"code":500,"message":"no"}"#.into(), retry_after: None };
    stage.cube.fault(refusing.on(Kind::Delete).times(1));
    assert_eq!(acts(&caller, "releases", &lease).await.status, 202);
    refused(&caller.get(&path(&lease.text("sandbox_id"), "")).await, 404, "NOT_FOUND");
    stage.until_due(SECOND * 2).await;
    stage.skip(SECOND * 2);
    stage.due().await;
    stage.balance(0).await;
}
