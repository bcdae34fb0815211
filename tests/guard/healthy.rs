//! A healthy Cube never notices the guard.

use cubewarden::rules::breaker::State;

use super::*;

#[tokio::test]
async fn before_a_healthy_cube_no_create_is_delayed_or_refused_and_nothing_is_said() {
    let world = world("").await;
    for _ in 0..10 {
        let all: Vec<_> = (0..100).map(|_| world.begin("POST", "/sandboxes".into(), Some(BODY))).collect();
        let mut ids = Vec::new();
        for answer in all {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
            ids.push(answer.text("sandboxID"));
        }
        assert_eq!(world.view().waiting, [0; 4]);
        let all: Vec<_> =
            ids.iter().map(|id| world.begin("DELETE", format!("/sandboxes/{id}"), None)).collect();
        world.tick().await;
        for answer in all {
            assert_eq!(answer.await.unwrap().status, 204);
        }
        assert!(!world.view().recovering);
    }
    let view = world.view();
    assert_eq!((view.limit, view.in_use), (256, [0; 4]));
    assert!(
        matches!((view.creates, view.deletes), (State::Closed { since: a }, State::Closed { since: b }) if a.0 + b.0 == 0)
    );
}

/// A hundred creates at once are all on their way at once: none of them waits for another.
#[tokio::test]
async fn a_hundred_creates_at_once_wait_for_nobody() {
    let world = world("").await;
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let all: Vec<_> = (0..100).map(|_| world.begin("POST", "/sandboxes".into(), Some(BODY))).collect();
    world.cube.until_held(100).await;
    assert_eq!((world.view().in_use[3], world.view().waiting), (100, [0; 4]));
    world.cube.clear_faults();
    world.cube.release();
    for answer in all {
        assert_eq!(answer.await.unwrap().status, 201);
    }
}

/// Shadow: what the guard would do is written down, and nothing is refused or delayed.
#[tokio::test]
async fn in_shadow_the_guard_watches_and_refuses_nobody() {
    let world = world("mode = \"shadow\"\n[write_path]\nmax_writes = 2").await;
    let rule = world.cube.fault(timed_out().on(Kind::Create));
    for _ in 0..20 {
        assert_eq!(world.create().await.status, 408, "Cube's own answer");
    }
    assert_eq!(world.cube.struck(rule), 20);
    assert!(matches!(world.view().creates, State::Open { .. }));
    world.cube.remove_fault(rule);
    assert_eq!(world.create().await.status, 201);
    world.pass(15).await;
    assert_eq!(world.create().await.status, 201);
    assert!(matches!(world.view().creates, State::Closed { .. }));
}

/// Where one key serves everybody, Cube counts all of them as one: so does the warden, and says so before Cube does.
#[tokio::test]
async fn calls_of_all_clients_together_stay_within_what_cube_allows_one_key() {
    let world = world("[write_path]\nupstream_calls_per_second = 2").await;
    let caller = world.warden.caller();
    let all = futures_util::future::join_all((0..20).map(|_| caller.get("/sandboxes"))).await;
    let limited: Vec<&Answer> = all.iter().filter(|answer| answer.status == 429).collect();
    assert!(limited.len() >= 10, "{all:?}");
    assert_eq!(limited[0].text("error_code"), "RATE_LIMITED");
    assert_eq!(caller.get("/health").await.status, 200);
}
