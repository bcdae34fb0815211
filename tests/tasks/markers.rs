//! Markers are hints: they can be copied, doubled, or written under another prefix.

use std::collections::BTreeMap;

use cubewarden::rules::entry::Origin;

use super::{World, configured, world};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::Plant;
use crate::support::{until, warden};

/// A sandbox made round the warden with the metadata of another.
fn copy_of(world: &World, id: &str) -> String {
    let metadata: BTreeMap<String, String> = world.cube.sandbox(id).unwrap().metadata;
    assert!(metadata.contains_key("cw_marker"), "{metadata:?}");
    world.cube.plant(Plant { metadata, timeout: Some(360_000), ..Plant::default() })
}

#[tokio::test]
async fn a_copy_of_a_dead_ones_metadata_is_not_the_dead_one() {
    let world = world().await;
    let dead = world.create().await;
    let copy = copy_of(&world, &dead);
    world.delete(&dead).await;
    for _ in 0..3 {
        world.skip(60);
        world.inventory().await;
        world.due().await;
    }
    assert!(world.cube.sandbox(&copy).is_some(), "it was never condemned");
    let entry = world.entry(&copy).await.expect("it is charged");
    assert_eq!((entry.origin, entry.state.name()), (Origin::Round, "live"));
    assert_eq!(world.times(&format!("DELETE /sandboxes/{copy}")), 0);
    assert_eq!(world.warden.held().await, 1);
}

#[tokio::test]
async fn a_copy_of_a_living_ones_metadata_is_charged_where_that_is() {
    let world = world().await;
    let first = world.create().await;
    let copy = copy_of(&world, &first);
    world.skip(60);
    world.inventory().await;
    let (first, copy) =
        (world.entry(&first).await.unwrap(), world.entry(&copy).await.expect("it is charged"));
    assert_eq!(copy.origin, Origin::Round);
    assert_eq!((copy.bucket, copy.owner), (first.bucket, first.owner));
    assert_ne!(copy.marker, first.marker);
    assert_eq!(world.warden.held().await, 2);
}

/// Loses the answer of a create that was done, and makes the one sandbox of it two.
async fn one_create_two_sandboxes(world: &World) -> Vec<String> {
    world.cube.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    let answer = world.warden.caller().post("/sandboxes", super::ENDLESS).await;
    assert_eq!(answer.status, 504);
    let made = world.cube.alive()[0].id.clone();
    vec![copy_of(world, &made), made]
}

/// Nobody could claim the create's own; the other is nobody's loss.
async fn one_is_killed_and_one_is_charged(world: &World) {
    until("the create's own is killed", || world.cube.alive().len() == 1).await;
    let entry = world.entry(&world.cube.alive()[0].id).await.expect("the other is charged");
    assert_eq!((entry.origin, entry.state.name()), (Origin::Round, "live"));
}

#[tokio::test]
async fn of_two_sandboxes_from_one_lost_create_none_goes_uncharged() {
    let world = world().await;
    one_create_two_sandboxes(&world).await;
    world.due().await;
    one_is_killed_and_one_is_charged(&world).await;
}

#[tokio::test]
async fn the_inventory_too_leaves_none_of_two_uncharged() {
    let world = world().await;
    one_create_two_sandboxes(&world).await;
    world.inventory().await;
    one_is_killed_and_one_is_charged(&world).await;
}

#[tokio::test]
async fn a_lost_create_is_found_under_the_prefix_that_it_was_made_with() {
    let world = world().await;
    world.cube.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    assert_eq!(world.warden.caller().post("/sandboxes", super::ENDLESS).await.status, 504);
    let config = "[identity]\nmetadata_prefix = \"acme_\"\n";
    world.warden.warden.reload(&warden::before(&world.cube.url()).config(config).settings());
    world.skip(5);
    world.due().await;
    until("it was found, and killed, for nobody can claim it", || world.cube.alive().is_empty()).await;
}

#[tokio::test]
async fn what_was_made_under_another_prefix_goes_back_to_its_owner() {
    let world = configured("[identity]\nmetadata_prefix = \"acme_\"\n").await;
    let first = world.create().await;
    let labels = world.cube.sandbox(&first).unwrap().metadata;
    let plain = labels.into_iter().map(|(key, value)| (key.replace("acme_", "old_"), value));
    let metadata: BTreeMap<String, String> = plain
        .map(|(key, value)| if key == "old_cw_marker" { (key, "b".repeat(32)) } else { (key, value) })
        .collect();
    let made = world.cube.plant(Plant { metadata, timeout: Some(360_000), ..Plant::default() });
    world.skip(60);
    world.inventory().await;
    let entry = world.entry(&made).await.expect("it is ours");
    assert_eq!((entry.origin, entry.marker.as_str()), (Origin::Imported, "b".repeat(32).as_str()));
}
