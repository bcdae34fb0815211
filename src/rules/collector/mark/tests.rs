//! Marks, walked: every story of six events, against a counter that forgets at each disturbance.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::*;
use crate::ids::{Bucket, Marker, SandboxId};
use crate::rules::colour::Ceilings;
use crate::rules::entry::{Activity, Shape};

const START: UnixMillis = UnixMillis(1_800_000_000_000);
const CYCLE: Duration = Duration::from_secs(60);

pub(in crate::rules::collector) fn subject() -> Subject {
    Subject {
        marker: Marker::new(&"a".repeat(32)).unwrap(),
        bucket: Bucket::parse("a/dev").unwrap(),
        sandbox: SandboxId::new(&"b".repeat(32)).unwrap(),
        generation: Generation(7),
        incarnation: 0,
        shape: Shape { cpu_milli: 2000, memory_mib: 2048 },
        phase: Phase::Live(Activity::Running),
        colour: Of::Grey(Grey::NoRoot),
        first_seen: START,
        last_sign: START,
        known_for: Duration::from_secs(3600),
        silent_for: Duration::from_secs(3600),
        lapsed_for: None,
        overdue_for: None,
        paused_for: None,
        ceilings: Ceilings::default(),
        beyond: None,
        soon_beyond: None,
    }
}

fn look(now: UnixMillis, worth: Worth) -> Look {
    let newborn = Duration::from_secs(180);
    let root_fresh = Duration::from_secs(120);
    Look { now, worth, cycle: CYCLE, confirmations: 2, newborn, root_fresh }
}

fn running() -> Shown {
    Shown { doing: Doing::Running, started: Some(START), end: Some(START) }
}

/// What may happen between two looks, and what a look may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// A trusted cycle.
    Cycle,
    /// A trusted one that comes too soon after the last.
    TooSoon,
    /// One that is worth nothing.
    Doubted,
    /// A trusted one that does not show it.
    Unseen,
    /// A call of its holder.
    Sign,
    /// A new holder.
    Holder,
    /// It is woken.
    Resume,
    /// Cube moves its end.
    EndMoves,
    /// Traffic, seen by the source.
    Traffic,
}

const EVENTS: [Event; 9] = [
    Event::Cycle,
    Event::TooSoon,
    Event::Doubted,
    Event::Unseen,
    Event::Sign,
    Event::Holder,
    Event::Resume,
    Event::EndMoves,
    Event::Traffic,
];

struct Story {
    now: UnixMillis,
    subject: Subject,
    shown: Shown,
    traffic: Traffic,
    mark: Option<Mark>,
    /// Trusted cycles since the last disturbance, each a cycle after the one before.
    quiet: u32,
    last: Option<UnixMillis>,
}

impl Story {
    fn look(&mut self, worth: Worth, shown: bool) -> Colour {
        let seen = shown.then_some(&self.shown);
        let marked = mark(&self.subject, seen, self.traffic, self.mark.as_ref(), &look(self.now, worth));
        self.mark = marked.mark;
        marked.colour
    }

    fn happen(&mut self, event: Event) -> Option<Colour> {
        self.now = self.now.plus(Duration::from_secs(1));
        match event {
            Event::Cycle | Event::Doubted | Event::Unseen => self.now = self.now.plus(CYCLE),
            Event::Sign => self.subject.last_sign = self.now,
            Event::Holder => self.subject.generation = Generation(self.subject.generation.0 + 1),
            Event::Resume => self.subject.incarnation += 1,
            Event::EndMoves => self.shown.end = self.shown.end.map(|end| end.plus(CYCLE)),
            // It is old news by the next look but one, and voids what was seen before it all the same.
            Event::Traffic => self.traffic = Traffic::Last(self.now),
            Event::TooSoon => {}
        }
        match event {
            Event::Cycle | Event::TooSoon => {
                let in_use = matches!(self.traffic, Traffic::Last(at) if self.now.since(at).as_secs() < 120);
                let apart = self.last.is_none_or(|last| self.now.since(last) >= CYCLE);
                if in_use {
                    (self.quiet, self.last) = (0, None);
                } else if self.quiet == 0 || apart {
                    (self.quiet, self.last) = (self.quiet + 1, Some(self.now));
                }
                Some(self.look(Worth::Confirms, true))
            }
            Event::Doubted => {
                let in_use = matches!(self.traffic, Traffic::Last(at) if self.now.since(at).as_secs() < 120);
                if in_use {
                    (self.quiet, self.last) = (0, None);
                }
                Some(self.look(Worth::Nothing, true))
            }
            Event::Unseen => {
                (self.quiet, self.last) = (0, None);
                Some(self.look(Worth::Confirms, false))
            }
            _ => {
                (self.quiet, self.last) = (0, None);
                None
            }
        }
    }
}

