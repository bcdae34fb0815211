//! Several wardens before one Cube: one collects; another goes on where it stopped; two at once harm nobody.

use std::sync::Arc;

use cubewarden::store::Store;
use cubewarden::tasks::Cycle;

use super::{MINUTE, World, world};
use crate::crash::plain::Plain;
use crate::cube::Profile;
use crate::support::warden::{self, Running};

/// Two wardens on one ledger.
async fn two(config: &str) -> (World, Running) {
    let mut world = world(Profile::V060, config).await;
    let store: Arc<dyn Store> = Arc::new(Plain::shared(world.clock.clone()));
    let builder =
        || warden::before(&world.cube.url()).config(&world.config).clock(&world.clock).without_tasks();
    let first = builder().store(Arc::clone(&store)).start().await;
    let second = builder().store(store).start().await;
    world.warden = first;
    (world, second)
}

/// Another cycle of a warden, a minute later.
async fn next(world: &World, warden: &Running) -> Cycle {
    world.cube.advance(MINUTE).unwrap();
    let cycle = warden.warden.tasks.tick_collector().await.unwrap();
    warden.warden.finish().await;
    cycle
}

#[tokio::test]
async fn another_takes_over_within_three_cycles_and_goes_on_with_the_marks() {
    let (world, second) = two("[bucket_defaults]\nretention = \"10m\"\n").await;
    let id = world.create(300, "pause").await;
    world.cycles(12).await;
    assert_eq!(second.warden.tasks.tick_collector().await.unwrap(), Cycle::NotLeading);
    let taken_over = world.now().to_string();
    let mut cycles = Vec::new();
    for _ in 0..3 {
        cycles.push(next(&world, &second).await);
    }
    assert_eq!(cycles, [Cycle::NotLeading, Cycle::NotLeading, Cycle::Done]);
    let mut marked_at = String::new();
    for _ in 0..10 {
        if let Some(item) = second.warden.tasks.collector_view().report.unwrap().next.first() {
            marked_at = item.mark.since.to_string();
        }
        next(&world, &second).await;
    }
    assert!(!world.is_there(&id));
    assert!(!marked_at.is_empty() && marked_at < taken_over, "the mark was the first warden's: {marked_at}");
    let leader = world.admin("/v1/admin/collector").await["leader"].clone();
    assert_eq!(leader, second.warden.ledger.instance().as_str());
}

#[tokio::test]
async fn one_that_was_overtaken_ends_nothing_by_what_it_remembers() {
    let (world, second) = two("[bucket_defaults]\nretention = \"10m\"\n").await;
    let id = world.create(300, "pause").await;
    world.cycles(14).await;
    for _ in 0..3 {
        next(&world, &second).await;
    }
    assert!(world.is_there(&id));
    let mut cycles = Vec::new();
    for _ in 0..4 {
        cycles.push(next(&world, &world.warden).await);
    }
    assert_eq!(cycles, [Cycle::NotLeading, Cycle::NotLeading, Cycle::Overtaken, Cycle::Done]);
    assert!(world.is_there(&id), "its first listing confirms nothing");
}

#[tokio::test]
async fn shadow_decides_and_records_and_ends_nothing() {
    let mut world = world(Profile::V060, "[bucket_defaults]\nretention = \"10m\"\n").await;
    let id = world.create(300, "pause").await;
    world.config = format!("mode = \"shadow\"\n{}", world.config);
    world.reload("");
    world.cycles(30).await;
    assert!(world.is_there(&id));
    let plan = world.admin("/v1/admin/plan").await;
    assert_eq!(
        (&plan["carried_out"], &plan["ends"][0]["reason"]),
        (&false.into(), &"retention".into()),
        "{plan}"
    );
    world.warden.warden.tasks.tick_notes(1).await.unwrap();
    let decisions = world.admin("/v1/admin/decisions?limit=1000").await.to_string();
    assert_eq!(decisions.matches("would_collect").count(), 1, "{decisions}");
}
