//! Where `CubeProxy` tells of traffic: what is used is kept, what is known to be idle may end.

use cubewarden::time::{ManualClock, UnixMillis};

use super::{Cycle, MINUTE, PLAIN, TEMPLATE, World};
use crate::cube::admin::ADMIN_TOKEN;
use crate::cube::{CubeSim, Profile};
use crate::support::http::Caller;
use crate::support::warden;

async fn watched(token: &str) -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().profile(Profile::V060).clock(clock.clone());
    let cube = cube.admin("127.0.0.1:0".parse().unwrap()).start().await.unwrap();
    let door = cube.admin_addr().unwrap();
    let config = format!(
        "[upstream]\nactivity = \"cubeproxy\"\nactivity_urls = [\"http://{door}\"]\nactivity_token_env = \"PROXY_TOKEN\"\n{PLAIN}"
    );
    let builder = warden::before(&cube.url()).config(&config).env("PROXY_TOKEN", token).clock(&clock);
    let warden = builder.without_tasks().start().await;
    World { clock, cube, warden, config, cycle: MINUTE }
}

/// It runs, and Cube never ends it: the sweeper there is asleep.
async fn endless_at_cube(world: &World) -> String {
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":300}}"#);
    let id = world.warden.caller().create(&body).await;
    let cube = Caller::new(&world.cube.url());
    let answer = cube.post(&format!("/sandboxes/{id}/timeout"), r#"{"timeout":-1}"#).await;
    assert_eq!(answer.status, 204);
    id
}

#[tokio::test]
async fn what_is_used_is_kept_however_overdue_and_ends_half_an_hour_after_its_last_use() {
    let world = watched(ADMIN_TOKEN).await;
    let used = endless_at_cube(&world).await;
    for _ in 0..120 {
        world.cube.traffic(&used);
        world.cycles(1).await;
    }
    assert!(world.is_there(&used), "it was in use all the time");
    let unused = endless_at_cube(&world).await;
    world.cycles(28).await;
    assert!(world.is_there(&used) && world.is_there(&unused));
    world.cycles(4).await;
    assert!(!world.is_there(&used), "no traffic for longer than the grace");
    world.cycles(6).await;
    assert!(!world.is_there(&unused), "overdue for longer than the grace, and never used");
    assert!((world.metric("cubewarden_collected_total{reason=\"overdue_idle\"}").await - 2.0).abs() < 0.1);
}

#[tokio::test]
async fn where_nobody_tells_nothing_is_known_to_be_idle() {
    let world = watched("not-the-token").await;
    let id = endless_at_cube(&world).await;
    world.cycles(120).await;
    assert!(world.is_there(&id));
    let found = world.admin("/v1/admin/collector").await["found"].clone();
    assert_eq!(found["kept"][0]["reasons"]["use_unknown"], 1, "{found}");
    assert_eq!(world.tick().await, Cycle::Done);
}
