//! Two things at once, in an order that the test chooses: Cube holds what is to be overtaken.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cubewarden::calls::seam::{Caller, Calls as _, Reply};
use cubewarden::ids::{Bucket, OwnerId};
use cubewarden::ledger::{Ask, Limits, Reserved};
use cubewarden::time::{ManualClock, Stopwatch, UnixMillis};

use super::plain::Plain;
use super::world::{Call, TEMPLATE, World};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::When;
use crate::support::warden;

fn world() -> World {
    World::in_memory(Profile::V070, "[bucket_defaults]\nlimit = 3\n", 1)
}

fn create(world: &World) -> Call {
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":86400}}"#);
    world.call("POST", "/sandboxes", &body)
}

fn created(world: &World) -> String {
    let answer = world.finish(create(world)).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.text("sandboxID")
}

fn delete(world: &World, id: &str) -> Call {
    world.call("DELETE", &format!("/sandboxes/{id}"), "")
}

fn status(world: &World, call: Call) -> u16 {
    world.finish(call).unwrap().status.as_u16()
}

fn deletes_at_cube(world: &World, id: &str) -> usize {
    let target = format!("/sandboxes/{id}");
    world
        .cube
        .requests()
        .iter()
        .filter(|seen| seen.head.method == "DELETE" && seen.head.target == target)
        .count()
}

