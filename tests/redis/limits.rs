//! Wardens of one ledger that are configured for different limits.

use std::time::Duration;

use cubewarden::ids::Bucket;
use cubewarden::ledger::Limits;
use cubewarden::time::{ManualClock, UnixMillis};

use super::body;
use crate::cube::CubeSim;
use crate::support::redis::RedisServer;
use crate::support::warden::{self, Running};

struct World {
    server: RedisServer,
    clock: ManualClock,
    cube: CubeSim,
}

impl World {
    async fn start() -> Self {
        let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
        let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
        Self { server: RedisServer::start(), clock, cube }
    }

    fn plan(&self, limit: u32) -> warden::Builder {
        let config = format!("[admission]\nwait = \"0s\"\n[bucket_defaults]\nlimit = {limit}");
        warden::before(&self.cube.url()).config(&config).clock(&self.clock).without_tasks()
    }

    async fn warden(&self, limit: u32) -> Running {
        self.plan(limit).store(self.server.store_at(&self.clock).await).start().await
    }
}

/// Tries to fill up; how many there are then.
async fn filled(world: &World, warden: &Running) -> usize {
    for _ in 0..30 {
        let status = warden.caller().post("/sandboxes", &body()).await.status.as_u16();
        if status != 201 {
            assert_eq!(status, 429);
            return world.cube.alive().len();
        }
    }
    panic!("nothing limits it");
}

async fn ready(warden: &Running) -> serde_json::Value {
    let request = http::Request::get("/readyz").body(()).unwrap().into_parts().0;
    let body = warden.warden.admin.answer(&request).await.into_body();
    serde_json::from_slice::<serde_json::Value>(&body).unwrap()["limits"].clone()
}

async fn leave(warden: Running) {
    warden.warden.ledger.farewell().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_with_a_larger_limit_converges_and_nobody_is_ahead_of_it() {
    let world = World::start().await;
    let (one, other) = (world.warden(3).await, world.warden(3).await);
    assert_eq!((ready(&one).await["agree"].clone(), filled(&world, &one).await), (true.into(), 3));
    leave(one).await;
    let one = world.warden(5).await;
    assert_eq!((ready(&one).await["agree"].clone(), filled(&world, &one).await), (false.into(), 3));
    assert_eq!(filled(&world, &other).await, 3);
    leave(other).await;
    let other = world.warden(5).await;
    // The one that has not looked again yet learns of it from the ledger when it counts.
    assert_eq!(filled(&world, &one).await, 5);
    assert_eq!(filled(&world, &other).await, 5);
    one.warden.tasks.tick_beat().await.unwrap();
    let (first, second) = (ready(&one).await, ready(&other).await);
    assert_eq!((&first, &first["agree"]), (&second, &true.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_smaller_limit_holds_everywhere_from_the_moment_that_one_warden_has_it() {
    let world = World::start().await;
    let one = world.warden(6).await;
    one.caller().create(&body()).await;
    let other = world.warden(2).await;
    assert_eq!(filled(&world, &one).await, 2, "though nobody has told it");
    let text = one.warden.metrics.render(None);
    assert!(text.contains("cubewarden_limits_disagree 0"), "it has not looked yet");
    one.warden.tasks.tick_beat().await.unwrap();
    assert!(one.warden.metrics.render(None).contains("cubewarden_limits_disagree 1"));

    // The operator sets it right: a reload is enough.
    other.warden.reload(&world.plan(6).settings());
    assert_eq!(filled(&world, &other).await, 2, "as long as its beat says otherwise");
    other.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(filled(&world, &one).await, 6);
    let revision = ready(&other).await["revision"].as_u64().unwrap();
    // Lowering it by a reload holds at the other as soon as it is settled.
    one.warden.reload(&world.plan(1).settings());
    one.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(other.caller().post("/sandboxes", &body()).await.status, 429);
    let bucket = Bucket::parse("default/dev").unwrap();
    let mine = Limits { bucket: Some(6), global: None };
    assert_eq!(other.warden.ledger.in_force(&bucket, mine).bucket, Some(1));
    assert_eq!(ready(&one).await["revision"], revision + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_of_a_warden_that_died_holds_until_it_is_known_to_be_dead() {
    let world = World::start().await;
    let small = world.warden(2).await;
    let large = world.warden(4).await;
    drop(small);
    world.clock.advance(Duration::from_secs(50));
    large.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(filled(&world, &large).await, 2);
    world.clock.advance(Duration::from_secs(11));
    large.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(filled(&world, &large).await, 4);
}
