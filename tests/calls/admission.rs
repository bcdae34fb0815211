//! Slots: exactly as many as the limit says, handed out first come first served, never by anything but the ledger.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::store::embedded::Embedded;

use super::stage::{BODY, NO_WAIT, Stage, limit_of, path, real, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::FaultyStore;
use crate::support::http::{Answer, Caller};
use crate::support::warden;

const SECOND: Duration = Duration::from_secs(1);

/// A create that may have to wait.
fn create(caller: &Caller) -> tokio::task::JoinHandle<Answer> {
    let caller = caller.clone();
    tokio::spawn(async move { caller.post("/sandboxes", BODY).await })
}

/// So many creates wait in a bucket.
async fn until_waiting(stage: &Stage, bucket: &str, wanted: usize) {
    let bucket = cubewarden::ids::Bucket::parse(bucket).unwrap();
    crate::support::until("so many wait", || stage.warden.warden.governor.waiting(&bucket) == wanted).await;
}

/// DA03
#[tokio::test]
async fn exactly_as_many_as_the_limit_are_admitted() {
    for limit in [0, 1, 2, 10] {
        let config = limit_of("default/dev", limit) + if limit == 0 { "" } else { NO_WAIT };
        let stage = timed(Profile::V070, &config).await;
        let caller = stage.warden.caller();
        let mut made = Vec::new();
        for _ in 0..limit {
            made.push(caller.create(BODY).await);
        }
        // Without room at all nobody waits 30 s: the clock does not move.
        let over = caller.post("/sandboxes", BODY).await;
        refused(&over, 429, "CAPACITY_EXCEEDED");
        let said = over.json();
        assert_eq!((said["limit"].as_u64(), said["held"].as_u64()), (Some(limit.into()), Some(limit.into())));
        let after: u32 = over.header("retry-after").unwrap().parse().unwrap();
        if limit == 0 {
            assert_eq!((after, over.header("should-retry")), (120, Some("false")));
            continue;
        }
        assert!((1..=20).contains(&after));
        assert_eq!(over.header("should-retry"), None);
        assert_eq!(caller.delete(&path(&made[0], "")).await.status, 204);
        caller.create(BODY).await;
        refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
        assert_eq!(stage.cube.high_water(&[]), limit as usize);
        stage.balance(limit as usize).await;
    }
}

/// RD09
#[tokio::test]
async fn a_late_release_frees_only_its_own_slot() {
    let stage = timed(Profile::V070, &(limit_of("default/dev", 1) + NO_WAIT)).await;
    let caller = stage.warden.caller();
    // A's answer is lost; its slot expires by proof, long before Cube at last carries it out.
    stage.cube.fault(Fault::Block { late_ms: Some(700_000) }.on(Kind::Create).times(1));
    let a = create(&caller);
    stage.pass(30 * SECOND).await;
    refused(&a.await.unwrap(), 504, "OUTCOME_UNKNOWN");
    for wait in [50, 5, 515] {
        stage.skip(wait * SECOND);
        refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
        stage.due().await;
    }
    assert_eq!(stage.warden.held().await, 0);
    let b =
        caller.post("/sandboxes", r#"{"templateID":"tpl-000000000000000000000001"}"#).await.text("sandboxID");
    stage.skip(100 * SECOND);
    assert_eq!(stage.cube.alive().len(), 2, "A came after all");
    stage.inventory().await;
    assert_eq!(stage.warden.held().await, 2, "and is charged");
    stage.due().await;
    stage.until_held(1).await;
    assert_eq!(stage.cube.alive()[0].id, b, "A's end is A's alone");
    refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    stage.balance(1).await;
}

/// RD16
#[tokio::test]
async fn waiters_that_leave_at_the_moment_of_a_release_lose_no_slot() {
    let stage = real(Profile::V070, &limit_of("default/dev", 1)).await;
    let caller = stage.warden.caller();
    let mut holder = caller.create(BODY).await;
    for round in 0..200_u32 {
        let (leaver, stayer) = (create(&caller), create(&caller));
        until_waiting(&stage, "default/dev", 2).await;
        let (deleter, route) = (caller.clone(), path(&holder, ""));
        let released = tokio::spawn(async move { deleter.delete(&route).await });
        for _ in 0..round % 40 {
            tokio::task::yield_now().await;
        }
        leaver.abort();
        assert_eq!(released.await.unwrap().status, 204);
        // Whoever is left gets the slot; if the leaver had it by then, its sandbox is ended again.
        let answer = stayer.await.unwrap();
        assert_eq!(answer.status, 201, "round {round}: {answer:?}");
        holder = answer.text("sandboxID");
    }
    assert_eq!(stage.cube.high_water(&[]), 1);
    assert_eq!(caller.delete(&path(&holder, "")).await.status, 204);
    stage.balance(0).await;
}

#[tokio::test]
async fn a_waiter_asks_the_ledger_once_a_second_and_does_not_wake_itself() {
    let mut stage = timed(Profile::V070, &limit_of("default/dev", 1)).await;
    let store = FaultyStore::wrap(Arc::new(Embedded::in_memory(Arc::new(stage.clock.clone())).unwrap()));
    stage.warden = warden::before(&stage.cube.url())
        .config(&limit_of("default/dev", 1))
        .clock(&stage.clock)
        .without_tasks()
        .store(store.clone())
        .start()
        .await;
    let caller = stage.warden.caller();
    let holder = caller.create(BODY).await;
    let waiter = create(&caller);
    until_waiting(&stage, "default/dev", 1).await;
    let before = store.commits();
    // Ten seconds, in steps that are shorter than its pause.
    for _ in 0..40 {
        stage.skip(SECOND / 4);
        stage.settle().await;
    }
    crate::support::until("it tries again", || store.commits() > before).await;
    let tries = store.commits() - before;
    assert!(tries <= 11, "{tries} tries in ten seconds");
    assert_eq!(caller.delete(&path(&holder, "")).await.status, 204);
    assert_eq!(waiter.await.unwrap().status, 201);
    stage.balance(1).await;
}

#[tokio::test]
async fn waiting_is_first_come_first_served() {
    let stage = real(Profile::V070, &limit_of("default/dev", 1)).await;
    let caller = stage.warden.caller();
    let mut holder = caller.create(BODY).await;
    let mut line = std::collections::VecDeque::new();
    for place in 1..=5 {
        line.push_back(create(&caller));
        until_waiting(&stage, "default/dev", place).await;
    }
    assert_eq!(
        stage.metric(r#"cubewarden_waiting{bucket="other"}"#)
            + stage.metric(r#"cubewarden_waiting{bucket="default/dev"}"#),
        5
    );
    while let Some(first) = line.pop_front() {
        assert_eq!(caller.delete(&path(&holder, "")).await.status, 204);
        holder = first.await.unwrap().text("sandboxID");
        assert!(line.iter().all(|later| !later.is_finished()));
    }
    assert_eq!(stage.cube.high_water(&[]), 1);
    stage.balance(1).await;
}

#[tokio::test]
async fn a_leaver_gives_its_place_to_the_next() {
    let stage = real(Profile::V070, &limit_of("default/dev", 1)).await;
    let caller = stage.warden.caller();
    let holder = caller.create(BODY).await;
    let first = create(&caller);
    until_waiting(&stage, "default/dev", 1).await;
    let second = create(&caller);
    until_waiting(&stage, "default/dev", 2).await;
    first.abort();
    until_waiting(&stage, "default/dev", 1).await;
    assert_eq!(caller.delete(&path(&holder, "")).await.status, 204);
    assert_eq!(second.await.unwrap().status, 201);
    assert_eq!(stage.times("POST /sandboxes"), 2, "the leaver's create never went out");
    stage.balance(1).await;
}

#[tokio::test]
async fn no_more_than_max_waiting_wait_and_the_rest_is_told_at_once() {
    let config = limit_of("default/dev", 1) + "[admission]\nmax_waiting = 2\n";
    let stage = timed(Profile::V070, &config).await;
    let caller = stage.warden.caller();
    caller.create(BODY).await;
    let waiting = [create(&caller), create(&caller)];
    until_waiting(&stage, "default/dev", 2).await;
    let third = caller.post("/sandboxes", BODY).await;
    refused(&third, 429, "CAPACITY_EXCEEDED");
    assert_eq!(
        (third.json()["limit"].as_u64(), third.json()["held"].as_u64()),
        (Some(1), Some(1)),
        "{third:?}"
    );
    stage.skip(30 * SECOND);
    for waiter in waiting {
        refused(&waiter.await.unwrap(), 429, "CAPACITY_EXCEEDED");
    }
    stage.balance(1).await;
}

#[tokio::test]
async fn nobody_waits_longer_than_its_client_would() {
    let config = limit_of("default/dev", 1) + "[admission]\nwait = \"54s\"\n";
    let stage = timed(Profile::V070, &config).await;
    let caller = stage.warden.caller();
    caller.create(BODY).await;
    let waiter = create(&caller);
    until_waiting(&stage, "default/dev", 1).await;
    stage.skip(49 * SECOND);
    assert_eq!(caller.get("/health").await.status, 200);
    assert!(!waiter.is_finished(), "it waits as long as it was told");
    stage.skip(6 * SECOND);
    refused(&waiter.await.unwrap(), 429, "CAPACITY_EXCEEDED");
    stage.balance(1).await;
}

#[tokio::test]
async fn an_expired_sandbox_makes_room_before_anybody_waits() {
    let stage = timed(Profile::V070, &(limit_of("default/dev", 1) + NO_WAIT)).await;
    let caller = stage.warden.caller();
    caller.create(r#"{"templateID":"tpl-000000000000000000000001","timeout":60}"#).await;
    refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    stage.skip(61 * SECOND);
    assert!(stage.cube.alive().is_empty(), "Cube's own sweeper ended it and told nobody");
    stage.skip(5 * SECOND);
    stage.due().await;
    caller.create(BODY).await;
    stage.balance(1).await;
}

fn global(limit: u32, wait: &str) -> String {
    format!("[admission]\nglobal_limit = {limit}\nwait = \"{wait}\"\n")
}

/// What a refusal by the global limit may say.
#[track_caller]
fn shows_no_numbers(answer: &Answer) {
    refused(answer, 429, "CAPACITY_EXCEEDED");
    let said = answer.json();
    let fields: Vec<&str> = said.as_object().unwrap().keys().map(String::as_str).collect();
    assert!(said["limit"].is_null() && said["held"].is_null() && said["paused"].is_null(), "{fields:?}");
    let message = answer.text("message");
    assert!(!message.chars().any(|c| c.is_ascii_digit()), "{message}");
    let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&after), "{answer:?}");
    assert_eq!(answer.header("should-retry"), None, "waiting can help: {answer:?}");
}

#[tokio::test]
async fn the_global_limit_holds_over_all_buckets_and_shows_no_numbers() {
    let stage = real(Profile::V070, &(two_tenants() + &global(3, "0s"))).await;
    stage.a().create(BODY).await;
    stage.a().with("x-cube-env", "dev").create(BODY).await;
    let id = stage.b().create(BODY).await;
    shows_no_numbers(&stage.a().post("/sandboxes", BODY).await);
    shows_no_numbers(&stage.b().post("/sandboxes", BODY).await);
    assert_eq!(stage.b().delete(&path(&id, "")).await.status, 204);
    stage.a().create(BODY).await;
    shows_no_numbers(&stage.b().post("/sandboxes", BODY).await);
    assert_eq!(stage.cube.high_water(&[]), 3);
    stage.balance(3).await;
}

#[tokio::test]
async fn who_waited_in_vain_for_the_global_limit_is_told_the_same() {
    let stage = timed(Profile::V070, &(two_tenants() + &global(1, "30s"))).await;
    stage.a().create(BODY).await;
    let first = create(&stage.b());
    until_waiting(&stage, "b/prod", 1).await;
    let second = create(&stage.b());
    until_waiting(&stage, "b/prod", 2).await;
    stage.skip(30 * SECOND);
    shows_no_numbers(&first.await.unwrap());
    shows_no_numbers(&second.await.unwrap());
    stage.balance(1).await;
}

#[tokio::test]
async fn a_limit_lowered_at_run_time_kills_nobody_and_admits_nobody() {
    let stage = timed(Profile::V070, &(limit_of("default/dev", 3) + NO_WAIT)).await;
    let caller = stage.warden.caller();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(caller.create(BODY).await);
    }
    let lower =
        crate::support::warden::before(&stage.cube.url()).config(&(limit_of("default/dev", 1) + NO_WAIT));
    stage.warden.warden.reload(&lower.settings());
    stage.inventory().await;
    stage.due().await;
    assert_eq!(stage.cube.alive().len(), 3);
    for id in &ids {
        assert_eq!(caller.get(&path(id, "")).await.status, 200);
    }
    for id in &ids {
        refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
        assert_eq!(caller.delete(&path(id, "")).await.status, 204);
    }
    caller.create(BODY).await;
    refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    stage.balance(1).await;
}

#[tokio::test]
async fn who_creates_or_calls_too_often_is_told_how_long_to_wait() {
    let creates = "[bucket_defaults]\ncreates_per_minute = 60\ncreate_burst = 2\n";
    let stage = real(Profile::V070, creates).await;
    let caller = stage.warden.caller();
    caller.create(BODY).await;
    caller.create(BODY).await;
    let third = caller.post("/sandboxes", BODY).await;
    refused(&third, 429, "RATE_LIMITED");
    assert_eq!(third.header("retry-after"), Some("1"));
    stage.balance(2).await;

    let calls =
        two_tenants().replace("buckets = [\"b/prod\"]", "buckets = [\"b/prod\"]\ncalls_per_second = 2");
    let stage = real(Profile::V070, &calls).await;
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(stage.b().get("/sandboxes").await);
    }
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!limited.is_empty() && answers[0].status == 200);
    for answer in limited {
        refused(answer, 429, "RATE_LIMITED");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(stage.a().get("/sandboxes").await.status, 200, "another tenant has its own rate");
}
