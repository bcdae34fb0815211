//! Redis breaks, forgets, and answers nobody.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::store::redis::{Redis, Time};
use cubewarden::store::{Batch, Committed, Store, StoreError};
use cubewarden::time::{Clock as _, ManualClock, Stopwatch, UnixMillis, WallClock};

use super::{body, is_done, take, taken};
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::redis::{RedisServer, settings_at};
use crate::support::relay::Relay;
use crate::support::{until, warden};

async fn through(relay: &Relay, time: Time) -> Arc<Redis> {
    Arc::new(Redis::open(&settings_at(&relay.url()), time).await.unwrap())
}

/// RD01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_seconds_without_redis_cost_no_more_than_what_was_under_way() {
    let server = RedisServer::start();
    let relay = Relay::before(server.socket()).await;
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let store = through(&relay, Time::Of(Arc::new(clock.clone()))).await;
    let warden = warden::before(&cube.url()).clock(&clock).store(store).without_tasks().start().await;
    let caller = warden.caller();
    caller.create(&body()).await;

    cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(8));
    let body_of_all = body();
    let under_way: Vec<_> = (0..8)
        .map(|_| {
            let (caller, body) = (caller.clone(), body_of_all.clone());
            tokio::spawn(async move { caller.post("/sandboxes", &body).await.status.as_u16() })
        })
        .collect();
    until("the creates are at Cube", || cube.held() == 8).await;
    relay.cut();
    cube.release();
    let mut failed = 0;
    for create in under_way {
        let status = create.await.unwrap();
        assert!(status == 201 || status == 504, "{status}");
        failed += usize::from(status != 201);
    }
    assert_eq!(failed, 8, "none could be settled while Redis was away");
    assert_eq!(caller.post("/sandboxes", &body()).await.text("error_code"), "LEDGER_UNAVAILABLE");
    WallClock.sleep(Duration::from_secs(2)).await;
    relay.heal();

    let healed = Stopwatch::start();
    caller.create(&body()).await;
    assert!(healed.elapsed() < Duration::from_secs(3), "{:?}", healed.elapsed());
    assert_eq!((cube.alive().len(), warden.held().await), (10, 10));
    // Those whose answers were lost are found by their markers, and ended: nobody could claim them.
    clock.advance(Duration::from_secs(120));
    cube.tick();
    for _ in 0..4 {
        warden.warden.tasks.tick_due().await.unwrap();
        clock.advance(Duration::from_secs(6));
    }
    until("what was lost is gone", || cube.alive().len() == 2).await;
    warden.warden.finish().await;
    assert_eq!(warden.held().await, 2);
}

/// RD04
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_redis_forgot_are_sent_again_wherever_the_call_comes_from() {
    let server = RedisServer::start();
    let store = server.store().await;
    let forget = || redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    assert!(is_done(&store.commit(take("a")).await.unwrap()));
    forget();
    let leave = Batch { leave: take("a").join, ..Batch::default() };
    assert!(is_done(&store.commit(leave).await.unwrap()));
    forget();
    assert_eq!(store.read(&[super::volume("a")]).await.unwrap().records[0].value, b"x");
    forget();
    assert_eq!(store.sizes(&[cubewarden::store::schema::Set::AllSlots]).await.unwrap(), [0]);

    forget();
    let all: Vec<_> = (0..100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(take(&format!("m{number:02}"))).await })
        })
        .collect();
    for one in all {
        assert!(is_done(&one.await.unwrap().unwrap()));
    }
    assert_eq!(taken(store.as_ref()).await.len(), 100);
    let again = store.commit(take("m00")).await.unwrap();
    assert_eq!(again, Committed::Moved, "a commit that was done is not done twice");
}

/// RD08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_reply_is_lost_is_found_by_asking_again() {
    let server = RedisServer::start();
    let relay = Relay::before(server.socket()).await;
    let store = through(&relay, Time::OfRedis).await;
    assert!(is_done(&store.commit(take("warm")).await.unwrap()));
    relay.lose_reply_to_commit();
    let lost = store.commit(take("a")).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(store.commit(take("a")).await.unwrap(), Committed::Moved);
    assert_eq!(taken(store.as_ref()).await, ["a", "warm"]);
}

