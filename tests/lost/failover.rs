//! A Sentinel makes a replica the master that had not heard of the last commits.

use std::collections::HashMap;
use std::sync::Arc;

use cubewarden::store::redis::{Redis, Time};
use cubewarden::time::ManualClock;

use super::stage::{BODY, CONFIG, START, Stage, finds_out, rebuilt};
use crate::cube::CubeSim;
use crate::support::redis::{RedisServer, free_port, settings_at};
use crate::support::{until, warden};

fn slots(server: &RedisServer) -> usize {
    let mut ask = redis::cmd("ZCARD");
    ask.arg("{cw:test}:slots");
    server.try_connection().and_then(|mut link| ask.query(&mut link)).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_the_last_commits_admits_nobody_until_they_are_back() {
    let ports = [free_port().to_string(), free_port().to_string()];
    let common = ["--save", "", "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--port"];
    let master = RedisServer::with(&[&common[..], &[&ports[0]]].concat());
    let replica =
        RedisServer::with(&[&common[..], &[&ports[1], "--replicaof", "127.0.0.1", &ports[0]]].concat());
    let at = free_port();
    let sentinel = RedisServer::sentinel(&format!(
        "port {at}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
         sentinel failover-timeout main 3000\n",
        ports[0]
    ));
    let mut link = sentinel.connection();
    let mut known = || {
        let said =
            redis::cmd("SENTINEL").arg("MASTER").arg("main").query::<HashMap<String, String>>(&mut link);
        said.is_ok_and(|said| said["flags"] == "master" && said["num-slaves"] == "1")
    };
    until("the Sentinel knows both", &mut known).await;

    let clock = ManualClock::at(START);
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let url = format!("redis+sentinel://127.0.0.1:{at}/main");
    let start = async || {
        let store = Redis::open(&settings_at(&url), Time::Of(Arc::new(clock.clone()))).await.unwrap();
        let plan = warden::before(&cube.url()).config(CONFIG).clock(&clock).store(Arc::new(store));
        plan.without_tasks().start().await
    };
    let (one, other) = (start().await, start().await);
    one.warden.tasks.tick_inventory().await.unwrap();
    for warden in [&one, &other] {
        warden.warden.tasks.tick_beat().await.unwrap();
        warden.caller().create(BODY).await;
    }
    until("that much is replicated", || slots(&replica) == 2).await;
    replica.stop();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("REPLICA").exec(&mut master.connection()).unwrap();
    for warden in [&one, &other, &one, &other] {
        warden.caller().create(BODY).await;
    }
    drop(master);
    replica.go_on();
    until("the replica is the master", || {
        let role = replica
            .try_connection()
            .and_then(|mut link| redis::cmd("ROLE").query::<Vec<redis::Value>>(&mut link));
        role.is_ok_and(|role| {
            redis::from_redis_value_ref::<String>(&role[0]).is_ok_and(|role| role == "master")
        })
    })
    .await;
    assert_eq!(slots(&replica), 2, "the last commits are lost");

    for warden in [&one, &other] {
        finds_out(warden).await;
    }
    assert_eq!(cube.alive().len(), 6);
    rebuilt(&[&other, &one]).await;
    let stage = Stage { server: replica, clock, cube };
    stage.balanced(&one, 6).await;
    let more = async || one.caller().post("/sandboxes", BODY).await.status.as_u16();
    assert_eq!([more().await, more().await, more().await], [201, 201, 429]);
    assert_eq!((stage.cube.high_water(&[]), stage.deletes()), (8, 0));
}
