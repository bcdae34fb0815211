//! Lease and generation walked to their end: two holders who come, beat, call and go in every order, while time stands,
//! moves and steps back.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::HashSet;

use super::super::tests::live;
use super::super::{Activity, Actor, Birth};
use super::*;
use crate::rules::delete::{Decision, Shown, decide};

const START: UnixMillis = UnixMillis(1_800_000_000_000);
const DEPTH: usize = 7;
const HOLDERS: [&str; 2] = ["a", "b"];

/// The world: the entry, what each holder was given last, every generation ever issued, and the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    entry: Entry,
    given: [Option<Generation>; 2],
    issued: Vec<Generation>,
    /// Who was given the sandbox last.
    holder: Option<usize>,
    now: UnixMillis,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Acquire(usize),
    Beat,
    DropClaim,
    Pause,
    Forward,
    Back,
}

const EVENTS: [Event; 7] = [
    Event::Acquire(0),
    Event::Acquire(1),
    Event::Beat,
    Event::DropClaim,
    Event::Pause,
    Event::Forward,
    Event::Back,
];

fn plan(holder: usize, now: UnixMillis) -> Lease {
    Lease::new(
        LeaseId::new(HOLDERS[holder]).unwrap(),
        Keeper::Heartbeats,
        Some(Duration::from_secs(300)),
        now,
    )
}

fn happen(mut world: World, event: Event) -> World {
    let (timing, now) = (Timing::default(), world.now);
    match event {
        Event::Acquire(holder) => {
            let before = world.entry.generation;
            let Acquired { entry, sealed } = world.entry.acquire(plan(holder, now), now, &timing).unwrap();
            let again = world.holder == Some(holder);
            assert_eq!(again, entry.generation == before, "only the present holder keeps its generation");
            assert!(again || !world.issued.contains(&entry.generation), "issued twice");
            assert!(again || entry.generation > before);
            let overtaken = world.holder.filter(|last| *last != holder);
            assert_eq!(sealed.map(|id| id.to_string()), overtaken.map(|last| HOLDERS[last].to_owned()));
            world.issued.push(entry.generation);
            world.issued.dedup();
            world.given[holder] = Some(entry.generation);
            world.holder = Some(holder);
            world.entry = entry;
        }
        Event::Beat => world.entry = world.entry.beat(now).unwrap(),
        Event::DropClaim => world.entry = world.entry.drop_claim(&timing).unwrap(),
        Event::Pause => world.entry = world.entry.observed(Activity::Paused(now)),
        Event::Forward => world.now = now.plus(Duration::from_secs(200)),
        Event::Back => world.now = UnixMillis(now.0 - 3_600_000),
    }
    world
}

/// A holder's delete is allowed if, and only if, nobody was given the sandbox after it; a bare one only while there has
/// been one holder.
fn check(world: &World) {
    let timing = Timing::default();
    let decided = |shown: &Shown| decide(Actor::Client, shown, &world.entry, world.now, &timing);
    for (holder, name) in HOLDERS.iter().enumerate() {
        let Some(generation) = world.given[holder] else { continue };
        let expected = if world.holder == Some(holder) { Decision::Allow } else { Decision::Fenced };
        assert_eq!(decided(&Shown::of_generation(Some(generation))), expected, "{world:?}");
        let lease = Shown { lease: Some(LeaseId::new(name).unwrap()), ..Shown::nothing() };
        assert_eq!(decided(&lease), expected, "{world:?}");
    }
    let bare = if world.holder.is_none() { Decision::Allow } else { Decision::Unproven };
    assert_eq!(decided(&Shown::nothing()), bare, "{world:?}");
    let fresh = world.now.since(world.entry.last_sign) < timing.root_fresh;
    assert_eq!(world.entry.leased(world.now, &timing), world.holder.is_some() && fresh, "{world:?}");
}

#[test]
fn whoever_was_given_the_sandbox_last_may_end_it_and_nobody_before() {
    let entry = live(true);
    let first = World { issued: vec![entry.generation], entry, given: [None; 2], holder: None, now: START };
    let (mut reached, mut edge) = (HashSet::new(), vec![first]);
    for _ in 0..=DEPTH {
        edge.retain(|world: &World| reached.insert(world.clone()));
        edge.iter().for_each(check);
        edge = edge.iter().flat_map(|world| EVENTS.map(|event| happen(world.clone(), event))).collect();
    }
    assert_eq!(reached.len(), 14_415);
}

