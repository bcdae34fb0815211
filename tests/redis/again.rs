//! What must hold on one warden's own ledger, again on Redis and through two wardens.

use std::time::Duration;

use cubewarden::ids::Bucket;
use cubewarden::time::{ManualClock, UnixMillis};

use super::body;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile};
use crate::support::http::{Answer, Caller};
use crate::support::redis::RedisServer;
use crate::support::until;
use crate::support::warden::{self, Running};

fn create(caller: &Caller) -> tokio::task::JoinHandle<Answer> {
    let caller = caller.clone();
    tokio::spawn(async move { caller.post("/sandboxes", &body()).await })
}

async fn two_wardens(cube: &CubeSim, server: &RedisServer, config: &str) -> [Running; 2] {
    let start = async || warden::before(&cube.url()).config(config).store(server.store().await).start().await;
    [start().await, start().await]
}

/// RD16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_leaves_at_the_moment_of_a_release_loses_no_slot_on_redis() {
    let (server, cube) = (RedisServer::start(), CubeSim::builder().start().await.unwrap());
    let wardens = two_wardens(&cube, &server, "[bucket_defaults]\nlimit = 1\n").await;
    let (caller, bucket) = (wardens[0].caller(), Bucket::parse("default/dev").unwrap());
    let mut holder = caller.create(&body()).await;
    for round in 0..100_u32 {
        let (leaver, stayer) = (create(&caller), create(&caller));
        until("both wait", || wardens[0].warden.governor.waiting(&bucket) == 2).await;
        // Released through the other warden: only Redis tells the first.
        let (other, route) = (wardens[1].caller(), format!("/sandboxes/{holder}"));
        let released = tokio::spawn(async move { other.delete(&route).await });
        for _ in 0..round % 40 {
            tokio::task::yield_now().await;
        }
        leaver.abort();
        assert_eq!(released.await.unwrap().status, 204);
        let answer = stayer.await.unwrap();
        assert_eq!(answer.status, 201, "round {round}: {answer:?}");
        holder = answer.text("sandboxID");
    }
    assert_eq!(cube.high_water(&[]), 1);
    assert_eq!(caller.delete(&format!("/sandboxes/{holder}")).await.status, 204);
    assert_eq!((wardens[0].held().await, cube.alive().len()), (0, 0));
}

/// EB09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_with_one_key_through_two_wardens_are_one_create_on_redis() {
    let (server, cube) = (RedisServer::start(), CubeSim::builder().start().await.unwrap());
    let wardens = two_wardens(&cube, &server, "").await;
    let callers = wardens.each_ref().map(|warden| warden.caller().with("idempotency-key", "k-1"));
    let held = cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let asks = callers.each_ref().map(create);
    cube.until_held(1).await;
    assert_eq!(wardens[1].held().await, 1);
    cube.remove_fault(held);
    cube.release();
    let mut bodies = Vec::new();
    for ask in asks {
        let answer = ask.await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        bodies.push(answer.body);
    }
    assert_eq!(bodies[0], bodies[1], "the same answer");
    let other = callers[1].post("/sandboxes", &body().replace("300", "301")).await;
    assert_eq!((other.status.as_u16(), other.text("error_code").as_str()), (409, "IDEMPOTENCY_MISMATCH"));
    assert_eq!((cube.alive().len(), wardens[0].held().await, wardens[1].held().await), (1, 1, 1));
}

/// CB01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_sandbox_that_refuses_its_delete_is_woken_and_deleted_on_redis() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let builder = CubeSim::builder().profile(Profile::V051).clock(clock.clone());
    let (server, cube) = (RedisServer::start(), builder.start().await.unwrap());
    let start = async || {
        let plan = warden::before(&cube.url()).clock(&clock).store(server.store_at(&clock).await);
        plan.without_tasks().start().await
    };
    let (made, ended) = (start().await, start().await);
    let id = made.caller().create(&body()).await;
    assert_eq!(made.caller().post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
    clock.advance(Duration::from_secs(10));
    cube.tick();
    cube.forget_requests();
    let answer = ended.caller().delete(&format!("/sandboxes/{id}")).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let requests = cube.requests();
    let asked: Vec<String> = requests
        .iter()
        .filter(|seen| seen.head.target.contains(&id))
        .map(|seen| format!("{} {}", seen.head.method, seen.head.target.replace(&id, "")))
        .collect();
    let expected = ["DELETE /sandboxes/", "POST /sandboxes//resume", "DELETE /sandboxes/", "GET /sandboxes/"];
    assert_eq!(asked, expected);
    assert_eq!((made.held().await, cube.alive().len()), (0, 0));
}
