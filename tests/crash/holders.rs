//! A sandbox changes hands while somebody else acts on it: each order of their steps, and a warden killed at each of them.
//!
//! Must stay true in all of them: what a root protects is not killed (I1); whoever was given the sandbox last has it, or is
//! told that it is gone and gets another; slots, entries and sandboxes agree in the end (I2, I3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Marker, SandboxRef};
use cubewarden::ledger::Condemned;
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::delete::{Judged, Shown};
use cubewarden::rules::entry::{Actor, State};
use cubewarden::store::Batch;
use cubewarden::store::schema::{Key, decode_entry};
use cubewarden::time::Clock as _;
use serde_json::json;
use tokio::task::JoinHandle;

use super::steps::{after_the_crash, struck_at_each_step};
use super::world::{Call, TEMPLATE, World};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::When;
use crate::support::http::Answer;

pub(super) const QUALIFIED: &str =
    "[bucket_defaults]\nlimit = 3\nreuse = true\nids = \"qualified\"\n[admission]\nwait = \"0s\"\n";
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// What its first holder was given.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: String,
    pub(super) qualified: String,
    pub(super) owner: String,
    pub(super) marker: Marker,
}

pub(super) fn world(config: &str) -> World {
    World::in_memory(Profile::V070, config, 1)
}

/// The owner asks for its sandbox under this lease.
pub(super) fn acquire(world: &World, lease: &str, timeout: u64) -> Option<Answer> {
    let body = json!({"run": "r", "lease_id": lease, "template_id": TEMPLATE, "timeout": timeout});
    world.ask("POST", "/v1/leases", &body.to_string())
}

/// The same, until it is answered with a sandbox: a create that was lost is found, or proven never to have been.
fn acquire_at_last(name: &str, world: &mut World, lease: &str) -> Answer {
    for _ in 0..30 {
        let answer = acquire(world, lease, 300).unwrap();
        match answer.status.as_u16() {
            200 | 201 => return answer,
            504 | 503 => world.tick_due(),
            other => panic!("{name}: {other}: {answer:?}"),
        }
    }
    panic!("{name}: the owner never got a sandbox");
}

/// Its holder by `lease-a`.
pub(super) fn first(world: &World, timeout: u64) -> Held {
    let answer = acquire(world, "lease-a", timeout).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.text("sandbox_id");
    let entry = world.entry_of(&id).unwrap();
    let named = SandboxRef { id: entry.sandbox.clone().unwrap(), generation: Some(entry.generation) };
    Held { id, qualified: named.to_string(), owner: answer.text("owner_id"), marker: entry.marker }
}

/// By the native API.
pub(super) fn by_lease(world: &World, what: &str, held: &Held, lease: &str) -> Option<Answer> {
    let body = json!({"owner_id": held.owner, "lease_id": lease}).to_string();
    world.ask("POST", &format!("/v1/lease-{what}"), &body)
}

pub(super) fn delete(world: &World, id: &str) -> Call {
    world.call("DELETE", &format!("/sandboxes/{id}"), "")
}

pub(super) fn deletes_of(world: &World, id: &str) -> usize {
    let target = format!("/sandboxes/{id}");
    let requests = world.cube.requests();
    requests.iter().filter(|seen| seen.head.method == "DELETE" && seen.head.target == target).count()
}

/// Its holder has left it alone: its end has passed, Cube has paused it, its lease has lapsed; a collector marked it a
/// minute ago.
pub(super) fn idle(world: &mut World) -> (Held, Shown) {
    let held = first(world, 300);
    world.advance(306 * SECOND);
    world.tick_due();
    let entry = world.entry_of(&held.id).unwrap();
    assert!(entry.paused_since().is_some(), "{entry:?}");
    let marked = world.clock.now();
    let judged = Judged { incarnation: entry.incarnation, marked, ceilings: Ceilings::default() };
    world.advance(60 * SECOND);
    (held, Shown { generation: Some(entry.generation), lease: None, judged: Some(judged) })
}

/// A collector wants its end.
fn collect(world: &World, held: &Held, shown: &Shown) -> JoinHandle<Condemned> {
    let ledger = Arc::clone(&world.warden().warden.ledger);
    let (marker, shown) = (held.marker.clone(), shown.clone());
    world.begin(async move { ledger.condemn(&marker, Actor::Collector, &shown, "idle").await.unwrap() })
}

/// The batch condemns a sandbox.
fn condemns(batch: &Batch) -> bool {
    let entry = batch.put.iter().find(|(key, _)| matches!(key, Key::Entry(_)));
    entry.is_some_and(|(_, value)| matches!(decode_entry(value).unwrap().state, State::Killing(_)))
}

/// What a client does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Another process of its owner takes it over.
    Reuse,
    /// A worker of its holder connects.
    Connect,
    /// Its holder shows that it lives.
    Beat,
}

