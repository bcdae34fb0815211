//! Lists that leave things out: what they do not show is not gone.

use std::collections::BTreeSet;

use super::{World, world};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;

/// A create of which Cube loses the answer although it is done; which one it made.
async fn lost_create(world: &World) -> String {
    let before: BTreeSet<String> = world.cube.alive().into_iter().map(|one| one.id).collect();
    world.cube.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    assert_eq!(world.warden.caller().post("/sandboxes", super::ENDLESS).await.status, 504);
    world.cube.alive().into_iter().map(|one| one.id).find(|id| !before.contains(id)).unwrap()
}

/// Searches for longer than the horizon.
async fn searched(world: &World) {
    for _ in 0..10 {
        world.skip(100);
        world.due().await;
    }
}

#[tokio::test]
async fn a_host_that_is_away_proves_nothing_of_what_it_holds() {
    let world = world().await;
    let mut known = Vec::new();
    for _ in 0..12 {
        known.push(world.create().await);
    }
    world.skip(200);
    world.inventory().await;
    let lost = lost_create(&world).await;
    let host = world.cube.sandbox(&lost).unwrap().host;
    let there = known.iter().filter(|id| world.cube.sandbox(id).unwrap().host == host).count();
    assert!(there > 0, "others live on its host");
    let away = world.cube.fault(Fault::HostUnreachable { host });
    searched(&world).await;
    assert_eq!(world.warden.held().await, 13, "GETs of what is there are answered 500");
    world.cube.remove_fault(away);
    world.skip(5);
    world.due().await;
    crate::support::until("the lost one was found and killed", || world.cube.sandbox(&lost).is_none()).await;
}

#[tokio::test]
async fn what_vanished_and_is_gone_takes_no_trust_from_the_list() {
    let world = world().await;
    let dead = world.create().await;
    world.create().await;
    world.skip(200);
    world.inventory().await;
    let lost = lost_create(&world).await;
    for id in [dead, lost] {
        assert!(world.cube.let_die(&id));
    }
    searched(&world).await;
    assert_eq!(world.warden.held().await, 1, "one is gone by GET, the other by what the list shows");
}

#[tokio::test]
async fn those_that_vanish_are_all_asked_about_in_their_turn() {
    let world = world().await;
    world.warden.caller().post("/sandboxes", super::ENDLESS).await;
    let mut ids = BTreeSet::new();
    for _ in 0..300 {
        ids.insert(world.cube.plant(crate::cube::model::Plant { timeout: None, ..Default::default() }));
    }
    world.inventory().await;
    assert_eq!(world.warden.held().await, 301);
    world.skip(200);
    world.cube.fault(Fault::Omit { ids: ids.clone() });
    world.cube.fault(Fault::Refuse { status: 500, body: "{}".to_owned(), retry_after: None }.on(Kind::Get));
    world.inventory().await;
    let asked = |world: &World| {
        let lines: BTreeSet<&String> =
            ids.iter().filter(|id| world.times(&format!("GET /sandboxes/{id}")) > 0).collect();
        lines.len()
    };
    assert_eq!(asked(&world), 256);
    world.inventory().await;
    assert_eq!(asked(&world), 300);
}
