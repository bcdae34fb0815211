//! The laws. Each says what a caller may rely on, whatever store it is.

use std::time::Duration;

use cubewarden::store::schema::Set;
use cubewarden::store::{Appointment, Batch, Committed, Log, Reached, Record, StoreError};
use cubewarden::time::{UnixMillis, WallClock, within};

use super::place::{Place, join, leave, put, slots, volume};

pub(super) async fn what_was_never_written_has_version_zero_and_no_bytes(place: Place) {
    assert_eq!(place.record(&volume("a")).await, Record::default());
    assert_eq!(place.size(&slots("a/b")).await, 0);
    assert!(place.members(&slots("a/b")).await.is_empty());
    assert!(place.due(u64::MAX).await.is_empty());
    assert!(place.log().await.is_empty());
}

pub(super) async fn a_version_is_the_sequence_of_the_commit_that_wrote_it_and_rises(place: Place) {
    let first = place.done(put(&volume("a"), "1")).await;
    let second = place.done(put(&volume("b"), "1")).await;
    assert!(0 < first && first < second);
    assert_eq!(place.record(&volume("a")).await, Record { version: first, value: "1".into() });

    let third = place.done(Batch { expect: vec![(volume("a"), first)], ..put(&volume("a"), "2") }).await;
    assert_eq!(place.record(&volume("a")).await, Record { version: third, value: "2".into() });

    place.done(Batch { remove: vec![volume("a"), volume("never there")], ..Batch::default() }).await;
    assert_eq!(place.record(&volume("a")).await, Record::default());
    let fifth = place.done(Batch { expect: vec![(volume("a"), 0)], ..put(&volume("a"), "3") }).await;
    assert!(fifth > third, "a record that was removed does not get an old version again");
}

/// A batch that changes everything there is.
fn everything() -> Batch {
    Batch {
        put: vec![(volume("new"), "x".into())],
        remove: vec![volume("a")],
        join: vec![(slots("a/b"), "new".to_owned())],
        leave: vec![(slots("a/b"), "old".to_owned())],
        appointments: vec![Appointment {
            member: "old".to_owned(),
            was: Some(UnixMillis(5)),
            is: Some(UnixMillis(6)),
        }],
        log: vec!["x".into()],
        ..Batch::default()
    }
}

/// What [`everything`] changes, as it was before.
async fn before_everything(place: &Place) -> u64 {
    let appointment = Appointment { member: "old".to_owned(), was: None, is: Some(UnixMillis(5)) };
    let old = Batch { appointments: vec![appointment], ..join(&slots("a/b"), "old") };
    place.done(Batch { put: vec![(volume("a"), "1".into())], ..old }).await
}

async fn nothing_was_written(place: &Place) {
    assert_eq!(place.record(&volume("a")).await.value, b"1");
    assert_eq!(place.record(&volume("new")).await, Record::default());
    assert_eq!(place.members(&slots("a/b")).await, ["old"]);
    assert_eq!(place.size(&slots("a/b")).await, 1);
    assert_eq!((place.due(5).await.len(), place.due(6).await.len()), (1, 1));
    assert!(place.log().await.is_empty());
}

pub(super) async fn a_commit_whose_expectation_moved_writes_nothing(place: Place) {
    let version = before_everything(&place).await;
    for expect in [(volume("a"), version + 1), (volume("a"), 0), (volume("absent"), version)] {
        let batch = Batch { expect: vec![(volume("a"), version), expect], ..everything() };
        assert_eq!(place.commit(batch).await, Committed::Moved);
        nothing_was_written(&place).await;
    }
    let batch = Batch { expect: vec![(volume("a"), version), (volume("new"), 0)], ..everything() };
    place.done(batch).await;
    assert_eq!(place.members(&slots("a/b")).await, ["new"]);
}

pub(super) async fn a_commit_that_demands_what_was_lost_writes_nothing(place: Place) {
    let sequence = before_everything(&place).await;
    let reached = place.store().read(&[]).await.unwrap().reached;
    assert_eq!(reached, Reached { sequence, own: sequence });
    for floor in [Reached { sequence: sequence + 1, own: 0 }, Reached { sequence: 0, own: sequence + 1 }] {
        // It comes before all else: what the records and sets hold then means nothing.
        let batch = Batch { floor, expect: vec![(volume("a"), 77)], ..everything() };
        assert!(matches!(place.store().commit(batch).await, Err(StoreError::Behind)));
        nothing_was_written(&place).await;
    }
    place.done(Batch { floor: reached, ..everything() }).await;
}

