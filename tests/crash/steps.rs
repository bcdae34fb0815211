//! Killed at each step of create and delete: after the restart and the reconciler, slots = entries = sandboxes.
//!
//! The steps are not listed here: a life without a crash tells which commits there are, and then each of them is struck, once just
//! before and once just after it became durable, under every way in which Cube may answer.

use std::collections::BTreeSet;
use std::time::Duration;

use super::world::{TEMPLATE, World};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::{Fault, Rule};
use crate::support::faulty_store::FaultyStore;

const LIMITED: &str = "[bucket_defaults]\nlimit = 3\n[admission]\nwait = \"0s\"\n";

/// Just before or just after a commit became durable.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Before,
    After,
}

fn create_body() -> String {
    format!(r#"{{"templateID":"{TEMPLATE}","timeout":86400,"metadata":{{"a":"b"}}}}"#)
}

/// How Cube may treat one request of `kind`.
fn courses(kind: Kind) -> Vec<(&'static str, Option<Rule>)> {
    let once = |fault: Fault| Some(fault.on(kind).times(1));
    let refuse = |status| Fault::Refuse { status, body: String::new(), retry_after: None };
    vec![
        ("answered", None),
        ("answer lost", once(Fault::LoseAnswer)),
        ("request lost", once(Fault::DropRequest)),
        ("reset after the work", once(Fault::Reset { done: true })),
        ("transport error", once(Fault::TransportError)),
        ("408 at once", once(refuse(408))),
        ("blocked, done after five minutes", once(Fault::Block { late_ms: Some(300_000) })),
        ("blocked, never done", once(Fault::Block { late_ms: None })),
        ("refused", once(refuse(422))),
    ]
}

fn strike(store: &FaultyStore, commit: u64, moment: Moment) {
    match moment {
        Moment::Before => store.hang_before(commit),
        Moment::After => store.hang_after(commit),
    }
}

/// Runs `life` once to learn its commits, then once for each commit and moment, and looks what is left after a restart.
fn at_each_step(what: &str, world: impl Fn() -> World, life: impl Fn(&mut World)) -> usize {
    struck_at_each_step(what, world, life, after_the_crash)
}

/// The same, with what is looked at `after` each strike.
pub(super) fn struck_at_each_step(
    what: &str,
    world: impl Fn() -> World,
    life: impl Fn(&mut World),
    after: impl Fn(&str, &mut World),
) -> usize {
    let mut whole = world();
    let already = whole.store().commits();
    life(&mut whole);
    let steps = whole.store().story();
    whole.reconcile();
    whole.check_settled(&format!("{what}, without a crash"));
    let first = usize::try_from(already).unwrap();
    for (at, step) in steps.iter().enumerate().skip(first) {
        for moment in [Moment::Before, Moment::After] {
            let name =
                format!("{what}: killed {moment:?} commit {} ({step}) of {:?}", at + 1, &steps[first..]);
            let mut world = world();
            assert_eq!(world.store().commits(), already, "{name}: the same life until then");
            strike(world.store(), at as u64 + 1, moment);
            life(&mut world);
            assert!(world.is_dead(), "{name}: it lived");
            after(&name, &mut world);
        }
    }
    steps.len() - first
}

/// Crash, restart, reconcile, check; and the slots that came free can be used.
pub(super) fn after_the_crash(name: &str, world: &mut World) {
    world.crash();
    world.start(|_| {});
    world.check_counted(name);
    let living: BTreeSet<String> = world
        .entries()
        .iter()
        .filter(|e| e.usable())
        .filter_map(|e| Some(e.sandbox.as_ref()?.to_string()))
        .collect();
    world.reconcile();
    world.check_settled(name);
    // What was lost is claimed by nobody, what was condemned is gone, and what neither befell lives on.
    assert_eq!(world.alive(), living, "{name}: before and after the reconciler");
    world.cube.clear_faults();
    let free = 3 - world.alive().len();
    for _ in 0..free {
        let answer = world.ask("POST", "/sandboxes", &create_body()).unwrap();
        assert_eq!(answer.status, 201, "{name}: a free slot cannot be used: {answer:?}");
    }
    assert_eq!(world.ask("POST", "/sandboxes", &create_body()).unwrap().status, 429, "{name}");
    assert!(world.cube.high_water(&[]) <= 3, "{name}: more than the limit");
}

#[test]
fn a_warden_killed_at_any_step_of_a_create_leaves_slots_entries_and_sandboxes_equal() {
    for (name, course) in courses(Kind::Create) {
        let what = format!("create {name}");
        let stage = || {
            let world = World::on_disk(Profile::V070, LIMITED);
            if let Some(rule) = &course {
                world.cube.fault(rule.clone());
            }
            world
        };
        let steps = at_each_step(&what, stage, |world| {
            world.ask("POST", "/sandboxes", &create_body());
        });
        assert_eq!(steps, 2, "{what}: reserved and dispatched at once, and what became of it");
    }
}

#[test]
fn a_warden_killed_while_cube_holds_a_create_leaves_nothing_behind_however_late_cube_is() {
    for done in [false, true] {
        for late in [None, Some(0), Some(90), Some(500)] {
            let name = format!("create held, done: {done}, released {late:?} seconds after the restart");
            let mut world = World::on_disk(Profile::V070, LIMITED);
            world.cube.fault(Fault::Hold { done }.on(Kind::Create).times(1));
            let call = world.call("POST", "/sandboxes", &create_body());
            world.settle();
            assert_eq!(world.cube.held(), 1, "{name}");
            world.crash();
            assert!(call.is_finished());
            if late.is_none() {
                world.cube.release();
            }
            world.settle();
            world.start(|_| {});
            world.check_counted(&name);
            for _ in 0..late.unwrap_or_default() / 5 {
                world.tick_due();
                world.advance(Duration::from_secs(5));
            }
            world.cube.release();
            world.settle();
            world.check_counted(&name);
            world.reconcile();
            world.check_settled(&name);
            assert!(world.alive().is_empty(), "{name}: nobody was told of it");
        }
    }
}

/// What the sandbox does when its end comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Running,
    Paused,
    /// A connect is under way, held by Cube before or after it was done.
    Connecting {
        done: bool,
    },
}

