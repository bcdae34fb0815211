//! Calls that touch a living sandbox: connect and resume, timeout and refreshes, pause: what goes up, what the ledger keeps.

use std::time::Duration;

use super::stage::{BODY, Stage, path, real, refused, timed};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::State;
use crate::support::until;

const SECOND: Duration = Duration::from_secs(1);
const START: u64 = 1_800_000_000_000;

async fn deadline(stage: &Stage) -> Option<u64> {
    stage.warden.entries().await[0].deadline.map(|at| at.0)
}

#[tokio::test]
async fn timeouts_move_the_ledgers_deadline_and_stop_at_the_ceiling() {
    let stage = timed(Profile::V070, "[bucket_defaults]\nmax_timeout = \"1h\"\n").await;
    let id = stage.warden.caller().create(BODY).await;
    for (tail, body, seconds) in [
        ("/timeout", r#"{"timeout":600}"#, 600),
        ("/timeout", r#"{"timeout":60}"#, 60),
        ("/timeout", r#"{"timeout":7200}"#, 3600),
        ("/timeout", r#"{"timeout":-1}"#, 3600),
        ("/refreshes", r#"{"duration":900}"#, 900),
        ("/refreshes", r#"{"duration":7200}"#, 3600),
    ] {
        let answer = stage.warden.caller().post(&path(&id, tail), body).await;
        assert_eq!(answer.status, 204, "{tail} {body}: {answer:?}");
        assert_eq!(deadline(&stage).await, Some(START + seconds * 1000), "{tail} {body}");
        assert_eq!(stage.cube.sandbox(&id).unwrap().end_at_ms, Some(START + seconds * 1000), "{tail} {body}");
    }
    for bad in [r#"{"timeout":1,"timeout":2}"#, "[]", "{"] {
        refused(&stage.warden.caller().post(&path(&id, "/timeout"), bad).await, 400, "BAD_REQUEST");
    }
    stage.balance(1).await;
}

#[tokio::test]
async fn without_a_ceiling_never_is_never() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    assert_eq!(deadline(&stage).await, Some(START + 300_000));
    assert_eq!(stage.warden.caller().post(&path(&id, "/timeout"), r#"{"timeout":-1}"#).await.status, 204);
    assert_eq!(deadline(&stage).await, None);
    stage.balance(1).await;
}

#[tokio::test]
async fn connect_under_v2_reaches_a_cube_that_has_only_v1() {
    for profile in [Profile::V051, Profile::V060, Profile::V070] {
        let stage = real(profile, "").await;
        let caller = stage.warden.caller();
        let id = caller.create(BODY).await;
        let route = format!("/v2/sandboxes/{id}/connect");
        for round in 0..3 {
            assert_eq!(caller.post(&path(&id, "/pause"), "").await.status, 204);
            until("it is paused", || stage.cube.sandbox(&id).unwrap().state == State::Paused).await;
            let answer = caller.post(&route, r#"{"timeout":600}"#).await;
            assert!(answer.status.is_success(), "{profile:?} {round}: {answer:?}");
            assert_eq!(answer.text("sandboxID"), id);
            assert_eq!(stage.cube.sandbox(&id).unwrap().state, State::Running);
        }
        assert_eq!(stage.times(&format!("POST {route}")), 1, "{profile:?}: asked once, remembered");
        refused(&caller.post(&route, r#"{"timeout":600,"memory":false}"#).await, 400, "BAD_REQUEST");
        stage.balance(1).await;
    }
}

#[tokio::test]
async fn connect_never_shortens_and_never_exceeds_the_ceiling() {
    let stage = timed(Profile::V070, "[bucket_defaults]\nmax_timeout = \"1h\"\n").await;
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    for (timeout, seconds) in [(60, 300), (600, 600), (7200, 3600)] {
        let body = format!(r#"{{"timeout":{timeout}}}"#);
        assert_eq!(caller.post(&path(&id, "/connect"), &body).await.status.as_u16() / 100, 2);
        assert_eq!(stage.cube.sandbox(&id).unwrap().end_at_ms, Some(START + seconds * 1000), "{timeout}");
        let known = deadline(&stage).await;
        assert!(known.is_none_or(|known| known == START + seconds * 1000), "{timeout}: {known:?}");
    }
    stage.balance(1).await;
}

#[tokio::test]
async fn a_touch_whose_outcome_is_unknown_keeps_its_registration_until_it_lapses() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    stage.skip(200 * SECOND);
    stage.cube.fault(Fault::Reset { done: true }.on(Kind::Pause).times(1));
    let answer = stage.warden.caller().post(&path(&id, "/pause"), "").await;
    refused(&answer, 504, "UPSTREAM_TIMEOUT");
    assert_eq!(stage.warden.entries().await[0].operations.len(), 1);
    assert!(stage.cube.let_die(&id));
    assert_eq!(stage.warden.caller().get(&path(&id, "")).await.status, 404);
    assert_eq!(stage.warden.held().await, 1, "a call may still be under way");
    stage.skip(200 * SECOND);
    assert_eq!(stage.warden.caller().get(&path(&id, "")).await.status, 404);
    stage.balance(0).await;
}

#[tokio::test]
async fn paused_ones_hold_their_slot_and_pauses_that_fail_change_nothing() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage
        .cube
        .fault(Fault::Backend { code: 130_490, message: "wrong state".into() }.on(Kind::Pause).times(1));
    let failed = stage.warden.caller().post(&path(&id, "/pause"), "").await;
    assert!(failed.status.as_u16() >= 400);
    let entry = stage.warden.entries().await.remove(0);
    assert_eq!((entry.paused_since(), entry.operations.len()), (None, 0));
    assert_eq!(stage.warden.caller().post(&path(&id, "/pause"), "").await.status, 204);
    assert!(stage.warden.entries().await[0].paused_since().is_some());
    stage.balance(1).await;
}
