//! Creates that fail, and creates that only seem to.

use cubewarden::rules::breaker::State;

use super::*;

/// BR04: what a client did wrong is no failure of Cube.
#[tokio::test]
async fn br04_storms_of_4xx_of_bad_templates_and_of_bodies_that_are_no_json_open_nothing() {
    let world = world("").await;
    for status in [400, 401, 403, 404, 409, 422] {
        let body = format!(r#"{{"code":{status},"message":"no"}}"#);
        let rule = world.cube.fault(Fault::Refuse { status, body, retry_after: None }.on(Kind::Create));
        for _ in 0..30 {
            assert_eq!(world.create().await.status, status);
        }
        world.cube.remove_fault(rule);
    }
    let bad = Fault::Backend { code: 130_404, message: "template not found".into() };
    let rule = world.cube.fault(bad.on(Kind::Create));
    for _ in 0..100 {
        world.create().await;
        assert_eq!(world.warden.caller().post("/sandboxes", "{").await.status, 400);
    }
    world.cube.remove_fault(rule);
    assert_eq!(world.create().await.status, 201);
    assert!(matches!(world.view().creates, State::Closed { .. }));
    assert_eq!((world.view().limit, world.warden.held().await), (256, 1));
}

/// CB31
#[tokio::test]
async fn cb31_a_full_cube_is_said_to_be_full_and_not_to_be_broken() {
    let world = world("").await;
    let rule = world.cube.fault(Fault::NoResource);
    for _ in 0..50 {
        let answer = world.create().await;
        assert_eq!((answer.status.as_u16(), answer.text("error_code").as_str()), (429, "CAPACITY_EXCEEDED"));
        assert!(answer.header("retry-after").is_some());
    }
    world.cube.remove_fault(rule);
    assert!(matches!(world.view().creates, State::Closed { .. }));
    assert_eq!((world.view().limit, world.warden.held().await), (256, 0));
    assert_eq!(world.create().await.status, 201);
}

/// BR04, PX03: 408s open it, each was sent once; while it is open nothing is sent and no slot is held.
#[tokio::test]
async fn creates_that_time_out_open_it_and_then_none_is_sent_and_none_holds_a_slot() {
    let world = world("").await;
    world.break_creates().await;
    assert_eq!((world.creates_sent(), world.warden.held().await), (5, 5), "ambiguous ones stay charged");
    for _ in 0..100 {
        shut(&world.create().await);
    }
    assert_eq!((world.creates_sent(), world.warden.held().await), (5, 5));
    world.pass(14).await;
    shut(&world.create().await);
    world.pass(1).await;
    assert_eq!(world.create().await.status, 201, "the probe");
    for _ in 0..50 {
        assert_eq!(world.create().await.status, 201);
    }
}

/// A stampede on a half-open breaker: of two hundred at once one is sent, and the others hold no slot.
#[tokio::test]
async fn of_a_stampede_when_a_probe_is_due_one_is_sent() {
    let world = world("").await;
    world.break_creates().await;
    world.pass(15).await;
    let before = (world.creates_sent(), world.warden.held().await);
    let rule = world.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let all: Vec<_> = (0..200).map(|_| world.begin("POST", "/sandboxes".into(), Some(BODY))).collect();
    world.cube.until_held(1).await;
    world.settle().await;
    assert_eq!(world.creates_sent(), before.0 + 1);
    world.cube.remove_fault(rule);
    world.cube.release();
    let answers: Vec<Answer> =
        futures_util::future::join_all(all).await.into_iter().map(Result::unwrap).collect();
    let (made, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert!(!made.is_empty());
    others.iter().for_each(shut);
    let made = u64::try_from(made.len()).unwrap();
    assert_eq!(world.warden.held().await, before.1 + made);
}

/// BR01: the probe hangs, its client leaves; the next one after its deadline closes the breaker.
#[tokio::test]
async fn br01_a_probe_that_hangs_and_whose_client_is_gone_settles_and_the_next_one_closes() {
    let world = world("").await;
    world.break_creates().await;
    world.pass(15).await;
    let hangs = world.cube.fault(Fault::Block { late_ms: None }.on(Kind::Create).times(1));
    let probe = world.begin("POST", "/sandboxes".into(), Some(BODY));
    crate::support::until("the probe is on its way", || world.cube.struck(hangs) == 1).await;
    probe.abort();
    world.settle().await;
    assert!(matches!(world.view().creates, State::HalfOpen { .. }));
    shut(&world.create().await);
    world.pass(30).await;
    crate::support::until("it has settled", || matches!(world.view().creates, State::Open { .. })).await;
    assert_eq!(world.create().await.status, 201, "half a minute after the beginning of the last");
    assert!(matches!(world.view().creates, State::Closed { .. }));
    assert_eq!(world.view().in_use, [0; 4]);
}

/// What is only slow is not broken.
#[tokio::test]
async fn an_upstream_that_takes_its_time_and_never_fails_stays_open_to_all() {
    let world = world("").await;
    world.cube.fault(Fault::Slow { ms: 29_000 }.on(Kind::Create));
    for _ in 0..3 {
        let all: Vec<_> = (0..20).map(|_| world.begin("POST", "/sandboxes".into(), Some(BODY))).collect();
        crate::support::until("all are on their way", || world.view().in_use[3] == 20).await;
        world.settle().await;
        world.cube.advance(29 * SECOND).unwrap();
        for answer in all {
            assert_eq!(answer.await.unwrap().status, 201);
        }
    }
    assert_eq!(world.view().limit, 256);
}

/// An upstream that flaps is probed, believed, and caught again, with ever longer waits; and no create is sent twice.
#[tokio::test]
async fn an_upstream_that_flaps_makes_few_creates_unclear() {
    let world = world("").await;
    let mut sent_in_vain = 0;
    for round in 0..20 {
        let rule = world.cube.fault(timed_out().on(Kind::Create));
        for _ in 0..10 {
            world.create().await;
        }
        sent_in_vain += world.cube.struck(rule);
        world.cube.remove_fault(rule);
        world.pass(if round % 2 == 0 { 20 } else { 45 }).await;
        world.create().await;
    }
    assert!(sent_in_vain <= 75, "{sent_in_vain} of 200");
}

/// The client of a create that waits for its place leaves, another one's patience ends: neither is sent, no slot is left behind.
#[tokio::test]
async fn a_create_that_waits_in_the_lane_and_whose_client_is_gone_or_late_is_never_sent() {
    let world = &world("[write_path]\nmax_writes = 2").await;
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create));
    let begin = || world.begin("POST", "/sandboxes".into(), Some(BODY));
    let first = begin();
    world.cube.until_held(1).await;
    let waiting = |count| crate::support::until("they wait", move || world.view().waiting[3] == count);
    let second = begin();
    waiting(1).await;
    let gone = begin();
    waiting(2).await;
    let late = begin();
    waiting(3).await;
    gone.abort();
    world.settle().await;
    waiting(2).await;
    // The first one's answer is given up, and the second is sent.
    world.cube.advance(35 * SECOND).unwrap();
    assert_eq!(first.await.unwrap().status, 504);
    world.cube.until_held(2).await;
    world.cube.advance(15 * SECOND).unwrap();
    shut(&late.await.unwrap());
    assert_eq!((world.creates_sent(), world.warden.held().await), (2, 2));
    world.cube.advance(20 * SECOND).unwrap();
    assert_eq!(second.await.unwrap().status, 504);
    assert_eq!(world.view().in_use, [0; 4]);
}
