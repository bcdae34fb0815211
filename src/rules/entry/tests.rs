//! The machine walked to its end: every event at every state that six events can reach from reserved.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::HashSet;
use std::sync::LazyLock;

use super::*;

const START: UnixMillis = UnixMillis(1_800_000_000_000);
/// Longer than newborn, settle, horizon and operation: one step and they are over.
const STEP: Duration = Duration::from_secs(1000);
const DEPTH: usize = 6;

pub(super) fn timing() -> Timing {
    Timing { kill_tries: 2, ..Timing::default() }
}

/// A reservation with a claim or without: only that decides what becomes of a found create.
pub(in crate::rules) fn reserved(claim: Option<&str>) -> Entry {
    Entry {
        marker: Marker::new(&"a".repeat(32)).unwrap(),
        upstream: UpstreamName::new("cube").unwrap(),
        bucket: Bucket::parse("default/dev").unwrap(),
        owner: OwnerId::new("default.dev.-.x").unwrap(),
        tenant: None,
        origin: Origin::Created,
        instance: InstanceId::new(&"1".repeat(16)).unwrap(),
        generation: Generation(START.0),
        holders: 1,
        claims: 1,
        lease: None,
        asked_for: None,
        incarnation: 0,
        hold: None,
        released: None,
        sandbox: None,
        template: "tpl".to_owned(),
        shape: Shape::default(),
        metadata: None,
        claim: claim.map(str::to_owned),
        answer: None,
        asked: START,
        dispatched: None,
        first_seen: None,
        last_sign: START,
        deadline: None,
        claim_until: None,
        operations: Vec::new(),
        state: State::Reserved,
        due: Some(START.plus(timing().reserved)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Dispatch,
    Born { deadline: bool },
    Refuse,
    Lapse,
    Lose,
    Found,
    Claimed,
    Missed,
    SearchFailed,
    Begin,
    End(Effect),
    Observed(Activity),
    Outlived,
    Condemn(Actor),
    Resurrect,
    Absent(Proof),
    KillFailed(KillFailure),
    Hurry,
}

const PROOFS: [Proof; 5] =
    [Proof::Deleted, Proof::DeleteNotFound, Proof::GetNotFound, Proof::NeverCame, Proof::NeverSent];

/// Each event with the values that make a difference; an operator is a client here, and a found create a born one.
fn events(now: UnixMillis) -> Vec<Event> {
    use Event::{
        Absent, Begin, Born, Claimed, Condemn, Dispatch, End, Found, Hurry, KillFailed, Lapse, Lose, Missed,
        Observed, Outlived, Refuse, Resurrect, SearchFailed,
    };
    let soon = Some(now.plus(Duration::from_secs(60)));
    let mut events = vec![
        Dispatch,
        Refuse,
        Lapse,
        Lose,
        Found,
        Claimed,
        Missed,
        SearchFailed,
        Begin,
        Outlived,
        Resurrect,
        Hurry,
    ];
    events.extend([false, true].map(|deadline| Born { deadline }));
    events.extend(
        [Effect::None, Effect::Paused, Effect::Deadline(soon), Effect::RunningUntil(None), Effect::Rewound]
            .map(End),
    );
    events.extend([Activity::Running, Activity::Paused(now)].map(Observed));
    events.extend([Actor::Client, Actor::Abandoned, Actor::Recovery].map(Condemn));
    events.extend(PROOFS.map(Absent));
    let wait = Duration::from_secs(2);
    events.extend([KillFailure::Failed, KillFailure::TooYoung, KillFailure::NotYet { wait }].map(KillFailed));
    events
}

pub(super) fn operation(now: UnixMillis) -> Operation {
    let id = OperationId::new(&"2".repeat(16)).unwrap();
    Operation { id, kind: "connect".to_owned(), until: now.plus(Duration::from_secs(150)) }
}

fn happen(entry: Entry, event: Event, now: UnixMillis) -> Result<Entry, Unfit> {
    let timing = timing();
    let sandbox = SandboxId::new(&"b".repeat(32)).unwrap();
    let birth = |deadline: bool| Birth {
        sandbox: sandbox.clone(),
        answer: None,
        deadline: deadline.then(|| now.plus(Duration::from_secs(60))),
    };
    match event {
        Event::Dispatch => entry.dispatch(now, &timing),
        Event::Born { deadline } => entry.born(birth(deadline), now, &timing),
        Event::Refuse => entry.refuse(now, &timing),
        Event::Lapse => entry.lapse(now, &timing),
        Event::Lose => entry.lose(now),
        Event::Found => entry.found(birth(false), now, &timing),
        Event::Claimed => entry.claimed(now, &timing),
        Event::Missed => entry.missed(now, &timing),
        Event::SearchFailed => entry.search_failed(now, &timing),
        Event::Begin => entry.begin(operation(now), now),
        Event::End(effect) => Ok(entry.end(&operation(now).id, effect, now, &timing)),
        Event::Observed(activity) => Ok(entry.observed(activity)),
        Event::Outlived => Ok(entry.outlived(now, &timing)),
        Event::Condemn(actor) => entry.condemn(actor, now),
        Event::Resurrect => entry.resurrect(sandbox, now),
        Event::Absent(proof) => entry.absent(proof, now, &timing),
        Event::KillFailed(failure) => entry.kill_failed(failure, now, &timing),
        Event::Hurry => entry.hurry(now),
    }
}

/// Where the walk has been.
struct Walk {
    /// Every entry that six events can make, with the time of the last one.
    reached: HashSet<(Entry, UnixMillis)>,
    /// How many events fitted.
    steps: usize,
}

/// The walk is long, so that it is made once for all tests; it checks each step as it goes.
static WALK: LazyLock<Walk> = LazyLock::new(walk);

fn walk() -> Walk {
    let mut walk = Walk { reached: HashSet::new(), steps: 0 };
    let mut edge: Vec<(Entry, UnixMillis)> = [None, Some("key")].map(|claim| (reserved(claim), START)).into();
    for _ in 0..DEPTH {
        edge.retain(|found| walk.reached.insert(found.clone()));
        let next: Vec<_> = edge.iter().flat_map(|(entry, now)| after_one_event(entry, *now)).collect();
        walk.steps += next.len();
        edge = next;
    }
    walk.reached.extend(edge);
    walk
}

/// What `entry` may be after one event, at once or a step later; each checked.
fn after_one_event(before: &Entry, since: UnixMillis) -> Vec<(Entry, UnixMillis)> {
    let mut next = Vec::new();
    for now in [since, since.plus(STEP)] {
        for event in events(now) {
            if let Ok(after) = happen(before.clone(), event, now) {
                check(before, event, now, &after);
                next.push((after, now));
            }
        }
    }
    next
}

fn check(before: &Entry, event: Event, now: UnixMillis, after: &Entry) {
    let story = || format!("{event:?} at {now:?}\nbefore {before:?}\nafter {after:?}");
    identity_stays(before, after, &story);
    a_slot_is_freed_by_proof_alone(before, event, now, after, &story);
    there_is_no_way_back(before, event, after, &story);
    a_kill_gives_way(before, event, now, &story);
    an_appointment_is_kept(now, after, &story);
    what_is_not_live_has_nothing_of_the_living(after, &story);
}

/// Every entry that six events can make, with the time of the last one.
pub(in crate::rules) fn reachable() -> impl Iterator<Item = &'static (Entry, UnixMillis)> {
    WALK.reached.iter()
}

#[test]
fn in_every_state_that_six_events_can_reach_what_must_stay_true_is_true() {
    let named = |name| reachable().filter(|(entry, _)| entry.state.name() == name).count();
    assert_eq!(State::NAMES.map(named), [14, 54, 412, 25572, 46600, 3991, 194, 8414]);
    assert_eq!((WALK.reached.len(), WALK.steps), (85_251, 594_776));
}

fn identity_stays(before: &Entry, after: &Entry, story: &impl Fn() -> String) {
    assert_eq!(before.generation, after.generation, "{}", story());
    let identity =
        |entry: &Entry| (entry.marker.clone(), entry.bucket.clone(), entry.owner.clone(), entry.holders);
    assert_eq!(identity(before), identity(after), "{}", story());
    assert!(before.sandbox.is_none() || before.sandbox == after.sandbox, "{}", story());
}

fn a_slot_is_freed_by_proof_alone(
    before: &Entry,
    event: Event,
    now: UnixMillis,
    after: &Entry,
    story: &impl Fn() -> String,
) {
    let holds = !matches!(after.state.name(), "refused" | "gone");
    assert_eq!(after.charged(), holds, "{}", story());
    if !before.charged() || after.charged() {
        return;
    }
    let proved = match (&after.state, event) {
        (State::Refused, Event::Refuse) => matches!(before.state, State::Reserved | State::Dispatched),
        (State::Gone { proof: Proof::NeverSent, .. }, Event::Lapse) => before.dispatched.is_none(),
        (State::Gone { proof: Proof::NeverCame, .. }, Event::Missed) => {
            let enough = matches!(before.state, State::Ambiguous { misses } if misses >= 2);
            enough && now.since(before.dispatched.unwrap()) >= timing().horizon
        }
        (State::Gone { proof, .. }, Event::Absent(shown)) => {
            let old = now.since(before.first_seen.unwrap()) >= timing().newborn
                || before.deadline.is_some_and(|deadline| deadline <= now);
            let born = before.sandbox.is_some() && PROOFS[..3].contains(proof);
            *proof == shown && born && !before.busy(now) && (old || shown == Proof::Deleted)
        }
        _ => false,
    };
    assert!(proved, "{}", story());
}

fn there_is_no_way_back(before: &Entry, event: Event, after: &Entry, story: &impl Fn() -> String) {
    let allowed: &[&str] = match before.state.name() {
        "reserved" => &["reserved", "dispatched", "refused", "gone"],
        "dispatched" => &["dispatched", "live", "refused", "ambiguous"],
        "ambiguous" => &["ambiguous", "live", "killing", "gone"],
        "live" => &["live", "killing", "gone"],
        "killing" | "quarantined" => &["killing", "quarantined", "gone"],
        "refused" | "gone" if event == Event::Resurrect => &["killing"],
        tombstone => &[tombstone],
    };
    assert!(allowed.contains(&after.state.name()), "{}", story());
    // Quarantine ends in proof, not in a new beginning.
    assert!(before.state.name() != "quarantined" || after.state.name() != "killing", "{}", story());
}

fn a_kill_gives_way(before: &Entry, event: Event, now: UnixMillis, story: &impl Fn() -> String) {
    if let Event::Condemn(Actor::Abandoned | Actor::Recovery) = event {
        assert!(!before.busy(now), "{}", story());
    }
}

fn an_appointment_is_kept(now: UnixMillis, after: &Entry, story: &impl Fn() -> String) {
    let nothing_ahead = after.usable() && after.deadline.is_none() && after.claim_until.is_none();
    assert!(after.due.is_some() || nothing_ahead, "{}", story());
    if let (true, Some(claim)) = (after.usable(), after.claim_until) {
        assert!(after.due.unwrap() <= claim.max(now.plus(Duration::from_secs(60))), "{}", story());
    }
}

fn what_is_not_live_has_nothing_of_the_living(after: &Entry, story: &impl Fn() -> String) {
    assert!(after.usable() || after.claim_until.is_none(), "{}", story());
    assert!(after.usable() || after.paused_since().is_none(), "{}", story());
    assert!(after.charged() || after.operations.is_empty(), "{}", story());
    let born = after.sandbox.is_some();
    assert_eq!(born, after.first_seen.is_some(), "{}", story());
    let unborn = ["reserved", "dispatched", "ambiguous", "refused"].contains(&after.state.name());
    assert!(born != unborn || after.state.name() == "gone", "{}", story());
}

#[test]
fn a_pause_keeps_the_time_at_which_it_was_first_seen() {
    let (t, now) = (timing(), START);
    let live = reserved(None).dispatch(now, &t).unwrap();
    let live = happen(live, Event::Born { deadline: false }, now).unwrap();
    let later = now.plus(STEP);
    let paused = live.observed(Activity::Paused(now)).observed(Activity::Paused(later));
    assert_eq!(paused.paused_since(), Some(now));
    let ended = paused.end(&operation(now).id, Effect::Paused, later, &t);
    assert_eq!(ended.paused_since(), Some(later), "a call on it may have woken it: this is another pause");
    let again = ended.observed(Activity::Running).observed(Activity::Paused(later));
    assert_eq!(again.paused_since(), Some(later));
}

#[test]
fn a_kill_is_tried_ever_more_seldom_and_then_quarantined_but_never_given_up() {
    let (t, mut now) = (Timing::default(), START);
    let live = reserved(None).dispatch(now, &t).unwrap();
    let mut entry =
        happen(live, Event::Born { deadline: false }, now).unwrap().condemn(Actor::Client, now).unwrap();
    let mut waits = Vec::new();
    for _ in 0..10 {
        entry = entry.kill_failed(KillFailure::Failed, now, &t).unwrap();
        let due = entry.due.unwrap();
        waits.push((due.since(now).as_secs(), entry.state.name()));
        now = due;
    }
    let killing = [2, 4, 8, 16, 32, 60, 60].map(|wait| (wait, "killing"));
    assert_eq!(waits[..7], killing);
    assert_eq!(waits[7..], [(300, "quarantined"); 3]);
    assert_eq!(entry.clone().hurry(now).unwrap().due, Some(now));
    assert!(!entry.absent(Proof::GetNotFound, now, &t).unwrap().charged());
}

pub(in crate::rules) fn live(deadline: bool) -> Entry {
    let dispatched = reserved(None).dispatch(START, &timing()).unwrap();
    happen(dispatched, Event::Born { deadline }, START).unwrap()
}

#[test]
fn only_a_passed_deadline_brings_another_look_by_itself() {
    let (t, soon) = (timing(), START.plus(Duration::from_secs(30)));
    let passed = START.plus(Duration::from_secs(65));
    assert_eq!(live(false).outlived(soon, &t).due, None);
    assert_eq!(live(false).outlived(passed, &t).due, None);
    assert_eq!(live(true).outlived(soon, &t).due, Some(passed));
    assert_eq!(live(true).outlived(passed, &t).due, Some(passed.plus(t.deadline_grace)));
}

#[test]
fn an_answer_that_says_nothing_moves_only_an_appointment_that_has_passed() {
    let (t, soon) = (timing(), START.plus(Duration::from_secs(30)));
    let passed = START.plus(Duration::from_secs(65));
    assert_eq!(live(false).unanswered(passed, &t), live(false));
    assert_eq!(live(true).unanswered(soon, &t), live(true));
    assert_eq!(live(true).unanswered(passed, &t).due, Some(passed.plus(t.deadline_grace)));
    let doubted = Entry { due: Some(soon), ..live(false) };
    assert_eq!(doubted.clone().unanswered(START, &t), doubted);
    assert_eq!(doubted.unanswered(soon, &t).due, Some(soon.plus(t.search)));
}

#[test]
fn what_was_asked_before_the_last_call_or_during_one_is_out_of_date() {
    let (earlier, later) = (START, START.plus(Duration::from_secs(1)));
    let touched = live(false).begin(operation(later), later).unwrap();
    let paused = touched.clone().end(&operation(later).id, Effect::Paused, later, &timing());
    assert_eq!(paused.clone().seen(Activity::Running, earlier, later), paused);
    assert_eq!(paused.seen(Activity::Running, later, later).paused_since(), None);
    let over = later.plus(STEP);
    assert_eq!(touched.clone().seen(Activity::Paused(over), later, later), touched);
    assert_eq!(touched.seen(Activity::Paused(over), over, over).paused_since(), Some(over));
}

/// On June 18 each of hundreds of lost creates had its own moment, and Cube was listed in every second.
#[test]
fn lost_creates_are_searched_for_together_and_none_waits_longer_than_before() {
    let t = Timing::default();
    let times: Vec<UnixMillis> =
        (0..4999).map(|ms| t.next_search(UnixMillis(1_800_000_000_001 + ms))).collect();
    assert!(times.iter().all(|time| *time == UnixMillis(1_800_000_005_000)), "{times:?}");
    assert_eq!(t.next_search(UnixMillis(1_800_000_005_000)), UnixMillis(1_800_000_010_000));
}

#[test]
fn a_listing_from_before_the_create_can_have_arrived_is_no_miss() {
    let t = timing();
    let ambiguous = || reserved(None).dispatch(START, &t).unwrap().lose(START).unwrap();
    let missed = |times: [u64; 3]| {
        let miss = |entry: Entry, at: u64| entry.missed(START.plus(Duration::from_secs(at)), &t).unwrap();
        times.into_iter().fold(ambiguous(), miss).charged()
    };
    assert!(missed([1, 44, 600]), "two of them say nothing");
    assert!(!missed([45, 50, 600]));
    assert!(missed([45, 50, 599]), "not yet");
}

#[test]
fn a_try_to_kill_that_began_while_a_call_was_under_way_proves_nothing_though_the_call_has_ended() {
    let (t, second) = (timing(), Duration::from_secs(1));
    let call = Operation {
        id: OperationId::new(&"d".repeat(16)).unwrap(),
        kind: "connect".to_owned(),
        until: START.plus(second * 100),
    };
    let before = live(false).begin(call.clone(), START).unwrap().condemn(Actor::Client, START).unwrap();
    let after = before.clone().end(&call.id, Effect::Running, START, &t);
    let ended = |before: &Entry| after.clone().ended(before, Proof::Deleted, START.plus(second), &t);
    assert_eq!(ended(&before), Err(Unfit::Busy));
    assert!(ended(&after).is_ok_and(|gone| !gone.charged()), "the next try does");
}