pub(super) async fn a_full_set_admits_nobody_and_says_how_many_it_holds(place: Place) {
    before_everything(&place).await;
    let room = |below| Batch { room: vec![(Set::AllSlots, 9), (slots("a/b"), below)], ..everything() };
    for below in [0, 1] {
        let full = Committed::Full { set: slots("a/b"), held: 1 };
        assert_eq!(place.commit(room(below)).await, full);
        nothing_was_written(&place).await;
    }
    place.done(room(2)).await;
}

pub(super) async fn a_record_that_moved_counts_before_a_set_that_is_full(place: Place) {
    let batch = Batch { expect: vec![(volume("a"), 7)], room: vec![(slots("a/b"), 0)], ..Batch::default() };
    assert_eq!(place.commit(batch).await, Committed::Moved);
}

pub(super) async fn sixty_four_racers_for_ten_places_get_exactly_ten(place: Place) {
    let racers: Vec<_> = (0..64)
        .map(|racer| {
            let batch = Batch {
                room: vec![(slots("a/b"), 10), (Set::AllSlots, 10)],
                join: vec![(slots("a/b"), format!("{racer}")), (Set::AllSlots, format!("{racer}"))],
                ..Batch::default()
            };
            let store = place.store();
            tokio::spawn(async move { store.commit(batch).await.unwrap() })
        })
        .collect();
    let mut admitted = 0;
    for racer in racers {
        match racer.await.unwrap() {
            Committed::Done(_) => admitted += 1,
            refused => assert_eq!(refused, Committed::Full { set: slots("a/b"), held: 10 }),
        }
    }
    assert_eq!(admitted, 10);
    assert_eq!((place.size(&slots("a/b")).await, place.size(&Set::AllSlots).await), (10, 10));
    assert_eq!(place.members(&slots("a/b")).await.len(), 10);
}

pub(super) async fn of_racers_on_one_record_exactly_one_wins_each_round(place: Place) {
    for _ in 0..5 {
        let version = place.record(&volume("a")).await.version;
        let racers: Vec<_> = (0..16)
            .map(|racer| {
                let batch =
                    Batch { expect: vec![(volume("a"), version)], ..put(&volume("a"), &racer.to_string()) };
                let store = place.store();
                tokio::spawn(async move { (racer, store.commit(batch).await.unwrap()) })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            if let (racer, Committed::Done(version)) = racer.await.unwrap() {
                winners.push(Record { version, value: racer.to_string().into() });
            }
        }
        assert_eq!(winners, [place.record(&volume("a")).await]);
    }
}

pub(super) async fn leaving_twice_frees_only_ones_own_place(place: Place) {
    let set = slots("a/b");
    for member in ["a", "b", "a"] {
        place.done(join(&set, member)).await;
    }
    assert_eq!(place.size(&set).await, 2);
    for _ in 0..2 {
        place.done(leave(&set, "a")).await;
        place.done(leave(&set, "never there")).await;
        assert_eq!(place.size(&set).await, 1);
    }
    let twice_at_once =
        Batch { leave: vec![(set.clone(), "b".into()), (set.clone(), "b".into())], ..join(&set, "c") };
    place.done(twice_at_once).await;
    assert_eq!(place.members(&set).await, ["c"]);
    assert_eq!(place.size(&set).await, 1);
}

pub(super) async fn what_leaves_and_joins_in_one_batch_is_in(place: Place) {
    let set = slots("a/b");
    for _ in 0..2 {
        let batch = Batch { leave: vec![(set.clone(), "a".to_owned())], ..join(&set, "a") };
        place.done(Batch { remove: vec![volume("a")], put: vec![(volume("a"), "1".into())], ..batch }).await;
        assert_eq!(place.size(&set).await, 1);
        assert_eq!(place.members(&set).await, ["a"]);
        assert_eq!(place.record(&volume("a")).await.value, b"1");
    }
}

pub(super) async fn appointments_come_due_in_order_and_move(place: Place) {
    let appoint = async |member: &str, was: Option<u64>, is: Option<u64>| {
        let (was, is) = (was.map(UnixMillis), is.map(UnixMillis));
        let appointments = vec![Appointment { member: member.to_owned(), was, is }];
        place.done(Batch { appointments, ..Batch::default() }).await;
    };
    appoint("late", None, Some(300)).await;
    appoint("early", None, Some(99)).await;
    appoint("b", None, Some(200)).await;
    appoint("a", None, Some(200)).await;
    assert_eq!(place.due(98).await, [] as [&str; 0]);
    assert_eq!(place.due(99).await, ["early"]);
    assert_eq!(place.due(300).await, ["early", "a", "b", "late"]);
    assert_eq!(place.store().due(UnixMillis(300), 2).await.unwrap(), ["early", "a"]);

    appoint("early", Some(99), Some(1000)).await;
    appoint("a", Some(200), None).await;
    assert_eq!(place.due(u64::MAX).await, ["b", "late", "early"]);
}

pub(super) async fn members_page_through_a_set_in_order(place: Place) {
    let set = slots("a/b");
    for member in ["m3", "m1", "m5", "m2", "m4"] {
        place.done(join(&set, member)).await;
    }
    for neighbour in [slots("a/a"), slots("a/b-c"), slots("a/b.c"), slots("a/c"), Set::AllSlots] {
        place.done(join(&neighbour, "m0")).await;
        place.done(join(&neighbour, "m9")).await;
    }
    let mut pages = vec![place.store().members(&set, None, 2).await.unwrap()];
    while let Some(last) = pages.last().and_then(|page| page.last())
        && pages.len() < 9
    {
        let page = place.store().members(&set, Some(last), 2).await.unwrap();
        pages.push(page);
    }
    assert_eq!(pages, [vec!["m1", "m2"], vec!["m3", "m4"], vec!["m5"], vec![]]);
    let from_one_who_left = place.store().members(&set, Some("m25"), 9).await.unwrap();
    assert_eq!(from_one_who_left, ["m3", "m4", "m5"]);
}

pub(super) async fn the_halves_of_the_log_share_their_sequence_and_not_their_bounds(place: Place) {
    let half = |calls: &[&str], ends: &[&str]| {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).into()).collect();
        Batch { log: lines(calls), ends: lines(ends), ..Batch::default() }
    };
    place.done(half(&["1"], &["a"])).await;
    place.done(half(&["2", "3"], &[])).await;
    place.done(half(&[], &["b"])).await;
    let calls = place.store().log(Log::Calls, 0, 9).await.unwrap();
    let ends = place.store().log(Log::Ends, 0, 9).await.unwrap();
    let mut all: Vec<_> = calls.iter().chain(&ends).collect();
    all.sort_by_key(|logged| logged.sequence);
    let order: Vec<_> = all.iter().map(|logged| String::from_utf8(logged.value.clone()).unwrap()).collect();
    assert_eq!(order, ["1", "a", "2", "3", "b"]);
    assert!(all.windows(2).all(|pair| pair[0].sequence < pair[1].sequence), "no two have one place");
    place.store().trim_log(Log::Calls, 0, u64::MAX).await.unwrap();
    assert!(place.log().await.is_empty());
    assert_eq!(place.store().log(Log::Ends, 0, 9).await.unwrap(), ends);
    place.store().trim_log(Log::Ends, 1, 0).await.unwrap();
    assert_eq!(place.store().log(Log::Ends, 0, 9).await.unwrap(), ends[1..]);
}

