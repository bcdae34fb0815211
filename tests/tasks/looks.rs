//! When the living are looked at, and what an answer says that is older than what is known.

use super::{SECOND, World, world};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::Plant;

async fn looked_at(world: &World, id: &str, seconds: u32) -> usize {
    let before = world.times(&format!("GET /sandboxes/{id}"));
    for _ in 0..seconds {
        world.skip(1);
        world.due().await;
    }
    world.times(&format!("GET /sandboxes/{id}")) - before
}

#[tokio::test]
async fn one_look_at_what_ends_later_or_never_brings_no_further_looks() {
    let world = world().await;
    let later = world.create().await;
    let never = world.cube.plant(Plant { timeout: None, ..Plant::default() });
    world.skip(200);
    world.inventory().await;
    world.cube.fault(Fault::EmptyList.on(Kind::List).times(1));
    world.skip(200);
    world.inventory().await;
    for id in [&later, &never] {
        assert_eq!(world.times(&format!("GET /sandboxes/{id}")), 1, "the list left it out");
        assert_eq!(looked_at(&world, id, 60).await, 0);
    }
    let (later, never) = (world.entry(&later).await.unwrap(), world.entry(&never).await.unwrap());
    assert_eq!(later.due, later.deadline.map(|deadline| deadline.plus(5 * SECOND)));
    assert_eq!(never.due, None);
}

#[tokio::test]
async fn what_was_asked_before_a_pause_does_not_undo_it() {
    let world = world().await;
    let id = world.create().await;
    let path = format!("/sandboxes/{id}");
    world.cube.fault(Fault::Hold { done: true }.on(Kind::List).times(1));
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Get).times(1));
    let tasks = std::sync::Arc::clone(&world.warden.warden.tasks);
    let list = tokio::spawn(async move { tasks.tick_inventory().await });
    let (caller, route) = (world.warden.caller(), path.clone());
    let get = tokio::spawn(async move { caller.get(&route).await });
    world.cube.until_held(2).await;
    world.skip(1);
    assert_eq!(world.warden.caller().post(&format!("{path}/pause"), "").await.status, 204);
    let paused = world.entry(&id).await.unwrap();
    assert!(paused.paused_since().is_some());
    world.cube.release();
    list.await.unwrap().unwrap();
    assert_eq!(get.await.unwrap().status, 200);
    assert_eq!(world.entry(&id).await.unwrap().state, paused.state);
}
