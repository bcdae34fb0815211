//! Every actor with everything it may show, on every entry that can come to be.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use super::*;
use crate::ids::OperationId;
use crate::rules::entry::tests::{live, reachable};
use crate::rules::entry::{Activity, Keeper, Lease, Operation};

const ACTORS: [Actor; 7] = [
    Actor::Client,
    Actor::Holder,
    Actor::Collector,
    Actor::Deferred,
    Actor::Abandoned,
    Actor::Recovery,
    Actor::Operator,
];
const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn lease(name: &str) -> LeaseId {
    LeaseId::new(name).unwrap()
}

fn by_lease(name: &str) -> Shown {
    Shown { lease: Some(lease(name)), ..Shown::nothing() }
}

fn judged(entry: &Entry, marked: UnixMillis) -> Shown {
    let judged = Judged { incarnation: entry.incarnation, marked, ceilings: Ceilings::default() };
    Shown { generation: Some(entry.generation), judged: Some(judged), ..Shown::nothing() }
}

#[test]
fn nobody_ends_what_is_not_theirs_and_what_is_allowed_can_be_done() {
    let timing = Timing::default();
    let mut decisions = 0;
    for (entry, now) in reachable() {
        let current = entry.generation;
        let others = [current.0 - 1, current.0 + 1, 0].map(|other| Some(Generation(other)));
        for actor in ACTORS {
            for stale in others.map(Shown::of_generation).iter().chain([&by_lease("not-held")]) {
                assert_eq!(decide(actor, stale, entry, *now, &timing), Decision::Fenced);
            }
            let bare = decide(actor, &Shown::nothing(), entry, *now, &timing);
            let qualified = Shown::of_generation(Some(current));
            assert_eq!(bare, decide(actor, &qualified, entry, *now, &timing));
            check(bare, actor, entry, *now);
            decisions += 1;
        }
    }
    assert_eq!(decisions, ACTORS.len() * reachable().count());
}

fn check(decision: Decision, actor: Actor, entry: &Entry, now: UnixMillis) {
    let condemned = entry.clone().condemn(actor, now);
    match decision {
        Decision::Allow => assert!(condemned.is_ok_and(|next| matches!(next.state, State::Killing(_)))),
        Decision::Join => assert!(entry.charged() && condemned.is_err()),
        Decision::NotFound => assert!(!entry.charged() && condemned.is_err()),
        Decision::Later => {
            assert!(entry.charged() && condemned.is_err());
            let unborn = entry.sandbox.is_none();
            assert!(unborn || (entry.usable() && entry.busy(now)), "only these two pass by themselves");
            assert!(unborn || actor.yields(), "a holder waits for nobody");
        }
        Decision::Unproven => assert_eq!(actor, Actor::Holder, "the one holder there ever was is known"),
        Decision::Kept => assert!(matches!(actor, Actor::Collector | Actor::Deferred)),
        Decision::Fenced => panic!("the current generation, or none, is never stale"),
    }
}

/// A sandbox of A (lease `a`) that B (lease `b`) has overtaken.
fn overtaken() -> (Entry, Generation) {
    let timing = Timing::default();
    let keeper = Keeper::Calls;
    let first = Entry { lease: Some(Lease::new(lease("a"), keeper, None, NOW)), ..live(true) };
    let stale = first.generation;
    let second = first.acquire(Lease::new(lease("b"), keeper, None, NOW), NOW, &timing).unwrap();
    assert_eq!(second.sealed, Some(lease("a")));
    assert!(second.entry.generation > stale);
    (second.entry, stale)
}

#[test]
fn a_late_clean_up_by_generation_or_lease_is_fenced_and_the_holder_is_not() {
    let (timing, (entry, stale)) = (Timing::default(), overtaken());
    let by_client = |shown: &Shown| decide(Actor::Client, shown, &entry, NOW, &timing);
    assert_eq!(by_client(&Shown::of_generation(Some(stale))), Decision::Fenced);
    assert_eq!(by_client(&by_lease("a")), Decision::Fenced);
    assert_eq!(by_client(&Shown::nothing()), Decision::Unproven);
    assert_eq!(by_client(&Shown::of_generation(Some(entry.generation))), Decision::Allow);
    assert_eq!(by_client(&by_lease("b")), Decision::Allow);
    let released = |shown: &Shown| decide(Actor::Holder, shown, &entry, NOW, &timing);
    assert_eq!([released(&by_lease("a")), released(&by_lease("b"))], [Decision::Fenced, Decision::Allow]);
    let both = Shown { generation: Some(stale), ..by_lease("b") };
    assert_eq!(by_client(&both), Decision::Fenced, "each thing that is shown must be true");
}

