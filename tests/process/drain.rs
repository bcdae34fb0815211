//! Told to stop: what is under way is finished, nothing new begins, the ledger outlives the process.

use serde_json::json;

use super::program::Site;
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;

const CREATE: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":300}"#;

#[tokio::test]
async fn a_stopping_warden_finishes_what_is_under_way_and_the_next_one_goes_on_from_its_ledger() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "");
    let first = site.ready().await;
    let id = first.caller().create(CREATE).await;
    let ledger = first.log().iter().find_map(|line| line["ledger"].as_str().map(str::to_owned)).unwrap();
    cube.fault(Fault::Hold { done: false }.on(Kind::Create).times(1));
    let caller = first.caller();
    let under_way = tokio::spawn(async move { caller.post("/sandboxes", CREATE).await });
    cube.until_held(1).await;

    first.signal("TERM");
    let mut first = first;
    first.until_said("told to stop").await;
    // The operator still sees it; clients are sent away.
    let ready = first.operator().get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["draining"]), (503, &json!(true)));
    assert_eq!(first.held().await, 2);
    while first.caller().try_call("GET", "/health", None).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(first.runs());
    cube.release();
    let answer = under_way.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (201, Some("close")));
    assert_eq!(first.ended().await, 0);

    let second = site.ready().await;
    let again = second.log().iter().find_map(|line| line["ledger"].as_str().map(str::to_owned)).unwrap();
    assert_eq!((again, second.held().await), (ledger, 2));
    let caller = second.caller();
    assert_eq!(caller.get(&format!("/sandboxes/{id}")).await.status, 200);
    for sandbox in [id, answer.text("sandboxID")] {
        assert_eq!(caller.delete(&format!("/sandboxes/{sandbox}")).await.status, 204);
    }
    assert_eq!(second.held().await, 0);
    let live = r#"cubewarden_entries{bucket="default/dev",state="live"} 0"#;
    let scraped = second.operator().get("/metrics").await;
    assert!(String::from_utf8_lossy(&scraped.body).lines().any(|line| line == live));
    second.stop().await;
    assert!(cube.alive().is_empty());
}

#[tokio::test]
async fn a_call_that_nobody_awaits_any_more_is_waited_for_too() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "");
    let mut warden = site.ready().await;
    cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let caller = warden.caller();
    let leaver = tokio::spawn(async move { caller.post("/sandboxes", CREATE).await });
    cube.until_held(1).await;
    leaver.abort();
    // What the client did an instant before the answer came would prove nothing.
    warden.until_request_ended("caller_left").await;
    warden.signal("INT");
    warden.until_said("told to stop").await;
    assert!(warden.runs());
    cube.release();
    assert_eq!(warden.ended().await, 0);
    // Nobody could claim it, so it was ended again before the process was: nothing is left to be found.
    assert!(cube.alive().is_empty());
    let next = site.ready().await;
    assert_eq!(next.held().await, 0);
    next.stop().await;
}

#[tokio::test]
async fn what_only_passes_is_finished_too() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "");
    let mut warden = site.ready().await;
    cube.fault(Fault::Hold { done: false }.on(Kind::Templates).times(1));
    let caller = warden.caller();
    let passing = tokio::spawn(async move { caller.get("/templates").await });
    cube.until_held(1).await;
    warden.signal("QUIT");
    warden.until_said("told to stop").await;
    // The listener is closed and nothing else is under way: only the connection keeps the process.
    while warden.caller().try_call("GET", "/health", None).await.is_ok() {
        tokio::task::yield_now().await;
    }
    cube.release();
    let answer = passing.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (200, Some("close")));
    assert_eq!(warden.ended().await, 0);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cut_off_and_the_next_process_finds_its_sandbox() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "[proxy]\ndrain = \"100ms\"");
    let warden = site.ready().await;
    cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let caller = warden.caller();
    let cut_off = tokio::spawn(async move { caller.try_call("POST", "/sandboxes", Some(CREATE)).await });
    cube.until_held(1).await;
    warden.signal("TERM");
    assert_eq!(warden.ended().await, 0);
    assert!(cut_off.await.unwrap().is_err());
    cube.release();
    let next = site.ready().await;
    // It is charged until it is found, and then ended: nobody could claim it.
    while next.held().await > 0 || !cube.alive().is_empty() {
        tokio::task::yield_now().await;
    }
    next.stop().await;
}

#[tokio::test]
async fn told_twice_it_does_not_wait() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "");
    let mut warden = site.ready().await;
    cube.fault(Fault::Hold { done: false }.on(Kind::Create).times(1));
    let caller = warden.caller();
    tokio::spawn(async move { caller.try_call("POST", "/sandboxes", Some(CREATE)).await });
    cube.until_held(1).await;
    warden.signal("TERM");
    warden.until_said("told to stop").await;
    warden.signal("TERM");
    assert_eq!(warden.ended().await, 0);
}

#[tokio::test]
async fn a_create_that_waits_for_a_slot_is_told_to_try_elsewhere() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 1");
    let warden = site.ready().await;
    warden.caller().create(CREATE).await;
    let caller = warden.caller();
    let waiter = tokio::spawn(async move { caller.post("/sandboxes", CREATE).await });
    let operator = warden.operator();
    while operator.get("/v1/admin/buckets").await.json()["buckets"][0]["waiting"] != 1 {
        tokio::task::yield_now().await;
    }
    warden.signal("TERM");
    let answer = waiter.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.text("error_code").as_str()), (503, "DRAINING"));
    assert_eq!((answer.header("connection"), answer.header("should-retry")), (Some("close"), Some("false")));
    assert_eq!(warden.ended().await, 0);
    // Why it was refused was noted, and the notes were written.
    let next = site.ready().await;
    let log = next.operator().get("/v1/admin/decisions").await.json();
    let records = log["decisions"].as_array().unwrap();
    assert!(records.iter().any(|record| record["reason"] == "DRAINING"), "{records:?}");
    next.stop().await;
}
