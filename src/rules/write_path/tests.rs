//! Stories of the whole write path, without a network: what is asked of it, and a Cube that is only a rule of when writes end.

use std::collections::VecDeque;

use super::*;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

fn limits(most: u32) -> Limits {
    let breaker = breaker::Limits {
        failures: 5,
        failure_percent: 50,
        window: Duration::from_secs(120),
        wait: Duration::from_secs(15),
        wait_most: Duration::from_secs(60),
        probe_deadline: Duration::from_secs(40),
    };
    Limits { most, breaker }
}

/// A write path, a clock, and what happened.
struct Story {
    path: WritePath,
    now: UnixMillis,
    events: Events,
}

impl Story {
    fn new(most: u32) -> Self {
        Self { path: WritePath::new(limits(most)), now: START, events: Vec::new() }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self
    }

    fn enter(&mut self, lane: Lane) -> Answer {
        self.path.enter(lane, false, self.now, &mut self.events)
    }

    fn go(&mut self, lane: Lane) -> Ticket {
        match self.enter(lane) {
            Answer::Go(ticket) => ticket,
            other => panic!("{lane:?} may not go: {other:?} {:?}", self.path),
        }
    }

    fn leave(&mut self, ticket: Ticket, told: Told) {
        self.path.leave(ticket, told, self.now, &mut self.events);
    }

    fn write(&mut self, lane: Lane, told: Told) {
        let ticket = self.go(lane);
        self.leave(ticket, told);
    }

    fn counted(&mut self, backlog: u64) {
        self.path.counted(backlog, self.now, &mut self.events);
    }

    fn view(&mut self) -> View {
        self.path.view([0; 4], self.now, &mut self.events)
    }
}

fn shut(answer: Answer) -> Shut {
    match answer {
        Answer::Shut(shut) => shut,
        other => panic!("not shut: {other:?}"),
    }
}

/// BR04
#[test]
fn br04_a_storm_of_4xx_and_of_bad_templates_moves_nothing() {
    let mut story = Story::new(64);
    for _ in 0..1000 {
        story.write(Lane::Create, Told::Refused);
        story.write(Lane::Delete, Told::Refused);
        story.write(Lane::Connect, Told::Refused);
    }
    assert!(story.events.is_empty());
    assert_eq!(story.view().limit, 64);
}

#[test]
fn failing_creates_shut_creates_alone() {
    let mut story = Story::new(64);
    (0..5).for_each(|_| story.write(Lane::Create, Told::Unclear));
    let said = shut(story.enter(Lane::Create));
    assert_eq!((said.cause, said.wait), (Cause::Open, Duration::from_secs(15)));
    for lane in [Lane::Delete, Lane::Renew, Lane::Connect] {
        story.write(lane, Told::Done);
    }
    // And one probe finds out that it is over.
    story.after(15).write(Lane::Create, Told::Done);
    (0..100).for_each(|_| story.write(Lane::Create, Told::Done));
}

#[test]
fn failing_deletes_are_sent_one_at_a_time_and_never_refused() {
    let mut story = Story::new(64);
    (0..5).for_each(|_| story.write(Lane::Delete, Told::Unclear));
    for _ in 0..100 {
        let probe = story.go(Lane::Delete);
        assert_eq!(story.enter(Lane::Delete), Answer::Wait);
        assert_eq!(story.path.next(|lane| lane == Lane::Delete, story.now, &mut story.events), None);
        story.after(30).leave(probe, Told::Unclear);
    }
    let hung = story.go(Lane::Delete);
    let next = story.after(40).go(Lane::Delete);
    story.leave(next, Told::Done);
    story.leave(hung, Told::Unclear);
    story.write(Lane::Delete, Told::Done);
    assert_eq!(story.view().in_use, [0; 4]);
}

#[test]
fn with_a_backlog_after_a_stoppage_creates_follow_confirmed_deletes_until_it_is_gone() {
    let mut story = Story::new(64);
    (0..6).for_each(|_| story.after(31).write(Lane::Delete, Told::Unclear));
    assert_eq!(story.view().limit, 1);
    story.counted(300);
    assert!(story.events.contains(&Event::Recovery(recovery::Change::Began(300))));
    assert_eq!(shut(story.enter(Lane::Create)).cause, Cause::Recovering);
    story.write(Lane::Delete, Told::Done);
    story.write(Lane::Create, Told::Done);
    assert_eq!(shut(story.enter(Lane::Create)).cause, Cause::Recovering);
    // 299 more than can be carried, one deleted in the last minute.
    assert!(shut(story.enter(Lane::Create)).wait >= Duration::from_secs(299 * 60));
    story.after(15).write(Lane::Create, Told::Refused);
    story.write(Lane::Create, Told::Unsent);
    story.write(Lane::Create, Told::Done);
    assert_eq!(
        shut(story.enter(Lane::Create)).cause,
        Cause::Recovering,
        "refused and unsent ones were paid back, this one not"
    );
    (0..299).for_each(|_| story.write(Lane::Delete, Told::Done));
    story.counted(1);
    (0..100).for_each(|_| story.write(Lane::Create, Told::Done));
    assert!(!story.view().recovering);
}

#[test]
fn the_probe_of_creates_neither_waits_for_a_delete_that_hangs_nor_makes_one_wait() {
    let mut story = Story::new(1);
    (0..5).for_each(|_| story.after(31).write(Lane::Create, Told::Unclear));
    let hangs = story.go(Lane::Delete);
    let probe = story.after(15).go(Lane::Create);
    assert!(probe.pass.is_some_and(|pass| pass.probe));
    story.leave(hangs, Told::Unclear);
    story.write(Lane::Delete, Told::Done);
    story.leave(probe, Told::Done);
    assert_eq!(story.view().in_use, [0; 4]);
}