pub(super) async fn the_log_keeps_its_order_and_loses_the_oldest_first(place: Place) {
    let log =
        |lines: &[&str]| Batch { log: lines.iter().map(|line| (*line).into()).collect(), ..Batch::default() };
    place.done(log(&["1", "2", "3"])).await;
    place.done(log(&["4"])).await;
    place.done(log(&["5", "6"])).await;
    let logged = place.store().log(Log::Calls, 0, 9).await.unwrap();
    assert!(logged.is_sorted_by(|a, b| a.sequence < b.sequence));
    assert_eq!(place.log().await, ["1", "2", "3", "4", "5", "6"].map(|line| line.as_bytes().to_vec()));
    assert_eq!(place.store().log(Log::Calls, logged[1].sequence, 2).await.unwrap(), logged[2..4]);

    place.store().trim_log(Log::Calls, 5, 0).await.unwrap();
    assert_eq!(place.store().log(Log::Calls, 0, 9).await.unwrap(), logged[1..]);
    place.store().trim_log(Log::Calls, 5, logged[2].sequence).await.unwrap();
    assert_eq!(place.store().log(Log::Calls, 0, 9).await.unwrap(), logged[3..]);
    place.store().trim_log(Log::Calls, 0, 0).await.unwrap();
    assert!(place.log().await.is_empty());
    place.done(log(&["7"])).await;
    let after = place.store().log(Log::Calls, 0, 9).await.unwrap();
    assert!(after[0].sequence > logged[5].sequence, "whoever reads on after the trim misses nothing");
}