/// RD08
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_reply_was_lost_comes_back_by_itself() {
    let server = RedisServer::start();
    let relay = Relay::before(server.socket()).await;
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let store = through(&relay, Time::Of(Arc::new(clock.clone()))).await;
    let warden = warden::before(&cube.url()).clock(&clock).store(store).without_tasks().start().await;
    relay.lose_reply_to_commit();
    let refused = warden.caller().post("/sandboxes", &body()).await;
    assert_eq!((refused.status.as_u16(), refused.text("error_code").as_str()), (503, "LEDGER_UNAVAILABLE"));
    assert!(refused.header("retry-after").is_some());
    assert_eq!((warden.held().await, cube.alive().len()), (1, 0));
    clock.advance(Duration::from_secs(61));
    warden.warden.tasks.tick_due().await.unwrap();
    assert_eq!(warden.held().await, 0);
}

/// RD19
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_hints_are_lost_is_admitted_all_the_same() {
    let server = RedisServer::start();
    let relay = Relay::before(server.socket()).await;
    let cube = CubeSim::builder().start().await.unwrap();
    let limit = "[bucket_defaults]\nlimit = 1";
    let deaf = warden::before(&cube.url()).config(limit).store(through(&relay, Time::OfRedis).await);
    let other = warden::before(&cube.url()).config(limit).store(server.store().await).start().await;
    let deaf = deaf.start().await;
    let first = other.caller().create(&body()).await;
    relay.deafen();
    let caller = deaf.caller();
    let waiter = tokio::spawn(async move { caller.post("/sandboxes", &body()).await.status.as_u16() });
    let bucket = cubewarden::ids::Bucket::parse("default/dev").unwrap();
    until("it waits", || deaf.warden.governor.waiting(&bucket) == 1).await;
    assert_eq!(other.caller().delete(&format!("/sandboxes/{first}")).await.status, 204);
    let freed = Stopwatch::start();
    assert_eq!(waiter.await.unwrap(), 201);
    assert!(freed.elapsed() < Duration::from_secs(2), "{:?}", freed.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_of_redis_everything_confirmed_is_there_and_the_store_goes_on() {
    let mut server = RedisServer::durable();
    let store = server.store().await;
    let mut confirmed = Vec::new();
    for round in 0..3 {
        let hands: Vec<_> = (0..8)
            .map(|hand| {
                let store = store.clone();
                tokio::spawn(async move {
                    let mut done = Vec::new();
                    for number in 0.. {
                        let member = format!("{round}-{hand}-{number:06}");
                        match store.commit(take(&member)).await {
                            Ok(committed) => {
                                assert!(is_done(&committed));
                                done.push(member);
                            }
                            Err(_) => break,
                        }
                    }
                    done
                })
            })
            .collect();
        let before = confirmed.len();
        for _ in 0..1000 {
            if taken(store.as_ref()).await.len() > before + 100 {
                break;
            }
        }
        server.kill();
        for hand in hands {
            confirmed.extend(hand.await.unwrap());
        }
        server.restart();
        let there = taken(store.as_ref()).await;
        let lost: Vec<_> = confirmed.iter().filter(|member| there.binary_search(member).is_err()).collect();
        assert!(lost.is_empty() && confirmed.len() > before, "round {round}: confirmed and lost: {lost:?}");
        for member in &there {
            assert!(
                store.read(&[super::volume(member)]).await.unwrap().records[0].version > 0,
                "{member} is there in part"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_is_unavailable_in_time_and_not_for_ever() {
    let server = RedisServer::start();
    let store = server.store().await;
    assert!(is_done(&store.commit(take("a")).await.unwrap()));
    redis::cmd("CLIENT").arg("PAUSE").arg(60_000).arg("ALL").exec(&mut server.connection()).unwrap();
    let hung = Stopwatch::start();
    let callers: Vec<_> = (0..20)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.commit(take(&format!("b{number}"))).await })
        })
        .collect();
    for caller in callers {
        assert!(matches!(caller.await.unwrap(), Err(StoreError::Unavailable(_))));
    }
    assert!(store.read(&[]).await.is_err());
    assert!(hung.elapsed() < Duration::from_secs(10), "{:?}", hung.elapsed());
}