/// DA01
#[test]
fn two_parallel_resumes_of_one_paused_sandbox_take_no_slot() {
    let mut world = world();
    let id = created(&world);
    assert_eq!(world.ask("POST", &format!("/sandboxes/{id}/pause"), "").unwrap().status, 204);
    world.cube.fault(Fault::Hold { done: false }.on(Kind::Resume).times(2));
    let resume = || world.call("POST", &format!("/sandboxes/{id}/resume"), r#"{"timeout":600}"#);
    let (one, two) = (resume(), resume());
    world.settle();
    assert_eq!(world.cube.held(), 2);
    world.cube.release();
    let mut answers = [status(&world, one), status(&world, two)];
    answers.sort_unstable();
    assert!(answers[0] < 300, "one of them wakes it: {answers:?}");
    assert_eq!(world.entries().len(), 1);
    assert_eq!(world.cube.high_water(&[]), 1);
    world.advance(Duration::from_secs(200));
    assert_eq!(status(&world, delete(&world, &id)), 204);
    world.reconcile();
    world.check_settled("after two resumes and a delete");
}

#[test]
fn a_delete_that_overtakes_a_connect_frees_the_slot_only_when_the_connect_has_ended_and_both_are_told_the_truth()
 {
    for done in [false, true] {
        for age in [0, 300] {
            let what = format!("connect held, done: {done}, sandbox {age} s old");
            let mut world = world();
            let id = created(&world);
            world.advance(Duration::from_secs(age));
            world.cube.fault(Fault::Hold { done }.on(Kind::Connect).times(1));
            let connect = world.call("POST", &format!("/sandboxes/{id}/connect"), r#"{"timeout":600}"#);
            world.settle();
            let delete = delete(&world, &id);
            world.settle();
            assert!(world.alive().is_empty(), "{what}: the delete does not wait for the connect");
            world.advance(Duration::from_secs(3));
            world.tick_due();
            assert_eq!(world.entries().len(), 1, "{what}: the connect could still wake it");
            assert!(!delete.is_finished(), "{what}");
            world.cube.release();
            assert_eq!(status(&world, connect), 404, "{what}: from killing there is no way back");
            assert_eq!(status(&world, delete), 204, "{what}: it was there, and its delete was heard");
            world.reconcile();
            world.check_settled(&what);
            assert!(world.alive().is_empty());
        }
    }
}

#[test]
fn a_delete_of_what_a_create_is_about_to_hand_out_is_not_undone_by_the_creates_answer() {
    let mut world = world();
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let create = create(&world);
    world.settle();
    let id = world.alive().into_iter().next().unwrap();
    assert_eq!(status(&world, delete(&world, &id)), 204, "in open mode everything is everybody's");
    world.cube.release();
    assert_eq!(status(&world, create), 201);
    world.check_counted("the answer came after the delete");
    world.reconcile();
    world.check_settled("created, deleted, answered");
    assert!(world.alive().is_empty());
}

#[test]
fn a_list_that_shows_a_sandbox_before_its_create_is_answered_makes_no_second_entry() {
    for forgotten in [false, true] {
        let what = format!("labels forgotten: {forgotten}");
        let mut world = world();
        world.tick_inventory();
        world.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
        let create = create(&world);
        world.settle();
        if forgotten {
            world.cube.fault(Fault::ForgetLabels.on(Kind::List).times(1));
        }
        world.tick_inventory();
        world.cube.release();
        let answer = world.finish(create).unwrap();
        assert_eq!(answer.status, 201, "{what}");
        let entries = world.entries();
        assert_eq!(entries.len(), 1, "{what}: {entries:?}");
        assert_eq!(entries[0].sandbox.as_ref().unwrap().as_str(), answer.text("sandboxID"));
        world.check_settled(&what);
        world.reconcile();
        world.check_settled(&what);
        assert_eq!(world.alive().len(), 1, "{what}");
    }
}

/// The list showed it without labels, so it had an entry of its own, and that one was condemned before the create was settled.
#[test]
fn a_delete_that_was_accepted_is_carried_out_though_the_create_that_made_the_sandbox_is_settled_later() {
    let mut world = world();
    world.tick_inventory();
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let create = create(&world);
    world.settle();
    let id = world.alive().into_iter().next().unwrap();
    world.cube.fault(Fault::ForgetLabels.on(Kind::List).times(1));
    world.tick_inventory();
    world.cube.fault(Fault::DeleteBusy.on(Kind::Delete).times(1));
    let delete = delete(&world, &id);
    world.settle();
    assert!(!delete.is_finished());
    world.cube.release();
    world.settle();
    assert!(!world.entry_of(&id).unwrap().usable(), "from killing there is no way back");
    assert_eq!(status(&world, create), 504);
    let deleted = status(&world, delete);
    world.reconcile();
    world.check_settled("condemned under another name");
    assert!(world.alive().is_empty(), "the delete was answered {deleted}");
}

#[test]
fn a_list_from_before_a_delete_brings_nothing_back() {
    for forgotten in [false, true] {
        let what = format!("labels forgotten: {forgotten}");
        let mut world = world();
        world.tick_inventory();
        let id = created(&world);
        world.advance(Duration::from_secs(200));
        world.cube.fault(Fault::Hold { done: true }.on(Kind::List).times(1));
        if forgotten {
            world.cube.fault(Fault::ForgetLabels.on(Kind::List).times(1));
        }
        world.tick_inventory();
        assert_eq!(world.cube.held(), 1);
        world.advance(Duration::from_secs(1));
        assert_eq!(status(&world, delete(&world, &id)), 204);
        world.cube.release();
        world.settle();
        assert!(world.entries().is_empty(), "{what}: {:?}", world.entries());
        assert_eq!(deletes_at_cube(&world, &id), 1, "{what}");
        world.reconcile();
        world.check_settled(&what);
    }
}

#[test]
fn two_deletes_at_once_are_one_delete_at_cube_and_both_are_told_that_it_is_gone() {
    let mut world = world();
    let id = created(&world);
    world.cube.fault(Fault::Hold { done: false }.on(Kind::Delete).times(1));
    let (one, two) = (delete(&world, &id), delete(&world, &id));
    world.settle();
    assert_eq!(world.cube.held(), 1);
    world.cube.release();
    assert_eq!((status(&world, one), status(&world, two)), (204, 204));
    assert_eq!(deletes_at_cube(&world, &id), 1);
    world.reconcile();
    world.check_settled("deleted twice");
}

/// A tombstone is over at the moment at which Cube shows the dead alive again. Whichever commit comes first: it is charged.
#[test]
fn what_rises_while_its_tombstone_is_purged_is_charged_whichever_comes_first() {
    for purge_last in [true, false] {
        let what = format!("the purge commits last: {purge_last}");
        let mut world = world();
        world.tick_inventory();
        let id = created(&world);
        world.advance(Duration::from_secs(200));
        let tombstone = world.warden().warden.ledger.timing().tombstone;
        world.cube.fault(Fault::Resurrect { after_ms: 1000 }.on(Kind::Delete).times(1));
        assert_eq!(status(&world, delete(&world, &id)), 204);
        world.advance(tombstone + Duration::from_secs(1));
        assert_eq!(world.alive().len(), 1);
        let slow: fn(&cubewarden::store::Batch) -> bool =
            if purge_last { |batch| !batch.remove.is_empty() } else { |batch| !batch.join.is_empty() };
        let when = When::Matching(Box::new(slow));
        world.store().slow(when, Arc::new(world.clock.clone()), Duration::from_secs(1));
        world.tick_due();
        world.tick_inventory();
        world.advance(Duration::from_secs(1));
        world.store().heal();
        world.advance(Duration::from_secs(1));
        world.tick_inventory();
        world.check_counted(&what);
        if purge_last {
            assert!(!world.entry_of(&id).is_some_and(|entry| entry.usable()), "{what}: it stays dead");
        }
        world.reconcile();
        world.check_settled(&what);
    }
}

/// Like `until`, for what happens within microseconds, thousands of times.
#[track_caller]
fn soon<'a>(what: &'a str, condition: impl Fn() -> bool + Send + 'a) -> impl Future<Output = ()> + Send + 'a {
    let (caller, waited) = (std::panic::Location::caller(), Stopwatch::start());
    async move {
        while !condition() {
            assert!(
                waited.elapsed() < Duration::from_secs(60),
                "{caller}: waited a minute in vain for: {what}"
            );
            tokio::task::yield_now().await;
        }
    }
}

/// RD16: a thousand times through the whole call; the line alone is held to ten thousand rounds beside its code.
#[tokio::test]
async fn a_slot_that_comes_free_at_the_moment_a_waiter_leaves_goes_to_the_next_a_thousand_times() {
    const ROUNDS: u32 = 1_000;
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let store = Plain::new(clock.clone());
    // Nobody listens there: whoever is admitted is told so at once. The clock stands still: nobody is rescued by asking again later.
    let warden = warden::before("http://127.0.0.1:1")
        .config("[bucket_defaults]\nlimit = 1\n")
        .clock(&clock)
        .store(Arc::new(store))
        .without_tasks()
        .start()
        .await;
    let (ledger, governor) = (Arc::clone(&warden.warden.ledger), Arc::clone(&warden.warden.governor));
    let bucket = Bucket::parse("default/dev").unwrap();
    let limits = Limits { bucket: Some(1), global: None };
    let come = |caller: Caller| {
        let governor = Arc::clone(&governor);
        tokio::spawn(async move {
            let body = Bytes::from(format!(r#"{{"templateID":"{TEMPLATE}"}}"#));
            let (mut head, ()) = http::Request::post("/sandboxes").body(()).unwrap().into_parts();
            drop(governor.route(&mut head));
            match governor.call(head, body, caller).await {
                Reply::Answer(answer) => answer.status().as_u16(),
                Reply::Forward(..) => 0,
            }
        })
    };
    for round in 0..ROUNDS {
        let ask = Ask {
            marker: ledger.new_marker(),
            bucket: bucket.clone(),
            owner: OwnerId::new("holder").unwrap(),
            tenant: None,
            template: String::new(),
            metadata: None,
            key: None,
            request: None,
            lease: None,
        };
        let held = ledger.reserve(&ask, limits).await.unwrap();
        assert!(matches!(held, Reserved::Slot(_)), "round {round}: {held:?}");
        let ((leaver, leaving), (_stayer, staying)) = (Caller::pair(), Caller::pair());
        let first = come(leaving);
        soon("the first waits", || governor.waiting(&bucket) == 1).await;
        let second = come(staying);
        soon("both wait", || governor.waiting(&bucket) == 2).await;
        let (freed, ()) = tokio::join!(ledger.refused(&ask.marker, "the holder is done"), async {
            // At once, or a little later: somewhere within the commit that frees the slot or the one that takes it.
            for _ in 0..round % 50 {
                tokio::task::yield_now().await;
            }
            drop(leaver);
        });
        freed.unwrap();
        soon("the second is served", || second.is_finished()).await;
        assert_eq!(second.await.unwrap(), 502, "round {round}: Cube cannot be reached, but it was its turn");
        first.await.unwrap();
        let (left, _) = ledger.charged(None).await.unwrap();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
}
