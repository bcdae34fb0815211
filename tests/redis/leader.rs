//! One warden of several leads; another takes over when it ends, and not before.

use std::time::Duration;

use cubewarden::ledger::Lead;
use cubewarden::time::{ManualClock, UnixMillis};

use crate::cube::CubeSim;
use crate::support::redis::RedisServer;
use crate::support::warden::{self, Running};

const TTL: Duration = Duration::from_secs(60);

async fn lead(warden: &Running) -> Lead {
    warden.warden.ledger.lead(TTL).await.unwrap()
}

fn follows(warden: &Running) -> Lead {
    Lead::Follows(warden.warden.ledger.instance().clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_until_its_time_is_over_and_a_term_is_never_led_twice() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let (server, cube) =
        (RedisServer::start(), CubeSim::builder().clock(clock.clone()).start().await.unwrap());
    let start = async |name: &str| {
        let plan = warden::before(&cube.url()).clock(&clock).without_tasks();
        plan.env("CUBEWARDEN_UPSTREAM_NAME", name).store(server.store_at(&clock).await).start().await
    };
    let (one, other, elsewhere) = (start("cube").await, start("cube").await, start("other").await);
    let Lead::Leading(first) = lead(&one).await else { panic!("nobody leads") };
    assert_eq!((lead(&other).await, lead(&one).await), (follows(&one), Lead::Leading(first)));
    assert!(matches!(lead(&elsewhere).await, Lead::Leading(_)), "another Cube is another matter");

    clock.advance(Duration::from_secs(59));
    assert_eq!((lead(&other).await, lead(&one).await), (follows(&one), Lead::Leading(first)));
    clock.advance(Duration::from_secs(60));
    let Lead::Leading(second) = lead(&other).await else { panic!("it has lapsed") };
    assert_eq!(lead(&one).await, follows(&other));
    // Whoever steps down in order is followed at once.
    other.warden.ledger.farewell().await.unwrap();
    let Lead::Leading(third) = lead(&one).await else { panic!("nobody leads") };
    assert!(first < second && second < third);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cubes_list_is_taken_in_by_one_warden_for_all() {
    let server = RedisServer::start();
    let cube = CubeSim::builder().start().await.unwrap();
    let start =
        async || warden::before(&cube.url()).store(server.store().await).without_tasks().start().await;
    let wardens = [start().await, start().await, start().await];
    let before = cube.requests().len();
    for _ in 0..2 {
        for one in &wardens {
            one.warden.tasks.tick_inventory().await.unwrap();
        }
    }
    let lists = cube.requests().split_off(before);
    let lists = lists.iter().filter(|seen| seen.head.target.contains("/sandboxes")).count();
    assert_eq!(lists, 2, "{:?}", cube.requests());
    let follow: Vec<bool> = wardens.iter().map(|one| one.warden.tasks.status().follows).collect();
    assert_eq!(follow, [false, true, true]);
}
