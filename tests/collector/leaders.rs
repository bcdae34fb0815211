//! Several wardens before one Cube: one collects; another goes on where it stopped; two at once harm nobody.

use std::sync::Arc;

use cubewarden::cli::warden::open_store;
use cubewarden::store::Store;
use cubewarden::tasks::Cycle;
use cubewarden::time::Clock;

use super::{MINUTE, World, world};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::warden::{self, Running};

/// Two wardens on one ledger.
async fn two(config: &str) -> (World, Running) {
    let mut world = world(Profile::V060, config).await;
    let builder =
        || warden::before(&world.cube.url()).config(&world.config).clock(&world.clock).without_tasks();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let store: Arc<dyn Store> = open_store(&builder().settings().store, &clock).await.unwrap();
    let first = builder().store(Arc::clone(&store)).start().await;
    let second = builder().store(store).start().await;
    world.warden = first;
    (world, second)
}

#[tokio::test]
async fn another_takes_over_within_three_cycles_and_goes_on_with_the_marks() {
    let (world, second) = two("[bucket_defaults]\nretention = \"10m\"\n").await;
    let id = world.create(300, "pause").await;
    world.cycles(12).await;
    assert_eq!(second.warden.tasks.tick_collector().await.unwrap(), Cycle::NotLeading);
    assert!(world.is_there(&id));
    let mut cycles = Vec::new();
    for _ in 0..5 {
        world.cube.advance(MINUTE).unwrap();
        cycles.push(second.warden.tasks.tick_collector().await.unwrap());
        second.warden.finish().await;
    }
    assert_eq!(cycles[..3], [Cycle::NotLeading, Cycle::Done, Cycle::Done]);
    assert!(!world.is_there(&id), "the marks were there; the first listing of its own confirmed nothing");
    let leader = world.admin("/v1/admin/collector").await["leader"].clone();
    assert_eq!(leader, second.warden.ledger.instance().as_str());
}

#[tokio::test]
async fn one_that_was_overtaken_in_its_cycle_ends_nothing() {
    let patient = "[upstream]\ncall_timeout = \"10m\"\n[write_path]\nwindow = \"20m\"\n";
    let (world, second) = two(&format!("{patient}[bucket_defaults]\nretention = \"10m\"\n")).await;
    let id = world.create(300, "pause").await;
    world.cycles(14).await;
    assert!(world.is_there(&id));
    world.cube.fault(Fault::Hold { done: true }.on(Kind::List).times(1));
    world.cube.advance(MINUTE).unwrap();
    let slow = world.warden.warden.tasks.tick_collector();
    let quick = async {
        world.cube.until_held(1).await;
        world.cube.advance(3 * MINUTE).unwrap();
        let cycle = second.warden.tasks.tick_collector().await.unwrap();
        world.cube.release();
        cycle
    };
    let (slow, quick) = tokio::join!(slow, quick);
    assert_eq!((slow.unwrap(), quick), (Cycle::Overtaken, Cycle::Done));
    assert!(world.is_there(&id), "one knew too little, the other came too late");
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
