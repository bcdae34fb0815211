//! The breaker's stories, and all of its short ones.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::HashSet;

use super::*;

const WAIT: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(40);
const START: UnixMillis = UnixMillis(1_800_000_000_000);

fn limits() -> Limits {
    Limits {
        failures: 5,
        failure_percent: 50,
        window: Duration::from_secs(120),
        wait: WAIT,
        wait_most: Duration::from_secs(60),
        probe_deadline: DEADLINE,
    }
}

/// A breaker with its clock.
struct Story {
    breaker: Breaker,
    now: UnixMillis,
}

impl Story {
    fn new() -> Self {
        Self { breaker: Breaker::new(limits()), now: START }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self.breaker.pass_time(self.now);
        self
    }

    fn begin(&mut self) -> Option<Pass> {
        self.breaker.begin(self.now).ok().map(|(pass, _)| pass)
    }

    fn write(&mut self, told: Told) -> Option<Change> {
        let pass = self.begin()?;
        self.breaker.tell(pass, told, self.now)
    }

    /// Five failures in a row.
    fn opened() -> Self {
        let mut story = Self::new();
        for _ in 0..4 {
            assert_eq!(story.write(Told::Unclear), None);
        }
        assert_eq!(story.write(Told::Unclear), Some(Change::OpenedByRow(5)));
        story
    }
}

/// BR04
#[test]
fn br04_refusals_never_open_it_however_many_and_unclear_outcomes_do() {
    let mut story = Story::new();
    for _ in 0..10_000 {
        assert_eq!(story.write(Told::Refused), None);
        assert_eq!(story.write(Told::SlowDown), None);
        assert_eq!(story.write(Told::Unsent), None);
        assert_eq!(story.write(Told::Abandoned), None);
    }
    assert!(story.breaker.is_closed());
    // Between two failures a refusal says nothing: they still are in a row.
    for _ in 0..4 {
        story.write(Told::Unclear);
        story.write(Told::Refused);
    }
    assert_eq!(story.write(Told::Unclear), Some(Change::OpenedByRow(5)));
}

#[test]
fn a_share_of_failures_opens_it_once_there_are_enough_outcomes_in_the_window() {
    let mut story = Story::new();
    for _ in 0..4 {
        story.write(Told::Unclear);
        assert_eq!(story.after(1).write(Told::Done), None);
    }
    story.write(Told::Done);
    assert_eq!(story.write(Told::Unclear), Some(Change::OpenedByShare(5, 10)));
    let mut story = Story::new();
    for _ in 0..50 {
        // One in two, but a minute apart: too few in any window.
        assert_eq!(story.after(60).write(Told::Unclear), None);
        assert_eq!(story.write(Told::Done), None);
    }
}

/// Slow and never failing is not failing.
#[test]
fn an_upstream_that_is_slow_and_never_fails_stays_closed() {
    let mut story = Story::new();
    for _ in 0..200 {
        let pass = story.begin().unwrap();
        story.after(29);
        assert_eq!(story.breaker.tell(pass, Told::Done, story.now), None);
    }
}

#[test]
fn of_a_stampede_on_a_half_open_breaker_one_goes() {
    let mut story = Story::opened();
    assert_eq!(story.breaker.check(story.now), Err(Shut(WAIT)));
    assert!(story.after(14).begin().is_none());
    story.after(1);
    let went: Vec<Pass> = (0..1000).filter_map(|_| story.begin()).collect();
    assert!(went.len() == 1 && went[0].probe, "{went:?}");
    assert_eq!(story.breaker.tell(went[0], Told::Done, story.now), Some(Change::Closed));
    assert_eq!((0..1000).filter_map(|_| story.begin()).count(), 1000);
}

/// BR01
#[test]
fn br01_a_probe_that_hangs_is_given_up_at_its_deadline_and_the_next_one_closes() {
    let mut story = Story::opened();
    let hung = story.after(15).begin().unwrap();
    assert!(story.after(39).begin().is_none());
    // Its deadline is over, and so is the doubled wait since it began.
    let next = story.after(1).begin().unwrap();
    assert_eq!(story.breaker.tell(hung, Told::Done, story.now), None, "what comes too late is not heard");
    assert!(!story.breaker.is_closed());
    assert_eq!(story.breaker.tell(next, Told::Done, story.now), Some(Change::Closed));
}

/// BR01
#[test]
fn br01_a_probe_that_is_cancelled_makes_room_at_once_if_it_was_never_sent_and_after_the_wait_if_it_was() {
    let mut story = Story::opened();
    assert_eq!(story.after(15).write(Told::Unsent), Some(Change::ProbeEnded(Told::Unsent)));
    assert_eq!(story.write(Told::Abandoned), Some(Change::ProbeEnded(Told::Abandoned)));
    assert!(story.after(29).begin().is_none());
    assert_eq!(story.after(1).write(Told::Done), Some(Change::Closed));
}

/// One client's bad template (500 with 130404) takes every probe, and the next client gets the next one at once.
#[test]
fn a_probe_that_cube_refuses_leaves_the_door_to_the_next_one() {
    let mut story = Story::opened();
    story.after(15);
    for _ in 0..100 {
        assert_eq!(story.write(Told::Refused), Some(Change::ProbeEnded(Told::Refused)));
    }
    assert_eq!(story.write(Told::Done), Some(Change::Closed));
}

