//! A Cluster and a Sentinel's master keep a ledger as one server does.

use std::collections::HashMap;
use std::time::Duration;

use cubewarden::store::redis::{Redis, Time};
use cubewarden::store::{Batch, Store as _};
use cubewarden::time::{Clock as _, WallClock, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{body, is_done, take, taken};
use crate::cube::CubeSim;
use crate::support::redis::{RedisServer, free_port, settings_at};
use crate::support::{until, warden};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_keeps_a_ledger() {
    let (port, bus) = (free_port().to_string(), free_port().to_string());
    let server = RedisServer::with(&[
        "--save",
        "",
        "--port",
        &port,
        "--cluster-port",
        &bus,
        "--bind",
        "127.0.0.1",
        "--cluster-enabled",
        "yes",
    ]);
    let mut link = server.connection();
    redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(0).arg(16383).exec(&mut link).unwrap();
    let mut state = || redis::cmd("CLUSTER").arg("INFO").query::<String>(&mut link).unwrap();
    until("the cluster is complete", || state().contains("cluster_state:ok")).await;

    // Redis itself refuses a command whose keys lie in different slots, in a Cluster of one node too.
    let url = format!("redis+cluster://127.0.0.1:{port}");
    let store = Redis::open(&settings_at(&url), Time::OfRedis).await.unwrap();
    let store = std::sync::Arc::new(store);
    let cube = CubeSim::builder().start().await.unwrap();
    let one = warden::before(&cube.url()).store(store.clone()).start().await;
    let caller = one.caller();
    let id = caller.create(&body()).await;
    assert_eq!(caller.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
    assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    assert_eq!(one.held().await, 0);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.connection()).unwrap();
    caller.create(&body()).await;
    let other = Redis::open(&settings_at(&url), Time::OfRedis).await.unwrap();
    it_is_heard_of(&server, store.as_ref(), &other).await;
}

/// What one warden frees, another hears of. One hint may be left of the subscription itself; three are not.
async fn it_is_heard_of(server: &RedisServer, one: &Redis, other: &Redis) {
    let mut link = server.connection();
    let mut listening = || {
        let mut ask = redis::cmd("PUBSUB");
        let said: (String, u64) = ask.arg("NUMSUB").arg("{cw:test}:changes").query(&mut link).unwrap();
        said.1 >= 2
    };
    until("both listen", &mut listening).await;
    let mut changes = other.changes();
    for _ in 0..3 {
        one.commit(Batch { join: take("x").join, ..Batch::default() }).await.unwrap();
        changes.mark_unchanged();
        one.commit(Batch { leave: take("x").join, ..Batch::default() }).await.unwrap();
        within(&WallClock, Duration::from_secs(20), changes.changed()).await.expect("it is told").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_warden_frees_another_hears_of() {
    let server = RedisServer::start();
    it_is_heard_of(&server, &*server.store().await, &*server.store().await).await;
}

/// RD04, RD01
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_the_new_master_is_found_by_itself() {
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
    let url = format!("redis+sentinel://127.0.0.1:{at}/main");
    let mut known = sentinel.connection();
    let mut known = || {
        let said =
            redis::cmd("SENTINEL").arg("MASTER").arg("main").query::<HashMap<String, String>>(&mut known);
        said.unwrap()["flags"] == "master"
    };
    until("the Sentinel has reached the master", &mut known).await;
    let store = Redis::open(&settings_at(&url), Time::OfRedis).await.unwrap();
    assert!(is_done(&store.commit(take("before")).await.unwrap()));
    let mut replicated = || members_at(&replica) == ["before"];
    until("it is replicated", &mut replicated).await;
    let mut link = sentinel.connection();
    let mut asked = || redis::cmd("SENTINEL").arg("FAILOVER").arg("main").exec(&mut link).is_ok();
    until("the Sentinel knows the replica", &mut asked).await;
    // What the old master still confirms before it knows is lost: that is the store's, not the link's.
    let mut over = || role(&replica) == "master" && role(&master) == "slave";
    until("each knows its new role", &mut over).await;

    let mut done = false;
    for _ in 0..300 {
        done = store.commit(take("after")).await.is_ok();
        if done {
            break;
        }
        WallClock.sleep(Duration::from_millis(20)).await;
    }
    assert!(done, "the new master was not found");
    let mut there = taken(&store).await;
    there.sort_unstable();
    assert_eq!(there, ["after", "before"]);
    assert_eq!(members_at(&replica), ["after", "before"], "the commit went to the new master");
}

fn members_at(server: &RedisServer) -> Vec<String> {
    let mut ask = redis::cmd("ZRANGE");
    ask.arg("{cw:test}:slots").arg(0).arg(-1);
    server.try_connection().and_then(|mut link| ask.query(&mut link)).unwrap_or_default()
}

/// Empty while it cannot be asked: it closes its connections when its role changes.
fn role(server: &RedisServer) -> String {
    let said =
        server.try_connection().and_then(|mut link| redis::cmd("ROLE").query::<Vec<redis::Value>>(&mut link));
    let name = said.ok().and_then(|role| redis::from_redis_value_ref(&role[0]).ok());
    name.unwrap_or_default()
}

/// The keys that one line of MONITOR names; `None` for commands without any.
fn keys_of(line: &str) -> Option<Vec<String>> {
    let (_, words) = line.split_once("] \"")?;
    let words: Vec<&str> = words.trim_end_matches('"').split("\" \"").collect();
    let one = |word: &&str| vec![(*word).to_owned()];
    match words[0].to_uppercase().as_str() {
        "EVALSHA" | "EVAL" => {
            let count: usize = words[2].parse().unwrap();
            Some(words[3..3 + count].iter().map(|key| (*key).to_owned()).collect())
        }
        "INFO" | "SCAN" | "PING" | "TIME" | "CLIENT" | "HELLO" | "SELECT" | "ECHO" => None,
        _ => words.get(1).map(one),
    }
}

/// The slot of a key, as Redis Cluster counts it: CRC-16 (XMODEM) of what stands in the first braces.
fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag);
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16384
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_key_of_every_command_lies_in_one_slot() {
    assert_eq!((slot("123456789"), slot("foo{hash_tag}"), slot("hash_tag")), (12739, 2515, 2515));
    let server = RedisServer::start();
    let store = server.store().await;
    let mut monitor = UnixStream::connect(server.socket()).await.unwrap();
    monitor.write_all(b"MONITOR\r\n").await.unwrap();
    monitor.read_exact(&mut [0; 5]).await.unwrap();
    let cube = CubeSim::builder().start().await.unwrap();
    let one = warden::before(&cube.url()).store(store).without_tasks().start().await;
    let caller = one.caller();
    let id = caller.with("idempotency-key", "k").create(&body()).await;
    assert_eq!(caller.post(&format!("/sandboxes/{id}/snapshots"), "{}").await.status, 201);
    assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    one.warden.tasks.tick_beat().await.unwrap();
    one.warden.tasks.tick_inventory().await.unwrap();
    one.warden.tasks.tick_notes(0).await.unwrap();
    one.warden.ledger.decisions(0, 10).await.unwrap();
    one.warden.ledger.farewell().await.unwrap();
    redis::cmd("ECHO").arg("the end").exec(&mut server.connection()).unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("\"the end\"\r\n") {
        monitor.read_buf(&mut seen).await.unwrap();
    }
    let seen = String::from_utf8(seen).unwrap();
    let keys: Vec<Vec<String>> = seen.lines().filter_map(keys_of).collect();
    for name in [
        "EVALSHA", "EVAL", "GETRANGE", "XADD", "PUBLISH", "ZRANGE", "XTRIM", "XRANGE", "ZADD", "ZREM", "SET",
        "DEL",
    ] {
        assert!(seen.to_uppercase().contains(&format!("] \"{name}\"")), "{name} was not seen:\n{seen}");
    }
    let slots: std::collections::BTreeSet<u16> = keys.iter().flatten().map(|key| slot(key)).collect();
    assert_eq!(slots.len(), 1, "{keys:#?}");
    // Nothing that a script touches was kept from its KEYS.
    let declared: std::collections::BTreeSet<&String> =
        keys.iter().filter(|keys| keys.len() > 1).flatten().collect();
    let touched = seen.lines().filter(|line| line.contains(" lua] ") && !line.contains("\"PUBLISH\""));
    for key in touched.filter_map(keys_of).flatten() {
        assert!(declared.contains(&key), "{key} is not declared");
    }
}
