//! A sign of life that comes at any moment of the cycle that would end a sandbox: it lives.

use super::{World, world};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::Answer;

const CONFIG: &str = "[bucket_defaults]\nretention = \"10m\"\nreuse = true\nids = \"qualified\"\n";

/// What its holder does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Beat,
    Connect,
    Reuse,
}

/// A paused lease, and the number of the cycle that ends it if nobody does anything.
async fn paused() -> (World, Answer) {
    let world = world(Profile::V060, CONFIG).await;
    let lease = world.lease("default/dev", "run", 300).await;
    (world, lease)
}

async fn fatal_cycle() -> usize {
    let (world, _lease) = paused().await;
    for cycle in 1..40 {
        world.cycles(1).await;
        if world.cube.alive().is_empty() {
            return cycle;
        }
    }
    panic!("it was never ended");
}

async fn act(world: &World, lease: &Answer, deed: Deed) -> u16 {
    let id = lease.text("sandbox_id");
    match deed {
        Deed::Beat => world.beat(lease).await,
        Deed::Connect => {
            let (caller, path) = (world.warden.caller(), format!("/sandboxes/{id}/connect"));
            caller.post(&path, r#"{"timeout":300}"#).await.status.as_u16()
        }
        Deed::Reuse => world.lease("default/dev", "run", 300).await.status.as_u16(),
    }
}

#[tokio::test]
async fn whatever_a_holder_does_at_any_step_of_the_fatal_cycle_keeps_its_sandbox() {
    let fatal = fatal_cycle().await;
    let steps = [
        (Kind::List, Fault::Hold { done: false }),
        (Kind::List, Fault::Hold { done: true }),
        (Kind::Get, Fault::Hold { done: false }),
        (Kind::Get, Fault::Hold { done: true }),
    ];
    for deed in [Deed::Beat, Deed::Connect, Deed::Reuse] {
        for (kind, hold) in &steps {
            let (world, lease) = paused().await;
            world.cycles(fatal - 1).await;
            assert_eq!(world.cube.alive().len(), 1);
            world.cube.fault(hold.clone().on(*kind).times(1));
            world.cube.advance(world.cycle).unwrap();
            let cycle = async {
                world.tick().await;
            };
            let race = async {
                world.cube.until_held(1).await;
                let status = act(&world, &lease, deed).await;
                world.cube.release();
                status
            };
            let ((), status) = tokio::join!(cycle, race);
            let what = format!("{deed:?} while {kind:?} waits ({hold:?})");
            assert!((200..300).contains(&status), "{what}: {status}");
            world.cycles(2).await;
            assert_eq!(world.cube.alive().len(), 1, "{what}");
            let entry = world.warden.entries().await.remove(0);
            assert!(entry.usable(), "{what}: {:?}", entry.state);
        }
    }
}
