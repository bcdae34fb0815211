//! Places come back whatever becomes of those who hold them or wait for them.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use super::*;
use crate::rules::breaker::State;
use crate::rules::write_path::Cause;
use crate::time::{ManualClock, UnixMillis};

fn guard(most: u32) -> (Arc<Guard>, ManualClock) {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let breaker = breaker::Limits {
        failures: 2,
        failure_percent: 50,
        window: Duration::from_secs(120),
        wait: Duration::from_secs(15),
        wait_most: Duration::from_secs(60),
        probe_deadline: Duration::from_secs(40),
    };
    let guard = Guard::new(Limits { most, breaker }, Arc::new(clock.clone()), Arc::new(|_| ()));
    (Arc::new(guard), clock)
}

fn now(guard: &Arc<Guard>, lane: Lane) -> Place {
    match guard.enter(lane) {
        Ok(Entered::Now(place)) => place,
        other => panic!("no place at once: {other:?}"),
    }
}

fn in_line(guard: &Arc<Guard>, lane: Lane) -> InLine {
    match guard.enter(lane) {
        Ok(Entered::InLine(waits)) => waits,
        other => panic!("not in line: {other:?}"),
    }
}

fn end(mut place: Place, told: Told) {
    place.sends();
    place.tell(told);
}

fn free(guard: &Arc<Guard>) -> bool {
    let view = guard.view();
    view.in_use == [0; 4] && view.waiting == [0; 4]
}

#[tokio::test]
async fn a_place_comes_back_from_whoever_drops_it_panics_or_left_before_its_turn() {
    let (guard, _clock) = guard(2);
    let first = now(&guard, Lane::Create);
    let [left, second, unheard] = [0; 3].map(|_| in_line(&guard, Lane::Create));
    drop(left);
    let panics = std::panic::AssertUnwindSafe(move || {
        let _held = first;
        panic!("a defect in the middle of a write");
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    let second = second.turn().await.unwrap();
    drop(second);
    // Its place lies ready for it, and it goes without ever looking.
    assert_eq!(guard.view().in_use, [0, 0, 0, 1]);
    drop(unheard);
    assert!(free(&guard));
}

#[tokio::test]
async fn whoever_waits_is_called_first_come_first_and_a_newcomer_overtakes_nobody() {
    let (guard, _clock) = guard(2);
    let first = now(&guard, Lane::Create);
    let (second, third) = (in_line(&guard, Lane::Create), in_line(&guard, Lane::Create));
    drop(now(&guard, Lane::Delete));
    end(first, Told::Done);
    let second = second.turn().await.unwrap();
    assert!(matches!(guard.enter(Lane::Create), Ok(Entered::InLine(_))));
    end(second, Told::Done);
    end(third.turn().await.unwrap(), Told::Done);
    assert!(free(&guard));
}

#[tokio::test]
async fn when_creates_are_shut_those_in_line_are_told_at_once_and_deletes_go_on() {
    let (guard, _clock) = guard(2);
    end(now(&guard, Lane::Create), Told::Unclear);
    let second = now(&guard, Lane::Create);
    let waits = [0; 3].map(|_| in_line(&guard, Lane::Create));
    end(second, Told::Unclear);
    for waits in waits {
        assert_eq!(waits.turn().await.unwrap_err().cause, Cause::Open);
    }
    assert_eq!(guard.check_create().unwrap_err().cause, Cause::Open);
    drop(guard.delete().await);
    drop(guard.wake().await);
    assert!(free(&guard));
}

/// BR01
#[tokio::test]
async fn br01_a_probe_whose_caller_goes_before_it_is_sent_is_anothers_at_once() {
    let (guard, clock) = guard(8);
    (0..2).for_each(|_| end(now(&guard, Lane::Create), Told::Unclear));
    clock.advance(Duration::from_secs(15));
    let probe = now(&guard, Lane::Create);
    assert!((0..100).all(|_| guard.enter(Lane::Create).is_err()), "one probe at a time");
    drop(probe);
    end(now(&guard, Lane::Create), Told::Done);
    assert!(matches!(guard.view().creates, State::Closed { .. }));
}

/// Deletes wait while theirs is open, and the tick finds out that a probe hangs.
#[tokio::test]
async fn a_delete_that_hangs_as_the_probe_keeps_the_others_waiting_until_its_deadline() {
    let (guard, clock) = guard(8);
    (0..2).for_each(|_| end(now(&guard, Lane::Delete), Told::Unclear));
    let mut hangs = now(&guard, Lane::Delete);
    hangs.sends();
    let next = in_line(&guard, Lane::Delete);
    clock.advance(Duration::from_secs(40));
    guard.counted(1);
    end(next.turn().await.unwrap(), Told::Done);
    assert!(matches!(guard.view().deletes, State::Closed { .. }));
    end(hangs, Told::Unclear);
    assert!(free(&guard));
}