/// Three quarantined deletes and a healthy Cube: the breaker of deletes may stay open for want of deletes, creates flow.
#[test]
fn quarantined_deletes_hold_no_create_back() {
    let mut story = Story::new(64);
    (0..30).for_each(|_| story.after(31).write(Lane::Delete, Told::Unclear));
    story.counted(3);
    assert!(story.view().recovering);
    story.counted(0);
    assert!(!story.path.deletes.is_closed());
    (0..100).for_each(|_| story.write(Lane::Create, Told::Done));
}

/// CB31
#[test]
fn cb31_a_full_cube_opens_nothing_and_shrinks_nothing_and_slow_down_only_shrinks() {
    let mut story = Story::new(64);
    (0..50).for_each(|_| story.write(Lane::Create, Told::Refused));
    assert_eq!(story.view().limit, 64);
    story.write(Lane::Create, Told::SlowDown);
    let view = story.view();
    assert!(view.limit < 64 && matches!(view.creates, breaker::State::Closed { .. }), "{view:?}");
}

#[test]
fn what_is_only_watched_is_never_held_back_and_moves_the_breaker_all_the_same() {
    let mut story = Story::new(1);
    let watch = |story: &mut Story| story.path.watch(Lane::Create, story.now, &mut story.events);
    let together: Vec<Ticket> = (0..10).map(|_| watch(&mut story)).collect();
    assert_eq!(story.view().in_use, [0, 0, 0, 10]);
    for ticket in together {
        story.leave(ticket, Told::Unclear);
    }
    assert!(!story.path.creates.is_closed());
    let ticket = watch(&mut story);
    story.leave(ticket, Told::Done);
    assert!(!story.path.creates.is_closed(), "not the probe, so not heard");
    let ticket = watch(story.after(15));
    story.leave(ticket, Told::Done);
    assert!(story.path.creates.is_closed());
}

/// How a storm went.
#[derive(Debug, Default)]
struct Storm {
    deleted: u32,
    created: u32,
    waited_most: Duration,
}

/// Ten minutes in steps of 100 ms before a Cube that ends one write in 400 ms and carries two at once (more make each slower by
/// as much, and what takes longer than half a minute is lost): one delete each second, and `creates` creates.
fn storm(creates: usize) -> Storm {
    const PATIENCE: Duration = Duration::from_secs(50);
    let (mut story, mut went) = (Story::new(64), Storm::default());
    let mut waiting: [VecDeque<UnixMillis>; 4] = Default::default();
    let mut on_the_way: Vec<(Ticket, UnixMillis, Told)> = Vec::new();
    for tick in 0..6000_usize {
        story.now = story.now.plus(Duration::from_millis(100));
        let now = story.now;
        let (over, rest): (Vec<_>, Vec<_>) = on_the_way.into_iter().partition(|(_, end, _)| *end <= now);
        on_the_way = rest;
        for (ticket, _, told) in over {
            story.leave(ticket, told);
            let counted = if ticket.lane == Lane::Delete { &mut went.deleted } else { &mut went.created };
            *counted += u32::from(told == Told::Done);
        }
        let arrives = |each_second: usize| (tick + 1) * each_second / 10 - tick * each_second / 10;
        for (lane, count) in [(Lane::Delete, arrives(1)), (Lane::Create, arrives(creates))] {
            waiting[lane.index()].extend(std::iter::repeat_n(now, count));
        }
        let creates_wait = &mut waiting[Lane::Create.index()];
        while creates_wait.pop_front_if(|since| now.since(*since) >= PATIENCE).is_some() {}
        while let Some(lane) =
            story.path.next(|lane| !waiting[lane.index()].is_empty(), now, &mut story.events)
        {
            let since = waiting[lane.index()].pop_front().unwrap_or_default();
            let Ok(ticket) = story.path.let_go(lane, now, &mut story.events) else { continue };
            if lane == Lane::Delete {
                went.waited_most = went.waited_most.max(now.since(since));
            }
            let crowd = u64::try_from(on_the_way.len()).unwrap_or(u64::MAX).div_ceil(2).max(1);
            let takes = Duration::from_millis(400 * crowd);
            let lost = takes > Duration::from_secs(30);
            let told = if lost { Told::Unclear } else { Told::Done };
            on_the_way.push((ticket, now.plus(takes), told));
        }
        if tick % 10 == 0 {
            let backlog = waiting[0].len()
                + on_the_way.iter().filter(|(ticket, ..)| ticket.lane == Lane::Delete).count();
            story.counted(u64::try_from(backlog).unwrap_or(u64::MAX));
        }
    }
    went
}

/// Against this rule of a Cube, not against the simulator: the replay does that.
#[test]
fn in_a_storm_of_ten_times_what_cube_can_make_deletes_keep_nine_tenths_of_their_goodput() {
    let (calm, stormy) = (storm(0), storm(50));
    assert!(calm.deleted >= 595 && calm.created == 0, "{calm:?}");
    assert!(stormy.deleted * 10 >= calm.deleted * 9, "{calm:?} {stormy:?}");
    assert!(stormy.waited_most <= Duration::from_secs(1), "{stormy:?}");
    assert!(stormy.created > 1000, "{stormy:?}");
}
