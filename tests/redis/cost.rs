//! What a sandbox costs on Redis: round trips and memory.

use cubewarden::store::{Log, Store as _};

use super::body;
use crate::cube::CubeSim;
use crate::support::redis::RedisServer;
use crate::support::warden;

/// Commands that a client sends to the ledger; what scripts do inside is theirs.
const ASKED: [&str; 5] = ["evalsha", "eval", "zrange", "xrange", "xtrim"];

fn round_trips(server: &RedisServer) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(&mut server.connection()).unwrap();
    let calls = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    ASKED.iter().map(|name| calls(name)).sum()
}

/// What `work` costs in round trips.
async fn cost<T>(server: &RedisServer, work: impl Future<Output = T>) -> (T, u64) {
    let before = round_trips(server);
    let done = work.await;
    (done, round_trips(server) - before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_governed_create_costs_at_most_three_round_trips_in_all_and_a_delete_at_most_three() {
    let server = RedisServer::start();
    let cube = CubeSim::builder().start().await.unwrap();
    let start =
        async || warden::before(&cube.url()).store(server.store().await).without_tasks().start().await;
    let (one, other) = (start().await, start().await);
    let caller = one.caller();
    let delete = async |id: &str| one.caller().delete(&format!("/sandboxes/{id}")).await.status.as_u16();
    // The first of all finds no script and no time that it knows.
    let (id, first) = cost(&server, caller.create(&body())).await;
    assert!(first <= 3 + 1, "{first}: one script that was not known");
    assert_eq!(cost(&server, delete(&id)).await, (204, 3));
    let (id, created) = cost(&server, caller.create(&body())).await;
    assert_eq!(created, 2);
    let path = format!("/sandboxes/{id}/timeout");
    let (answer, touched) = cost(&server, caller.post(&path, r#"{"timeout":900}"#)).await;
    assert_eq!((answer.status.as_u16(), touched), (204, 3));
    assert_eq!(cost(&server, delete(&id)).await, (204, 3));

    // What another warden made is looked for by its name first, until an inventory has shown it.
    let ids = [caller.create(&body()).await, caller.create(&body()).await];
    let delete = async |id: &str| other.caller().delete(&format!("/sandboxes/{id}")).await.status.as_u16();
    assert_eq!(cost(&server, delete(&ids[0])).await, (204, 4));
    other.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(cost(&server, delete(&ids[1])).await, (204, 3));
}

/// The number stands in `src/store/schema.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_takes_less_than_three_kibibytes() {
    const ENTRIES: u64 = 1000;
    let server = RedisServer::start();
    let store = server.store().await;
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = warden::before(&cube.url()).store(store.clone()).without_tasks().start().await;
    let caller = warden.caller();
    let body = r#"{"templateID":"tpl-000000000000000000000001","timeout":300,"metadata":{"project":"search","run":"run-4711","user":"somebody@example.com"}}"#;
    let before = memory(&server);
    for _ in 0..ENTRIES / 50 {
        let creates: Vec<_> = (0..50)
            .map(|_| {
                let caller = caller.clone();
                tokio::spawn(async move { caller.create(body).await })
            })
            .collect();
        for create in creates {
            create.await.unwrap();
        }
    }
    store.trim_log(Log::Calls, 0, 0).await.unwrap();
    let each = (memory(&server) - before) / ENTRIES;
    println!("{each} bytes each");
    assert!((1000..3072).contains(&each), "{each}");
}

/// Of all keys together.
fn memory(server: &RedisServer) -> u64 {
    let mut link = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut link).unwrap();
    let mut of = |key: &String| -> u64 {
        redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(&mut link).unwrap()
    };
    keys.iter().map(&mut of).sum()
}