#[test]
fn a_lease_that_beats_lapses_by_silence_and_lives_again_by_a_beat() {
    let (timing, minute) = (Timing::default(), Duration::from_secs(60));
    let held = live(true).acquire(plan(0, START), START, &timing).unwrap().entry;
    let lapse = START.plus(timing.root_fresh);
    assert_eq!(held.lease_lapsed(UnixMillis(lapse.0 - 1), &timing), None);
    assert_eq!(held.lease_lapsed(lapse.plus(minute), &timing), Some(lapse));
    let revived = held.beat(lapse.plus(minute)).unwrap();
    assert!(revived.leased(lapse.plus(minute), &timing));
    assert_eq!(revived.generation, held_generation(&timing), "nobody overtook it");
}

fn held_generation(timing: &Timing) -> Generation {
    live(true).acquire(plan(0, START), START, timing).unwrap().entry.generation
}

#[test]
fn a_lease_kept_by_calls_does_not_lapse_by_silence() {
    let timing = Timing::default();
    let plan = Lease { keeper: Keeper::Calls, ..plan(0, START) };
    let held = live(true).acquire(plan, START, &timing).unwrap().entry;
    assert_eq!(held.lease_lapsed(START.plus(Duration::from_secs(86_400)), &timing), None);
}

#[test]
fn a_lease_whose_renewals_cube_does_not_honour_ends_though_it_beats() {
    let (timing, second) = (Timing::default(), Duration::from_secs(1));
    let held = live(true).acquire(plan(0, START), START, &timing).unwrap().entry;
    let lease = held.lease.clone().unwrap();
    assert!(!lease.wants_renewal(START.plus(second * 99)) && lease.wants_renewal(START.plus(second * 100)));
    let failing = held.renewed(&lease.id, Err(()), START, &timing);
    let lapse = START.plus(timing.root_fresh);
    let beating = failing.beat(lapse).unwrap();
    assert_eq!(beating.lease_lapsed(lapse, &timing), Some(lapse));
    assert!(beating.lease.as_ref().unwrap().wants_renewal(lapse), "it is tried again at each beat");
    let until = Some(lapse.plus(second * 300));
    let renewed = beating.renewed(&lease.id, Ok(until), lapse, &timing);
    assert!(renewed.leased(lapse, &timing));
    assert_eq!(renewed.deadline, until);
    let other = LeaseId::new("b").unwrap();
    assert_eq!(
        renewed.clone().renewed(&other, Err(()), lapse, &timing),
        renewed,
        "for a holder that is gone"
    );
}

#[test]
fn whoever_takes_a_create_that_was_lost_and_found_is_its_first_holder() {
    let timing = Timing::default();
    let found = Entry { claim_until: Some(START), lease: Some(plan(0, START)), ..live(true) };
    let taken = found.acquire(plan(1, START), START, &timing).unwrap();
    assert_eq!((taken.entry.holders, taken.entry.claims, taken.entry.claim_until), (1, 1, None));
    assert_eq!(taken.sealed, Some(LeaseId::new("a").unwrap()));
}

#[test]
fn the_late_answer_of_a_create_that_another_has_taken_gives_nobody_its_generation() {
    let timing = Timing::default();
    let found = Entry { claim_until: Some(START), lease: Some(plan(0, START)), ..live(true) };
    let birth = Birth { sandbox: found.sandbox.clone().unwrap(), answer: None, deadline: None };
    let [first, second] = HOLDERS.map(|name| LeaseId::new(name).unwrap());
    let told = |entry: &Entry, lease| entry.clone().answered(birth.clone(), lease, START, &timing);
    assert!(told(&found, Some(&first)).is_ok_and(|own| own.claim_until.is_none()));
    let taken = found.acquire(plan(1, START), START, &timing).unwrap().entry;
    assert_eq!(told(&taken, Some(&first)), Err(Unfit::State("live")));
    assert_eq!(told(&taken, None), Err(Unfit::State("live")));
    assert!(told(&taken, Some(&second)).is_ok(), "its own answer, twice");
}
