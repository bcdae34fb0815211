//! Deletes: never refused by the guard, their half of the pool is theirs, and what cannot be deleted holds no create back.

use cubewarden::rules::breaker::State;

use super::*;

async fn several(world: &World, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(world.create().await.text("sandboxID"));
    }
    ids
}

/// A pool full of creates that hang: a delete goes at once, a renewal waits for nobody but its own half.
#[tokio::test]
async fn a_pool_full_of_hanging_creates_keeps_no_delete_waiting() {
    let world = world("[write_path]\nmax_writes = 8").await;
    let ids = several(&world, 4).await;
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let storm: Vec<_> = (0..80).map(|_| world.begin("POST", "/sandboxes".into(), Some(BODY))).collect();
    world.cube.until_held(4).await;
    crate::support::until("the rest wait", || world.view().waiting[3] == 76).await;
    for id in &ids {
        assert_eq!(world.warden.caller().delete(&format!("/sandboxes/{id}")).await.status, 204);
    }
    assert_eq!(world.view().in_use, [0, 0, 0, 4]);
    storm.iter().for_each(JoinHandle::abort);
}

/// While creates are shut, deletes and renewals go on.
#[tokio::test]
async fn deletes_and_renewals_go_on_while_creates_are_shut() {
    let world = world("").await;
    let ids = several(&world, 3).await;
    world.break_creates().await;
    shut(&world.create().await);
    let caller = world.warden.caller();
    let renewed = caller.post(&format!("/sandboxes/{}/timeout", ids[0]), r#"{"timeout":900}"#).await;
    assert_eq!(renewed.status, 204);
    let paused = caller.call("POST", &format!("/sandboxes/{}/pause", ids[1]), None).await;
    assert_eq!(paused.status, 204, "{paused:?}");
    for id in &ids {
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    }
}

/// Three that cannot be deleted are quarantined; creates flow, although the breaker of deletes has nobody to probe with.
#[tokio::test]
async fn three_quarantined_deletes_and_a_healthy_cube_let_creates_flow() {
    let world = world("[reconciler]\nquarantine_after = 2\nquarantine_retry = \"24h\"").await;
    let ids = several(&world, 3).await;
    world.cube.fault(Fault::TransportError.on(Kind::Delete));
    let all: Vec<_> = ids.iter().map(|id| world.begin("DELETE", format!("/sandboxes/{id}"), None)).collect();
    for _ in 0..20 {
        world.pass(5).await;
    }
    for answer in all {
        assert_eq!(answer.await.unwrap().status, 503);
    }
    let states: Vec<_> = world.warden.entries().await.iter().map(|entry| entry.state.name()).collect();
    assert_eq!(states, ["quarantined"; 3]);
    assert!(!matches!(world.view().deletes, State::Closed { .. }), "{:?}", world.view());
    assert!(!world.view().recovering && world.view().backlog == 0, "{:?}", world.view());
    for _ in 0..100 {
        assert_eq!(world.create().await.status, 201);
    }
}

/// While theirs is open, one delete is on its way at any time, whoever asks; when Cube is well again all go by themselves.
#[tokio::test]
async fn while_deletes_fail_one_is_always_on_its_way_and_a_healed_cube_is_found_at_once() {
    let world = world("").await;
    let ids = several(&world, 12).await;
    let blocked = world.cube.fault(Fault::Block { late_ms: None }.on(Kind::Delete));
    let all: Vec<_> = ids.iter().map(|id| world.begin("DELETE", format!("/sandboxes/{id}"), None)).collect();
    crate::support::until("all are on their way", || world.cube.struck(blocked) == 12).await;
    world.pass(30).await;
    for answer in all {
        assert_eq!(answer.await.unwrap().status, 503);
    }
    for _ in 0..10 {
        world.pass(15).await;
        crate::support::until("one is on its way", || world.view().in_use[0] == 1).await;
        assert!(world.view().recovering, "{:?}", world.view());
    }
    world.cube.clear_faults();
    for _ in 0..8 {
        world.pass(15).await;
    }
    assert_eq!((world.cube.alive().len(), world.warden.held().await), (0, 0));
    assert!(!world.view().recovering);
    assert_eq!(world.create().await.status, 201);
}
