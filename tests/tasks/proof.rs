//! What a 204 is worth while it is not known whether this Cube says so of anything.

use cubewarden::time::{ManualClock, UnixMillis};

use super::{SECOND, World};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile};
use crate::support::warden;

async fn untaught() -> World {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().profile(Profile::V070).clock(clock.clone()).start().await.unwrap();
    let warden = warden::before(&cube.url()).clock(&clock).without_tasks().untaught().start().await;
    World { cube, warden }
}

fn says(status: u16) -> Fault {
    Fault::Refuse { status, body: String::new(), retry_after: None }
}

#[tokio::test]
async fn a_204_of_a_cube_that_was_never_asked_is_confirmed() {
    let world = untaught().await;
    let id = world.create().await;
    world.delete(&id).await;
    assert_eq!(world.times(&format!("GET /sandboxes/{id}")), 1);
    assert_eq!(world.warden.held().await, 0);
}

#[tokio::test]
async fn a_204_that_deleted_nothing_frees_no_slot() {
    let world = untaught().await;
    let id = world.create().await;
    world.cube.fault(says(204).on(Kind::Delete).times(1));
    let (caller, path) = (world.warden.caller(), format!("/sandboxes/{id}"));
    let delete = tokio::spawn(async move { caller.delete(&path).await });
    let asked = format!("GET /sandboxes/{id}");
    crate::support::until("the 204 was doubted", || world.times(&asked) == 1).await;
    assert_eq!(world.warden.held().await, 1);
    crate::support::until("it is tried again", || {
        world.skip(1);
        delete.is_finished()
    })
    .await;
    assert_eq!(delete.await.unwrap().status, 204);
    assert!(world.cube.sandbox(&id).is_none());
    assert_eq!(world.warden.held().await, 0);
}

#[tokio::test]
async fn a_question_without_an_answer_is_asked_again_and_one_with_an_answer_is_not() {
    let world = untaught().await;
    let tasks = &world.warden.warden.tasks;
    let nobody = format!("DELETE /sandboxes/{}", "0".repeat(32));
    world.cube.fault(says(503).on(Kind::Delete).times(1));
    for asked in [1, 2, 2] {
        tasks.learn().await;
        assert_eq!(world.times(&nobody), asked);
    }
    let id = world.create().await;
    world.delete(&id).await;
    assert_eq!(world.times(&format!("GET /sandboxes/{id}")), 0, "now a 204 is proof");
}

#[tokio::test]
async fn the_tasks_ask_again_with_each_inventory() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    cube.fault(says(503).on(Kind::Delete).times(1));
    let warden = warden::before(&cube.url()).clock(&clock).start().await;
    let world = World { cube, warden };
    let nobody = format!("DELETE /sandboxes/{}", "0".repeat(32));
    crate::support::until("it was asked twice", || {
        clock.advance(SECOND);
        world.times(&nobody) == 2
    })
    .await;
}
