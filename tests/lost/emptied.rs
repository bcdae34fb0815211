//! Redis is emptied, restarted empty, or put back to an older state while two wardens serve.

use cubewarden::rules::rebuild::UNPROVEN;

use super::stage::{BODY, Stage, decisions, finds_out, metric, rebuilt, state, unavailable};
use crate::support::redis::RedisServer;

/// Redis forgets everything in between: `forget` says how.
async fn nothing_is_admitted_until_all_is_back(mut stage: Stage, forget: impl Fn(&mut RedisServer)) {
    let [one, other] = stage.two().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(one.caller().create(BODY).await);
        made.push(other.caller().create(BODY).await);
    }
    let before = stage.balanced(&one, 6).await;
    let (id, deletes) = (one.warden.ledger.id(), stage.deletes());
    forget(&mut stage.server);

    // Either is asked first, for anything at all; nothing is admitted, and nobody is told that its sandbox is gone.
    for warden in [&other, &one] {
        finds_out(warden).await;
    }
    unavailable(&one.caller().delete(&format!("/sandboxes/{}", made[0])).await);
    for warden in [&one, &other] {
        unavailable(&warden.caller().post("/sandboxes", BODY).await);
        assert!(warden.warden.tasks.tick_due().await.is_err());
        assert!(warden.warden.tasks.tick_inventory().await.is_err());
        assert_eq!(
            (state(warden).await.as_str(), metric(warden, "cubewarden_ledger_lost").await),
            ("lost", "1".to_owned())
        );
    }
    // One alone does not end it: the other may remember more.
    assert!(!one.warden.tasks.tick_rebuild().await.unwrap());
    assert_eq!(state(&one).await, "rebuilding");
    unavailable(&one.caller().post("/sandboxes", BODY).await);
    rebuilt(&[&other, &one]).await;

    assert_eq!((one.warden.ledger.id(), other.warden.ledger.id()), (id.clone(), id));
    let after = stage.balanced(&other, 6).await;
    for (sandbox, entry) in &after {
        let was = &before[sandbox];
        assert_eq!((&entry.marker, &entry.owner, &entry.bucket), (&was.marker, &was.owner, &was.bucket));
        assert_eq!(
            (entry.generation, &entry.answer, entry.deadline),
            (was.generation, &was.answer, was.deadline)
        );
        assert_eq!(entry.holders, UNPROVEN);
    }
    assert_eq!(stage.deletes(), deletes, "nothing is killed");
    assert_eq!(decisions(&one, "ledger_lost").await.len(), 1, "one begins, the other joins");
    let ended = decisions(&one, "ledger_rebuilt").await;
    assert_eq!((ended.len(), &ended[0]["held"], &ended[0]["everybody_gave"]), (1, &6.into(), &true.into()));
    assert_eq!(state(&one).await, "sound");

    // Two slots are left, and not three.
    let statuses = async |warden: &crate::support::warden::Running| {
        warden.caller().post("/sandboxes", BODY).await.status.as_u16()
    };
    assert_eq!([statuses(&one).await, statuses(&other).await, statuses(&one).await], [201, 201, 429]);
    assert_eq!(stage.cube.high_water(&[]), 8);
    for warden in [&one, &other] {
        warden.warden.tasks.tick_due().await.unwrap();
        warden.warden.tasks.tick_inventory().await.unwrap();
    }
    stage.balanced(&one, 8).await;
    // Nothing is judged for a while.
    let now = one.warden.ledger.now().await.unwrap();
    assert!(!one.warden.ledger.may_judge(now) && !other.warden.ledger.may_judge(now));
    stage.pass(181);
    let now = one.warden.ledger.now().await.unwrap();
    assert!(one.warden.ledger.may_judge(now) && other.warden.ledger.may_judge(now));
    assert_eq!(metric(&one, "cubewarden_ledger_lost").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_admits_nobody_until_the_ledger_is_back() {
    let stage = Stage::on(RedisServer::start()).await;
    nothing_is_admitted_until_all_is_back(stage, |server| {
        redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_restarts_empty_admits_nobody_until_the_ledger_is_back() {
    let stage = Stage::on(RedisServer::start()).await;
    nothing_is_admitted_until_all_is_back(stage, |server| {
        server.kill();
        server.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_put_back_to_an_older_state_admits_nobody_until_the_ledger_is_back() {
    let mut stage = Stage::on(RedisServer::start()).await;
    let [one, other] = stage.two().await;
    let old = one.caller().create(BODY).await;
    let ended = one.caller().create(BODY).await;
    stage.tell_redis(&["SAVE"]);
    let young = other.caller().create(BODY).await;
    assert_eq!(one.caller().delete(&format!("/sandboxes/{ended}")).await.status, 204);
    stage.server.kill();
    stage.server.restart();

    finds_out(&one).await;
    rebuilt(&[&one, &other]).await;
    // What had ended after the dump is charged until Cube says that it is gone.
    assert_eq!(other.held().await, 3);
    stage.pass(181);
    for warden in [&one, &other] {
        warden.warden.tasks.tick_due().await.unwrap();
        warden.warden.tasks.tick_inventory().await.unwrap();
    }
    let after = stage.balanced(&other, 2).await;
    assert!(after.contains_key(&old) && after.contains_key(&young));
    assert!(after.values().all(|entry| entry.holders >= UNPROVEN));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_admitted_by_a_warden_that_could_not_know_is_counted_and_reported() {
    let stage = Stage::on(RedisServer::start()).await;
    let [one, other] = stage.two().await;
    for _ in 0..8 {
        one.caller().create(BODY).await;
    }
    let id = one.warden.ledger.id();
    stage.pass(5);
    stage.tell_redis(&["FLUSHALL"]);
    // It starts on an empty store, and nobody has told it that there was a ledger.
    let young = stage.warden().await;
    for _ in 0..3 {
        young.caller().create(BODY).await;
    }
    assert_ne!(young.warden.ledger.id(), id);
    unavailable(&one.caller().post("/sandboxes", BODY).await);
    rebuilt(&[&one, &other, &young]).await;
    for warden in [&one, &other, &young] {
        // The older is right: what carries its id stays ours.
        assert_eq!(warden.warden.ledger.id(), id);
        assert_eq!(warden.caller().post("/sandboxes", BODY).await.status, 429);
        assert_eq!(metric(warden, "cubewarden_ledger_rebuilt_over_limit").await, "3");
    }
    stage.balanced(&young, 11).await;
    one.warden.tasks.tick_notes(0).await.unwrap();
    let over = decisions(&one, "over_limit").await;
    assert_eq!((&over[0]["held"], &over[0]["limit"]), (&11.into(), &8.into()));
    for warden in [&one, &other, &young] {
        warden.warden.tasks.tick_inventory().await.unwrap();
    }
    stage.balanced(&one, 11).await;
    assert_eq!(stage.deletes(), 0);
}
