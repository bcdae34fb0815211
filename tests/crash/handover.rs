//! A warden killed at each commit of a reuse, a beat, a release and a claim that is given up: whoever asks again gets what is
//! theirs, and the holder before comes late in vain.

use cubewarden::ids::{Generation, SandboxRef};
use cubewarden::time::Clock as _;
use serde_json::json;

use super::holders::{
    Held, QUALIFIED, SECOND, acquire, by_lease, delete, deletes_of, first, idle, marked, world,
};
use super::steps::struck_at_each_step;
use super::world::World;

const BARE: &str = "[bucket_defaults]\nlimit = 3\nreuse = true\n[admission]\nwait = \"0s\"\n";

/// The first holder comes late, by all it was given; then its successor's sandbox lives.
fn comes_late(name: &str, world: &World, held: &Held) {
    for _ in 0..2 {
        let call = delete(world, &held.qualified);
        assert_eq!(world.finish(call).unwrap().status, 404, "{name}");
        let zero = world.ask("POST", &format!("/sandboxes/{}/timeout", held.qualified), r#"{"timeout":0}"#);
        assert_eq!(zero.unwrap().status, 404, "{name}");
        let released = by_lease(world, "releases", held, "lease-a").unwrap();
        assert_eq!((released.status.as_u16(), released.text("error_code").as_str()), (409, "LEASE_SEALED"));
    }
    assert_eq!((world.alive(), deletes_of(world, &held.id)), ([held.id.clone()].into(), 0), "{name}");
}

fn restarted(name: &str, world: &mut World) {
    world.crash();
    world.start(|_| {});
    world.check_counted(name);
}

#[test]
fn a_warden_killed_at_any_step_of_a_reuse_leaves_the_sandbox_to_whoever_asks_again() {
    for paused in [false, true] {
        let stage = || {
            let mut world = world(QUALIFIED);
            if paused {
                idle(&mut world);
            } else {
                first(&world, 300);
            }
            world
        };
        let life = |world: &mut World| {
            acquire(world, "lease-b", 300);
        };
        let what = format!("reuse, paused: {paused}");
        let steps = struck_at_each_step(&what, stage, life, |name, world| {
            restarted(name, world);
            let (held, _) = marked(world);
            let again = acquire(world, "lease-b", 300).unwrap();
            assert_eq!((again.status.as_u16(), again.text("sandbox_id")), (200, held.id.clone()), "{name}");
            let entry = world.entry_of(&held.id).unwrap();
            assert_eq!((entry.holders, entry.paused_since()), (2, None), "{name}");
            let before = SandboxRef {
                id: entry.sandbox.clone().unwrap(),
                generation: Some(Generation(entry.generation.0 - 1)),
            };
            comes_late(name, world, &Held { qualified: before.to_string(), ..held });
            world.reconcile();
            world.check_settled(name);
        });
        assert_eq!(steps, if paused { 4 } else { 1 }, "{what}");
    }
}

#[test]
fn a_warden_killed_at_any_step_of_a_beat_leaves_a_lease_that_goes_on() {
    let stage = || {
        let world = world(QUALIFIED);
        first(&world, 300);
        world.advance(110 * SECOND);
        world
    };
    let life = |world: &mut World| {
        let (held, _) = marked(world);
        by_lease(world, "heartbeats", &held, "lease-a");
    };
    let steps = struck_at_each_step("beat", stage, life, |name, world| {
        restarted(name, world);
        let (held, _) = marked(world);
        let again = by_lease(world, "heartbeats", &held, "lease-a").unwrap();
        assert_eq!(again.status, 200, "{name}: {again:?}");
        let entry = world.entry_of(&held.id).unwrap();
        let end = world.cube.sandbox(&held.id).unwrap().end_at_ms.unwrap();
        assert_eq!(entry.deadline.unwrap().0, end, "{name}: the ledger's end is Cube's");
        assert!(entry.deadline.unwrap().since(world.clock.now()) > 250 * SECOND, "{name}: it was renewed");
        world.reconcile();
        world.check_settled(name);
        assert_eq!(world.alive().len(), 1, "{name}");
    });
    assert_eq!(steps, 2, "the beat, and what Cube made of the renewal");
}

#[test]
fn a_warden_killed_at_any_step_of_a_release_ends_it_once_and_its_owner_gets_another() {
    let stage = || {
        let world = world(QUALIFIED);
        first(&world, 86_400);
        world
    };
    let life = |world: &mut World| {
        let (held, _) = marked(world);
        by_lease(world, "releases", &held, "lease-a");
        world.settle();
    };
    let steps = struck_at_each_step("release", stage, life, |name, world| {
        restarted(name, world);
        // Gone already, where the warden died after its last step: only the owner's name is left then.
        let owner = world.entries().first().map(|entry| entry.owner.to_string());
        if let Some(owner) = owner {
            let written = world.entries()[0].kill().is_some();
            let body = json!({"owner_id": owner, "lease_id": "lease-a"}).to_string();
            let again = world.ask("POST", "/v1/lease-releases", &body).unwrap();
            assert_eq!(again.status, if written { 409 } else { 202 }, "{name}: {again:?}");
        }
        assert_eq!(acquire(world, "lease-a", 300).unwrap().text("error_code"), "LEASE_SEALED", "{name}");
        let another = acquire(world, "lease-c", 86_400).unwrap();
        assert_eq!(another.status, 201, "{name}: {another:?}");
        world.reconcile();
        world.check_settled(name);
        assert_eq!(world.alive(), [another.text("sandbox_id")].into(), "{name}");
    });
    assert_eq!(steps, 2, "the intent, and the proof");
}

#[test]
fn a_warden_killed_while_claims_are_given_up_ends_the_sandbox_with_the_last_one_only() {
    for paused in [false, true] {
        let stage = || {
            let mut world = world(BARE);
            first(&world, 300);
            assert_eq!(acquire(&world, "lease-b", 300).unwrap().status, 200);
            if paused {
                world.advance(306 * SECOND);
                world.tick_due();
            }
            world
        };
        let life = |world: &mut World| {
            let (held, _) = marked(world);
            for _ in 0..2 {
                let call = delete(world, &held.id);
                world.finish(call);
            }
            if !world.is_dead() {
                world.tick_due();
            }
        };
        let what = format!("claims, paused: {paused}");
        let steps = struck_at_each_step(&what, stage, life, |name, world| {
            restarted(name, world);
            for entry in world.entries() {
                // Condemned with the last claim, and only where nothing else keeps it.
                assert_eq!(entry.kill().is_some(), entry.claims == 0 && paused, "{name}: {entry:?}");
                let id = entry.sandbox.as_ref().unwrap().as_str();
                // Gone at Cube already, where the warden died with that answer in its hand.
                let expected = if world.alive().contains(id) { 204 } else { 404 };
                let call = delete(world, id);
                assert_eq!(world.finish(call).unwrap().status, expected, "{name}");
            }
            let left: u32 = world.entries().iter().map(|entry| entry.claims).sum();
            world.reconcile();
            world.check_settled(name);
            assert_eq!(world.alive().len(), usize::from(left > 0), "{name}");
        });
        assert_eq!(steps, if paused { 3 } else { 2 }, "{what}");
    }
}