/// A world with one sandbox that does this; its id.
fn with_one(profile: Profile, doing: Doing) -> (World, String) {
    let world = World::on_disk(profile, LIMITED);
    let id = world.ask("POST", "/sandboxes", &create_body()).unwrap().text("sandboxID");
    // Old enough for its absence to be believed: what a newborn adds has a test of its own.
    world.advance(Duration::from_secs(200));
    if doing == Doing::Paused {
        let paused = world.ask("POST", &format!("/sandboxes/{id}/pause"), "");
        assert_eq!(paused.unwrap().status, 204);
    }
    if let Doing::Connecting { done } = doing {
        world.cube.fault(Fault::Hold { done }.on(Kind::Connect).times(1));
        let _nobody_waits = world.call("POST", &format!("/sandboxes/{id}/connect"), r#"{"timeout":90000}"#);
        world.settle();
        assert_eq!(world.cube.held(), 1);
    }
    (world, id)
}

fn only(world: &World) -> String {
    let ids: Vec<String> =
        world.entries().iter().filter_map(|entry| Some(entry.sandbox.as_ref()?.to_string())).collect();
    assert_eq!(ids.len(), 1);
    ids[0].clone()
}

#[test]
fn a_warden_killed_at_any_step_of_a_delete_ends_what_it_had_written_down_and_nothing_else() {
    let stages = [
        (Profile::V051, Doing::Paused),
        (Profile::V070, Doing::Running),
        (Profile::V070, Doing::Connecting { done: false }),
        (Profile::V070, Doing::Connecting { done: true }),
    ];
    for (profile, doing) in stages {
        // Beside a connect, what matters of a delete is whether it was heard.
        let most = if matches!(doing, Doing::Connecting { .. }) { 3 } else { usize::MAX };
        for (name, course) in courses(Kind::Delete).into_iter().take(most) {
            let what = format!("{profile:?}, {doing:?}, delete {name}");
            let stage = || {
                let (world, id) = with_one(profile, doing);
                if let Some(rule) = &course {
                    world.cube.fault(rule.clone().id(&id));
                }
                world
            };
            let steps = at_each_step(&what, stage, |world| {
                let id = only(world);
                let delete = world.call("DELETE", &format!("/sandboxes/{id}"), "");
                world.advance(Duration::from_secs(3));
                world.cube.release();
                world.finish(delete);
                // The client may have been sent away; the deed goes on.
                while !world.is_dead() && !world.entries().is_empty() {
                    world.advance(Duration::from_secs(5));
                    world.tick_due();
                }
            });
            assert!(steps >= 2, "{what}: the intent, and what became of it");
        }
    }
}

#[test]
fn a_warden_killed_while_cube_holds_a_step_of_a_delete_finishes_it() {
    let held = [
        (Doing::Running, Kind::Delete, false),
        (Doing::Running, Kind::Delete, true),
        (Doing::Paused, Kind::Resume, false),
        (Doing::Paused, Kind::Resume, true),
        (Doing::Paused, Kind::Delete, false),
        (Doing::Paused, Kind::Delete, true),
        (Doing::Paused, Kind::Get, true),
    ];
    for (doing, kind, done) in held {
        for late in [None, Some(0), Some(10), Some(200)] {
            let name =
                format!("{doing:?}, {kind:?} held, done: {done}, released {late:?} s after the restart");
            let (mut world, id) = with_one(Profile::V051, doing);
            // The first DELETE of a paused one is refused: it is the one after the wake-up that is held.
            let second = doing == Doing::Paused && kind == Kind::Delete;
            let first = if second {
                Fault::Hold { done: true }.on(Kind::Resume)
            } else {
                Fault::Hold { done }.on(kind)
            };
            world.cube.fault(first.times(1));
            let delete = world.call("DELETE", &format!("/sandboxes/{id}"), "");
            world.settle();
            if second {
                world.cube.fault(Fault::Hold { done }.on(kind).times(1));
                world.cube.release();
                world.settle();
            }
            assert_eq!(world.cube.held(), 1, "{name}: {:?}", world.cube.requests().last());
            world.crash();
            assert!(delete.is_finished());
            if late.is_none() {
                world.cube.release();
            }
            world.settle();
            world.start(|_| {});
            world.check_counted(&name);
            for _ in 0..late.unwrap_or_default() / 5 {
                world.tick_due();
                world.advance(Duration::from_secs(5));
            }
            world.cube.release();
            world.settle();
            world.reconcile();
            world.check_settled(&name);
            assert!(world.alive().is_empty(), "{name}: the intent was written down");
        }
    }
}
