//! A Sentinel makes a replica the master that had not heard of the last commits, while sixty clients go on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, WallClock};

use super::crowd::Crowd;
use super::storm::{all_is_well, reported};
use super::wardens::Wardens;
use super::{CLIENTS, seed};
use crate::cube::{CubeSim, Latency, Profile};
use crate::support::redis::{RedisServer, free_port};
use crate::support::until;

/// A master, its replica, and who watches them.
struct Sentinel {
    master: Option<RedisServer>,
    replica: RedisServer,
    _watcher: RedisServer,
    url: String,
}

impl Sentinel {
    async fn start() -> Self {
        let ports = [free_port().to_string(), free_port().to_string()];
        let common = ["--save", "", "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0", "--port"];
        let master = RedisServer::with(&[&common[..], &[&ports[0]]].concat());
        let replica =
            RedisServer::with(&[&common[..], &[&ports[1], "--replicaof", "127.0.0.1", &ports[0]]].concat());
        let at = free_port();
        let sentinel = RedisServer::sentinel(&format!(
            "port {at}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
            ports[0]
        ));
        let mut link = sentinel.connection();
        let mut known = || {
            let said =
                redis::cmd("SENTINEL").arg("MASTER").arg("main").query::<HashMap<String, String>>(&mut link);
            said.is_ok_and(|said| said["flags"] == "master" && said["num-slaves"] == "1")
        };
        until("the Sentinel knows both", &mut known).await;
        let url = format!("redis+sentinel://127.0.0.1:{at}/main");
        Self { master: Some(master), replica, _watcher: sentinel, url }
    }

    /// The replica does not hear what is committed from now on.
    fn part(&self) {
        self.replica.stop();
        let mut link = self.master.as_ref().expect("it lives").connection();
        redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("REPLICA").exec(&mut link).unwrap();
    }

    /// The master dies, and the replica takes its place with what it knows.
    async fn fail_over(&mut self) {
        self.master = None;
        self.replica.go_on();
        until("the replica is the master", || {
            let role = self
                .replica
                .try_connection()
                .and_then(|mut link| redis::cmd("ROLE").query::<Vec<redis::Value>>(&mut link));
            role.is_ok_and(|role| {
                redis::from_redis_value_ref::<String>(&role[0]).is_ok_and(|role| role == "master")
            })
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_clients_never_have_more_than_twenty_through_a_failover_that_loses_the_last_writes() {
    let chance = Chance::seeded(seed());
    let cube = CubeSim::builder().profile(Profile::V070).latency(Latency::Node);
    let cube = Arc::new(cube.start().await.unwrap());
    let mut redis = Sentinel::start().await;
    let wardens = Wardens::start(&cube, &[redis.url.clone(), redis.url.clone(), redis.url.clone()]).await;
    let crowd = Crowd::start(&cube, &wardens.addresses(), &chance);
    let lives = || crowd.seen().lives.load(SeqCst);
    until("the crowd is at work", || lives() >= CLIENTS / 2).await;
    redis.part();
    let before = lives();
    until("much is committed that will be lost", || lives() >= before + CLIENTS / 3).await;
    WallClock.sleep(Duration::from_millis(chance.below(300))).await;
    redis.fail_over().await;
    let before = lives();
    until("the crowd is at work again", || lives() >= before + CLIENTS).await;
    let (seen, wrongs) = crowd.finish().await;
    assert!(wrongs.is_empty(), "{}", wardens.story_of(&wrongs).await);

    wardens.until_ledger_is_cube(&cube).await;
    let decisions = wardens.decisions().await;
    let undead = seen.undead(&decisions);
    assert!(undead.is_empty(), "{}", wardens.story_of(&undead).await);
    let (high, most) = (cube.high_water(&[]), reported(&decisions));
    assert!(high <= most, "{high} were alive, {most} were reported\n{}", wardens.story().await);
    let count = |kind: &str| decisions.iter().filter(|decision| decision["decision"] == kind).count();
    assert_eq!((count("ledger_lost"), count("ledger_rebuilt")), (1, 1), "{}", wardens.story().await);
    all_is_well(&wardens).await;
}