impl Act {
    fn done(self, world: &World, held: &Held) -> Answer {
        match self {
            Self::Reuse => acquire(world, "lease-b", 300),
            Self::Connect => {
                world.ask("POST", &format!("/sandboxes/{}/connect", held.qualified), r#"{"timeout":600}"#)
            }
            Self::Beat => by_lease(world, "heartbeats", held, "lease-a"),
        }
        .unwrap()
    }
}

const ACTS: [Act; 3] = [Act::Reuse, Act::Connect, Act::Beat];

/// EB02
#[test]
fn what_a_client_reuses_connects_to_or_beats_for_is_not_killed_by_a_collector_that_had_decided_before() {
    for act in ACTS {
        let mut world = world(QUALIFIED);
        let (held, shown) = idle(&mut world);
        let stalled = When::Matching(Box::new(condemns));
        world.store().slow(stalled, Arc::new(world.clock.clone()), SECOND);
        let collecting = collect(&world, &held, &shown);
        world.settle();
        assert!(!collecting.is_finished(), "it has decided, and its commit is on its way");
        let answer = act.done(&world, &held);
        assert!(answer.status.is_success(), "{act:?}: {answer:?}");
        world.store().heal();
        world.advance(SECOND);
        let expected = if act == Act::Reuse { Condemned::Fenced } else { Condemned::Kept };
        assert_eq!(world.outcome(collecting), expected, "{act:?}");
        world.tick_due();
        assert_eq!((world.alive(), deletes_of(&world, &held.id)), ([held.id.clone()].into(), 0), "{act:?}");
        world.reconcile();
        world.check_settled(&format!("{act:?} before the commit"));
    }
}

#[test]
fn what_a_collector_has_condemned_is_dead_to_every_client_and_its_owner_gets_another() {
    for act in ACTS {
        for at_cube in [false, true] {
            let what = format!("{act:?}, the DELETE is at Cube: {at_cube}");
            let mut world = world(QUALIFIED);
            let (held, shown) = idle(&mut world);
            if at_cube {
                world.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
            }
            let collecting = collect(&world, &held, &shown);
            world.settle();
            assert_eq!(world.outcome(collecting), Condemned::Yes, "{what}");
            if at_cube {
                world.tick_due();
                assert_eq!(world.cube.held(), 1, "{what}");
            }
            let answer = act.done(&world, &held);
            let expected = match act {
                Act::Reuse => 201,
                Act::Connect => 404,
                Act::Beat => 409,
            };
            assert_eq!(answer.status, expected, "{what}: {answer:?}");
            world.cube.release();
            world.tick_due();
            let successor = (act == Act::Reuse).then(|| answer.text("sandbox_id"));
            assert_ne!(successor.as_deref(), Some(held.id.as_str()), "{what}");
            let wanted: BTreeSet<String> = successor.into_iter().collect();
            assert_eq!(world.alive(), wanted, "{what}");
            assert_eq!(deletes_of(&world, &held.id), 1, "{what}");
            world.reconcile();
            world.check_settled(&what);
            assert_eq!(world.alive(), wanted, "{what}");
        }
    }
}

/// Which of the two comes first.
#[derive(Clone, Copy, Debug)]
enum Order {
    CollectorFirst,
    OwnerFirst,
    /// The owner comes between the collector's decision and its commit.
    Between,
}

fn collect_and_reuse(world: &mut World, order: Order, held: &Held, shown: &Shown) {
    if let Order::Between = order {
        world.store().slow(When::Matching(Box::new(condemns)), Arc::new(world.clock.clone()), SECOND);
    }
    if let Order::OwnerFirst = order {
        acquire(world, "lease-b", 300);
    }
    // Whatever it comes to: the commits count here, and what is left afterwards.
    let _decided = collect(world, held, shown);
    world.settle();
    if !matches!(order, Order::OwnerFirst) {
        acquire(world, "lease-b", 300);
    }
    world.advance(SECOND);
    world.tick_due();
    world.settle();
}

#[test]
fn a_warden_killed_while_a_collector_and_an_owner_meet_leaves_the_owner_with_one_sandbox_that_lives() {
    for order in [Order::CollectorFirst, Order::OwnerFirst, Order::Between] {
        let stage = || {
            let mut world = world(QUALIFIED);
            idle(&mut world);
            world
        };
        let life = |world: &mut World| {
            let (held, shown) = marked(world);
            collect_and_reuse(world, order, &held, &shown);
        };
        let steps = struck_at_each_step(&format!("{order:?}"), stage, life, |name, world| {
            world.crash();
            world.start(|_| {});
            world.check_counted(name);
            let given = acquire_at_last(name, world, "lease-b").text("sandbox_id");
            world.check_counted(name);
            let late = SandboxRef::parse(&given).unwrap();
            // The first holder's clean-up, by every generation that is not the present one.
            let current = world.entry_of(&given).unwrap().generation;
            let before = SandboxRef { generation: Some(cubewarden::ids::Generation(current.0 - 1)), ..late };
            let call = delete(world, &before.to_string());
            assert_eq!(world.finish(call).unwrap().status, 404, "{name}");
            world.reconcile();
            world.check_settled(name);
            assert_eq!(world.alive(), [given].into(), "{name}");
        });
        assert!(steps >= 2, "{order:?}: {steps}");
    }
}

/// The only sandbox, and what a collector shows that marked it a minute ago.
pub(super) fn marked(world: &World) -> (Held, Shown) {
    let entries = world.entries();
    let [entry] = &entries[..] else { panic!("one entry, not {entries:#?}") };
    let sandbox = entry.sandbox.clone().unwrap();
    let named = SandboxRef { id: sandbox.clone(), generation: Some(entry.generation) };
    let marked = world.clock.now().minus(60 * SECOND);
    let judged = Judged { incarnation: entry.incarnation, marked, ceilings: Ceilings::default() };
    let held = Held {
        id: sandbox.to_string(),
        qualified: named.to_string(),
        owner: entry.owner.to_string(),
        marker: entry.marker.clone(),
    };
    (held, Shown { generation: Some(entry.generation), lease: None, judged: Some(judged) })
}

/// Who wants its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ender {
    Client,
    Holder,
    Collector,
}