#[test]
fn whatever_shortens_or_interrupts_needs_what_a_delete_needs_and_the_rest_joins() {
    let (timing, (entry, stale)) = (Timing::default(), overtaken());
    let deadline = entry.deadline.unwrap();
    let (longer, shorter) = (deadline.plus(MINUTE), UnixMillis(deadline.0 - 1));
    for (reach, bare) in [
        (Reach::Joins, Decision::Allow),
        (Reach::Until(None), Decision::Allow),
        (Reach::Until(Some(longer)), Decision::Allow),
        (Reach::Until(Some(deadline)), Decision::Allow),
        (Reach::Until(Some(shorter)), Decision::Unproven),
        (Reach::Interrupts, Decision::Unproven),
    ] {
        let touch = |shown: &Shown| may_touch(reach, shown, &entry, NOW, &timing);
        assert_eq!(touch(&Shown::nothing()), bare, "{reach:?}");
        assert_eq!(touch(&Shown::of_generation(Some(stale))), Decision::Fenced, "{reach:?}");
        assert_eq!(touch(&Shown::of_generation(Some(entry.generation))), Decision::Allow, "{reach:?}");
    }
    let unending = Entry { deadline: None, ..entry };
    let shortens = may_touch(Reach::Until(Some(longer)), &Shown::nothing(), &unending, NOW, &timing);
    assert_eq!(shortens, Decision::Unproven, "any end is sooner than never");
}

#[test]
fn a_judgement_is_void_once_its_sandbox_gave_a_sign_of_life_changed_or_has_a_root() {
    let timing = Timing::default();
    let later = NOW.plus(MINUTE * 60);
    let idle = Entry { deadline: Some(NOW), last_sign: NOW, ..live(true) };
    let shown = judged(&idle, NOW);
    let decided = |entry: &Entry| decide(Actor::Collector, &shown, entry, later, &timing);
    assert_eq!(decided(&idle), Decision::Allow);
    let marked_later = judged(&idle, later);
    assert_eq!(decide(Actor::Collector, &marked_later, &idle, later, &timing), Decision::Allow);
    assert_eq!(decided(&Entry { last_sign: NOW.plus(MINUTE), ..idle.clone() }), Decision::Kept);
    assert_eq!(decided(&Entry { incarnation: idle.incarnation + 1, ..idle.clone() }), Decision::Kept);
    assert_eq!(decided(&Entry { deadline: Some(later.plus(MINUTE)), ..idle.clone() }), Decision::Kept);
    let next = Generation(idle.generation.0 + 1);
    assert_eq!(decided(&Entry { generation: next, ..idle.clone() }), Decision::Fenced);
    let operation = Operation {
        id: OperationId::new(&"c".repeat(16)).unwrap(),
        kind: "connect".to_owned(),
        until: later.plus(MINUTE),
    };
    assert_eq!(decided(&Entry { operations: vec![operation], ..idle.clone() }), Decision::Later);
    let nothing_seen = Shown::of_generation(Some(idle.generation));
    assert_eq!(decide(Actor::Collector, &nothing_seen, &idle, later, &timing), Decision::Kept);
}

#[test]
fn what_nobody_claims_any_more_goes_once_it_is_paused_and_nothing_keeps_it() {
    let timing = Timing::default();
    let paused = Entry { state: State::Live(Activity::Paused(NOW)), deadline: Some(NOW), ..overtaken().0 };
    let given_up = paused.drop_claim(&timing).unwrap();
    let decided = |entry: &Entry| decide(Actor::Deferred, &Shown::nothing(), entry, NOW, &timing);
    assert_eq!(given_up.claims, 1);
    assert_eq!(decided(&given_up), Decision::Kept, "the other holder's claim stands");
    let given_up = given_up.drop_claim(&timing).unwrap();
    assert_eq!(decided(&given_up), Decision::Allow);
    let running = Entry { state: State::Live(Activity::Running), ..given_up.clone() };
    assert_eq!(decided(&running), Decision::Kept, "its traffic may be unseen");
    let ahead = Entry { deadline: Some(NOW.plus(MINUTE)), ..given_up.clone() };
    assert_eq!(decided(&ahead), Decision::Kept);
    assert_eq!(decided(&given_up.beat(NOW).unwrap()), Decision::Kept, "a sign of life claims it anew");
}