#[test]
fn white_is_what_two_trusted_cycles_in_a_row_found_undisturbed_in_every_story_of_five_events() {
    let (mut stories, mut whites) = (0_u32, 0_u32);
    for number in 0..EVENTS.len().pow(5) {
        let mut rest = number;
        let story: [Event; 5] = std::array::from_fn(|_| {
            let event = EVENTS[rest % EVENTS.len()];
            rest /= EVENTS.len();
            event
        });
        let mut world = Story {
            now: START.plus(Duration::from_secs(1000)),
            subject: subject(),
            shown: running(),
            traffic: Traffic::Unknown,
            mark: None,
            quiet: 0,
            last: None,
        };
        for event in story {
            let colour = world.happen(event);
            let white = colour == Some(Colour::White);
            let due = world.quiet >= 2 && matches!(event, Event::Cycle | Event::TooSoon);
            assert_eq!(white, due, "{story:?} at {event:?}: {colour:?}");
            whites += u32::from(white);
        }
        stories += 1;
    }
    assert_eq!((stories, whites > 1000), (59_049, true), "{whites} whites");
}

#[test]
fn roots_and_youth_take_every_mark_away() {
    let now = START.plus(Duration::from_secs(9999));
    let first = mark(&subject(), Some(&running()), Traffic::Unknown, None, &look(now, Worth::Confirms));
    assert_eq!((first.colour, first.mark.unwrap().confirmed), (Colour::Unconfirmed, 1));
    let later = look(now.plus(CYCLE), Worth::Confirms);
    let again = |change: fn(&mut Subject), traffic| {
        let mut subject = subject();
        change(&mut subject);
        mark(&subject, Some(&running()), traffic, first.mark.as_ref(), &later)
    };
    assert_eq!(again(|_| {}, Traffic::Unknown).colour, Colour::White);
    let none = |marked: Marked| (marked.colour.name(), marked.colour.reason(), marked.mark);
    let rooted = again(|subject| subject.colour = Of::Black(Root::Lease), Traffic::Unknown);
    assert_eq!(none(rooted), ("black", "lease_fresh", None));
    let newborn = again(|subject| subject.known_for = Duration::from_secs(179), Traffic::Unknown);
    assert_eq!(none(newborn), ("grey", "newborn", None));
    assert_eq!(none(again(|_| {}, Traffic::Last(later.now))), ("black", "traffic_seen", None));
    let condemned = again(|subject| subject.colour = Of::Grey(Grey::Condemned), Traffic::Unknown);
    assert_eq!(none(condemned), ("grey", "condemned", None));
}

/// Whoever shows signs of life for ever would live for ever: the longest life ends also him.
#[test]
fn beyond_the_longest_life_no_sign_of_life_takes_a_mark_away() {
    let now = START.plus(Duration::from_secs(9999));
    let old = |last_sign| Subject { beyond: Some(Ceiling::Age), last_sign, ..subject() };
    let first = mark(&old(now), Some(&running()), Traffic::Last(now), None, &look(now, Worth::Confirms));
    let then = now.plus(CYCLE);
    let moved = Shown { end: Some(then), ..running() };
    let later = look(then, Worth::Confirms);
    let again = mark(&old(then), Some(&moved), Traffic::Last(then), first.mark.as_ref(), &later);
    assert_eq!(again.colour, Colour::White);
}

#[test]
fn the_second_look_wants_the_same_state_beginning_and_end() {
    let at = |seconds: u64| Some(START.plus(Duration::from_secs(seconds)));
    let paused = Shown { doing: Doing::Paused, started: at(0), end: at(300) };
    let now = START.plus(Duration::from_secs(9999));
    let mut marked = Mark::first(&subject(), &paused, now);
    let second = |mark: &Mark, seen: Shown| {
        let allowed = Duration::from_secs(3600);
        SecondLook { now, seen, allowed, outlived: false }.against(mark)
    };
    assert_eq!(second(&marked, paused), Second::Same);
    assert_eq!(second(&marked, Shown { doing: Doing::Running, ..paused }), Second::Changed);
    assert_eq!(second(&marked, Shown { end: at(301), ..paused }), Second::Changed);
    assert_eq!(second(&marked, Shown { end: None, ..paused }), Second::Changed);
    assert_eq!(second(&marked, Shown { started: None, ..paused }), Second::Changed);
    // 0.7.0 tells the time of the pause: it is compared with what the next look tells.
    let alone = Shown { started: at(310), ..paused };
    assert_eq!(second(&marked, alone), Second::Beginning(at(310).unwrap()));
    assert_eq!(second(&marked, Shown { started: at(9998), ..paused }), Second::Changed, "paused only now");
    marked.alone = at(310);
    assert_eq!(second(&marked, alone), Second::Same);
    assert_eq!(second(&marked, Shown { started: at(700), ..paused }), Second::Changed, "paused anew");
    let marked = Mark::first(&subject(), &running(), now);
    assert_eq!(second(&marked, Shown { started: at(310), ..running() }), Second::Changed);
}