#[test]
fn probes_that_fail_are_twice_as_far_apart_up_to_the_most_and_a_healed_upstream_is_found_within_that() {
    let mut story = Story::opened();
    let mut gaps = Vec::new();
    for _ in 0..5 {
        let mut gap = 0;
        let pass = loop {
            match story.begin() {
                Some(pass) => break pass,
                None => story.after(1),
            };
            gap += 1;
        };
        gaps.push(gap);
        // Cube answers 408 after half a minute.
        story.after(30);
        story.breaker.tell(pass, Told::Unclear, story.now);
    }
    assert_eq!(gaps, [15, 0, 30, 30, 30], "from the beginning of one to that of the next: 30, 60, 60, 60");
}

#[test]
fn a_flapping_upstream_is_probed_ever_less_often_and_one_that_stays_well_is_forgiven() {
    let mut story = Story::opened();
    assert_eq!(story.after(15).write(Told::Done), Some(Change::Closed));
    let reopen = |story: &mut Story| {
        while story.breaker.is_closed() {
            story.write(Told::Unclear);
        }
    };
    reopen(&mut story);
    assert!(story.after(29).begin().is_none());
    assert_eq!(story.after(1).write(Told::Done), Some(Change::Closed));
    reopen(&mut story);
    assert!(story.after(59).begin().is_none());
    assert_eq!(story.after(1).write(Told::Done), Some(Change::Closed));
    story.after(120).write(Told::Done);
    reopen(&mut story);
    assert_eq!(story.breaker.check(story.now), Err(Shut(WAIT)));
}

#[test]
fn what_began_before_it_opened_neither_closes_nor_reopens_it() {
    let mut story = Story::new();
    let early: Vec<Pass> = (0..20).map(|_| story.begin().unwrap()).collect();
    for pass in &early[..5] {
        story.breaker.tell(*pass, Told::Unclear, story.now);
    }
    assert_eq!(story.breaker.tell(early[5], Told::Done, story.now), None);
    assert!(!story.breaker.is_closed());
    story.after(15).write(Told::Done);
    assert!(early[6..].iter().all(|pass| story.breaker.tell(*pass, Told::Unclear, story.now).is_none()));
    assert!(story.breaker.is_closed());
}

#[test]
fn a_clock_that_steps_back_grants_no_probe_and_costs_one_wait_at_most() {
    let mut story = Story::opened();
    story.after(15);
    story.now = UnixMillis(START.0 - 3_600_000);
    story.breaker.pass_time(story.now);
    assert!(story.begin().is_none());
    assert!(story.after(14).begin().is_none());
    assert!(story.after(1).begin().is_some());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Tell(Told),
    Pass(u64),
    Back,
}

const STEPS: [Step; 9] = [
    Step::Begin,
    Step::Tell(Told::Done),
    Step::Tell(Told::Refused),
    Step::Tell(Told::Unclear),
    Step::Tell(Told::Unsent),
    Step::Tell(Told::Abandoned),
    Step::Pass(15),
    Step::Pass(41),
    Step::Back,
];

type World = (Breaker, Vec<Pass>, UnixMillis);

/// The world after a step, or nothing where the step cannot be made.
fn step(world: &World, step: Step) -> Option<World> {
    let (mut breaker, mut passes, mut now) = world.clone();
    match step {
        Step::Begin if passes.len() == 3 => return None,
        Step::Begin => passes.push(breaker.begin(now).ok()?.0),
        Step::Tell(_) if passes.is_empty() => return None,
        Step::Tell(told) => {
            breaker.tell(passes.remove(0), told, now);
        }
        Step::Pass(seconds) => now = now.plus(Duration::from_secs(seconds)),
        Step::Back => now = UnixMillis(now.0 - 100_000),
    }
    breaker.pass_time(now);
    Some((breaker, passes, now))
}

/// All stories of seven steps: one probe at a time, a step back grants nothing, and there always is a way on.
#[test]
fn in_every_short_story_there_is_one_probe_at_most_and_always_a_way_on() {
    let first = Breaker::new(Limits { failures: 2, ..limits() });
    let mut seen: HashSet<World> = HashSet::from([(first, Vec::new(), START)]);
    let mut edge: Vec<World> = seen.iter().cloned().collect();
    for _ in 0..7 {
        let mut next = Vec::new();
        for world in &edge {
            for made in STEPS {
                let Some(after) = step(world, made) else { continue };
                judge(world, made, &after);
                if seen.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        edge = next;
    }
    assert_eq!(seen.len(), 2786);
}

fn judge(before: &World, made: Step, after: &World) {
    let (breaker, passes, now) = after;
    let probes = passes.iter().filter(|pass| pass.probe && pass.age == breaker.age).count();
    let half_open = matches!(breaker.state, State::HalfOpen { .. });
    assert_eq!(probes, usize::from(half_open), "{before:?} {made:?} {after:?}");
    if matches!(made, Step::Back) && before.0.check(before.2).is_err() {
        assert!(breaker.check(*now).is_err(), "{before:?} {after:?}");
    }
    // Whoever comes often enough gets through, whatever became of those before.
    let mut later = breaker.clone();
    let then = now.plus(Duration::from_secs(60));
    later.pass_time(then);
    assert!(later.check(then).is_ok(), "{before:?} {made:?} {after:?}");
}