pub(super) async fn bytes_come_back_as_they_were(place: Place) {
    let all: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    for (id, value) in [("", vec![]), ("nul\0 quote\" ü", vec![0]), ("large", all)] {
        let batch = Batch {
            put: vec![(volume(id), value.clone())],
            join: vec![(slots("a/b"), id.to_owned())],
            log: vec![value.clone()],
            ..Batch::default()
        };
        place.done(batch).await;
        assert_eq!(place.record(&volume(id)).await.value, value);
        assert_eq!(place.log().await.pop(), Some(value));
    }
    assert_eq!(place.members(&slots("a/b")).await, ["", "large", "nul\0 quote\" ü"]);
}

pub(super) async fn time_follows_the_clock_and_never_steps_back(place: Place) {
    let start = place.now().await;
    place.clock.advance(Duration::from_millis(7));
    assert_eq!(place.now().await, UnixMillis(start.0 + 7));
    place.clock.set(UnixMillis(start.0 - 1_000));
    assert_eq!(place.now().await, UnixMillis(start.0 + 7));
    place.clock.set(UnixMillis(start.0 + 8));
    assert_eq!(place.now().await, UnixMillis(start.0 + 8));
}

pub(super) async fn what_is_known_of_the_time_without_asking_is_what_a_read_would_show(place: Place) {
    let start = place.now().await;
    assert_eq!(place.store().clock(), Some(start));
    place.clock.advance(Duration::from_millis(7));
    assert_eq!(place.store().clock(), Some(UnixMillis(start.0 + 7)));
    place.clock.set(UnixMillis(start.0 - 1_000));
    assert_eq!(place.store().clock(), Some(UnixMillis(start.0 + 7)));
    assert_eq!(place.now().await, UnixMillis(start.0 + 7));
}

pub(super) async fn a_commit_that_comes_later_than_it_may_writes_nothing(place: Place) {
    let by = |until: UnixMillis, value: &str| Batch { until: Some(until), ..put(&volume("a"), value) };
    let start = place.now().await;
    place.done(by(start, "in time")).await;
    place.clock.advance(Duration::from_secs(2));
    assert_eq!(place.commit(by(start, "late")).await, Committed::Moved);
    // What the ledger's clock has shown stays shown: it is still too late.
    place.now().await;
    place.clock.set(UnixMillis(start.0 - 1_000));
    assert_eq!(place.commit(by(start, "late")).await, Committed::Moved);
    assert_eq!(place.record(&volume("a")).await.value, b"in time");
}

pub(super) async fn whoever_waits_for_room_is_told(place: Place) {
    place.done(join(&slots("a/b"), "a")).await;
    let mut changes = place.store().changes();
    changes.mark_unchanged();
    place.done(leave(&slots("a/b"), "a")).await;
    within(&WallClock, Duration::from_secs(20), changes.changed()).await.expect("it is told").unwrap();
    assert_eq!(place.size(&slots("a/b")).await, 0);
}

pub(super) async fn what_was_confirmed_is_there_after_reopening(mut place: Place) {
    let version = before_everything(&place).await;
    place.done(Batch { log: vec!["x".into()], ..Batch::default() }).await;
    for _ in 0..2 {
        place.reopen();
        assert_eq!(place.record(&volume("a")).await, Record { version, value: "1".into() });
        assert_eq!(place.members(&slots("a/b")).await, ["old"]);
        assert_eq!(place.size(&slots("a/b")).await, 1);
        assert_eq!((place.due(4).await.len(), place.due(5).await.len()), (0, 1));
        assert_eq!(place.log().await, [b"x"]);
    }
    let full = place.commit(Batch { room: vec![(slots("a/b"), 1)], ..Batch::default() }).await;
    assert_eq!(full, Committed::Full { set: slots("a/b"), held: 1 });
}

pub(super) async fn time_never_steps_back_not_even_after_reopening(mut place: Place) {
    place.clock.advance(Duration::from_secs(600));
    let then = place.now().await;
    place.done(put(&volume("a"), "1")).await;
    place.clock.set(UnixMillis(then.0 - 3_600_000));
    place.reopen();
    assert_eq!(place.now().await, then);
    place.clock.set(UnixMillis(then.0 + 1));
    assert_eq!(place.now().await, UnixMillis(then.0 + 1));
}

pub(super) async fn sequences_go_on_after_reopening(mut place: Place) {
    let log = || Batch { log: vec!["x".into()], ..Batch::default() };
    let before = place.done(log()).await;
    let logged = place.store().log(Log::Calls, 0, 9).await.unwrap();
    place.store().trim_log(Log::Calls, 0, 0).await.unwrap();
    place.reopen();
    let after = place.done(log()).await;
    assert!(after > before, "a version that was seen is not issued again");
    assert!(place.store().log(Log::Calls, 0, 9).await.unwrap()[0].sequence > logged[0].sequence);
}