const ENDERS: [Ender; 3] = [Ender::Client, Ender::Holder, Ender::Collector];

/// A connect that has been at Cube for 100 seconds.
fn long_connect(world: &World, held: &Held, done: bool) -> Call {
    world.cube.fault(Fault::Hold { done }.on(Kind::Connect).times(1));
    let connect = world.call("POST", &format!("/sandboxes/{}/connect", held.qualified), r#"{"timeout":600}"#);
    world.settle();
    world.advance(100 * SECOND);
    connect
}

#[test]
fn a_connect_of_100_seconds_is_overtaken_by_a_client_or_a_release_and_keeps_a_collector_away() {
    for done in [false, true] {
        for ender in ENDERS {
            let what = format!("{ender:?}, the connect is done: {done}");
            let mut world = world(QUALIFIED);
            let (held, shown) = idle(&mut world);
            let connect = long_connect(&world, &held, done);
            assert_eq!(world.cube.held(), 1, "{what}");
            let deleting = match ender {
                Ender::Client => Some(delete(&world, &held.qualified)),
                Ender::Holder => {
                    assert_eq!(by_lease(&world, "releases", &held, "lease-a").unwrap().status, 202, "{what}");
                    None
                }
                Ender::Collector => {
                    let collecting = collect(&world, &held, &shown);
                    world.settle();
                    assert_eq!(world.outcome(collecting), Condemned::Later, "{what}");
                    None
                }
            };
            world.settle();
            world.advance(3 * SECOND);
            world.tick_due();
            let lives = ender == Ender::Collector;
            assert_eq!(world.alive().len(), usize::from(lives), "{what}: nobody else waits for the connect");
            assert_eq!(world.entries().len(), 1, "{what}: but the slot does");
            world.cube.release();
            let connected = world.finish(connect).unwrap();
            assert_eq!(connected.status.is_success(), lives, "{what}: {connected:?}");
            if let Some(deleting) = deleting {
                assert_eq!(world.finish(deleting).unwrap().status, 204, "{what}");
            }
            if lives {
                let collecting = collect(&world, &held, &shown);
                world.settle();
                assert_eq!(world.outcome(collecting), Condemned::Kept, "{what}: it was used since");
            }
            world.reconcile();
            world.check_settled(&what);
            assert_eq!(world.alive().len(), usize::from(lives), "{what}");
        }
    }
}

#[test]
fn a_warden_killed_at_any_step_of_an_end_that_meets_a_long_connect_ends_what_was_written_down_and_nothing_else()
 {
    for done in [false, true] {
        for ender in ENDERS {
            let stage = || {
                let mut world = world(QUALIFIED);
                idle(&mut world);
                world
            };
            let life = |world: &mut World| {
                let (held, shown) = marked(world);
                let connect = long_connect(world, &held, done);
                let deleting = match ender {
                    Ender::Client => Some(delete(world, &held.qualified)),
                    Ender::Holder => {
                        by_lease(world, "releases", &held, "lease-a");
                        None
                    }
                    Ender::Collector => {
                        let _later = collect(world, &held, &shown);
                        None
                    }
                };
                world.settle();
                world.advance(3 * SECOND);
                if !world.is_dead() {
                    world.tick_due();
                }
                world.cube.release();
                world.finish(connect);
                deleting.map(|deleting| world.finish(deleting));
                world.settle();
            };
            let what = format!("{ender:?}, the connect is done: {done}");
            let steps = struck_at_each_step(&what, stage, life, after_the_crash);
            assert!(steps >= 2, "{what}: the connect began and ended: {steps}");
        }
    }
}
