//! Who goes next, how many at once: all states of small pools, and a few stories.

use std::collections::HashSet;

use super::*;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const LAPSE: Duration = Duration::from_secs(3600);

fn later(seconds: u64) -> UnixMillis {
    NOW.plus(Duration::from_secs(seconds))
}

/// Serves `rounds` turns with these lanes always waiting, each write ending after all others that went before it.
fn served(pool: &mut Pool, waits: &[Lane], rounds: usize) -> [usize; 4] {
    let (mut went, mut on_the_way) = ([0; 4], std::collections::VecDeque::new());
    for _ in 0..rounds {
        while let Some(lane) = pool.next(|lane| waits.contains(&lane)) {
            went[lane.index()] += 1;
            on_the_way.push_back(pool.take(lane, NOW));
        }
        if let Some(taken) = on_the_way.pop_front() {
            pool.give_back(taken, Told::Refused, NOW);
        }
    }
    went
}

#[test]
fn deletes_have_half_of_the_pool_whatever_the_others_want_and_all_of_it_when_they_want_nothing() {
    for limit in [1, 2, 3, 8, 64] {
        let [deletes, others @ ..] = served(&mut Pool::new(limit, LAPSE), &Lane::ALL, 1000);
        let others: usize = others.iter().sum();
        assert!(deletes >= others, "{limit}: {deletes} {others}");
        assert!(others >= 300, "{limit}: the others starve: {others}");
    }
    let mut pool = Pool::new(8, LAPSE);
    while pool.has_room(Lane::Create) {
        pool.take(Lane::Create, NOW);
    }
    assert_eq!(pool.in_use(), [0, 0, 0, 4], "what is the deletes' own is not lent");
    let mut pool = Pool::new(8, LAPSE);
    while pool.has_room(Lane::Delete) {
        pool.take(Lane::Delete, NOW);
    }
    assert_eq!(pool.in_use(), [8, 0, 0, 0]);
}

#[test]
fn what_one_lane_does_not_use_is_lent_and_whoever_has_the_fewest_goes_next() {
    let mut pool = Pool::new(12, LAPSE);
    let creates: Vec<Taken> = (0..6).map(|_| pool.take(Lane::Create, NOW)).collect();
    assert!(!pool.has_room(Lane::Renew));
    pool.give_back(creates[0], Told::Done, NOW);
    assert_eq!(pool.next(|lane| lane != Lane::Delete), Some(Lane::Renew));
    pool.take(Lane::Renew, NOW);
    pool.give_back(creates[1], Told::Done, NOW);
    assert_eq!(pool.next(|lane| lane != Lane::Delete), Some(Lane::Connect));
    let [_, renew, connect, create] = served(&mut Pool::new(1, LAPSE), &Lane::ALL[1..], 300);
    assert_eq!([renew, connect, create], [100, 100, 100], "of equals, the one whose turn is longest ago");
}

#[test]
fn losses_of_one_moment_halve_it_once_and_lasting_ones_down_to_one() {
    let mut pool = Pool::new(64, LAPSE);
    let together: Vec<Taken> = (0..32).map(|_| pool.take(Lane::Create, NOW)).collect();
    let shrank = together.iter().filter(|taken| pool.give_back(**taken, Told::Unclear, later(30))).count();
    assert_eq!((shrank, pool.limit()), (1, 32));
    for second in 0..10 {
        let taken = pool.take(Lane::Delete, NOW);
        pool.give_back(taken, Told::Unclear, later(60 + second * 30));
    }
    assert_eq!(pool.limit(), 1);
    let taken = pool.take(Lane::Delete, NOW);
    assert!(!pool.give_back(taken, Told::SlowDown, later(1000)));
    assert_eq!(pool.limit(), 1);
}

#[test]
fn it_grows_by_one_with_each_round_of_successes_and_never_beyond_the_most() {
    let mut pool = Pool::new(4, LAPSE);
    pool.limit = 1;
    let mut limits = Vec::new();
    for _ in 0..12 {
        let taken = pool.take(Lane::Delete, NOW);
        pool.give_back(taken, Told::Done, NOW);
        limits.push(pool.limit());
    }
    assert_eq!(limits, [2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4]);
}

#[test]
fn a_lonely_loss_in_a_large_pool_leaves_room_for_a_few_and_a_burst_of_slow_downs_is_one_loss() {
    let mut pool = Pool::new(256, LAPSE);
    let taken = pool.take(Lane::Create, NOW);
    pool.give_back(taken, Told::Unclear, NOW);
    assert_eq!(pool.limit(), 8);
    let mut pool = Pool::new(256, LAPSE);
    for _ in 0..50 {
        let taken = pool.take(Lane::Create, NOW);
        pool.give_back(taken, Told::SlowDown, NOW);
    }
    assert_eq!(pool.limit(), 8);
    // A clock that stepped back makes no second loss of one.
    let taken = pool.take(Lane::Create, NOW);
    pool.give_back(taken, Told::SlowDown, UnixMillis(NOW.0 - 60_000));
    assert_eq!(pool.limit(), 8);
}

#[test]
fn whoever_takes_too_long_keeps_nobody_waiting_and_gives_nothing_back_twice() {
    let mut pool = Pool::new(1, Duration::from_secs(40));
    let snapshot = pool.take(Lane::Connect, NOW);
    pool.pass_time(later(39));
    assert!(!pool.has_room(Lane::Delete));
    pool.pass_time(later(40));
    assert!(pool.has_room(Lane::Delete));
    pool.take(Lane::Connect, later(40));
    pool.give_back(snapshot, Told::Done, later(41));
    assert_eq!(pool.in_use(), [0, 0, 1, 0]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Serve(u8),
    End(Told),
}

/// Every state that a pool of three comes to within seven steps, with any lanes waiting and any outcome.
#[test]
fn in_every_state_of_a_small_pool_nobody_exceeds_the_limit_and_whoever_waits_can_go_or_waits_for_somebody() {
    type World = (Pool, Vec<Taken>);
    let mut seen: HashSet<World> = HashSet::from([(Pool::new(3, LAPSE), Vec::new())]);
    let mut edge: Vec<World> = seen.iter().cloned().collect();
    let steps: Vec<Step> = (1..16)
        .map(Step::Serve)
        .chain([Told::Done, Told::Refused, Told::Unclear, Told::Unsent].map(Step::End))
        .collect();
    for depth in 0..7_u64 {
        let mut next = Vec::new();
        for (pool, taken) in &edge {
            for step in &steps {
                let (mut pool, mut taken) = (pool.clone(), taken.clone());
                match step {
                    Step::Serve(waits) => {
                        let waits = |lane: Lane| waits & (1 << lane.index()) != 0;
                        let Some(lane) = pool.next(waits) else {
                            assert!(!taken.is_empty(), "somebody waits for nobody: {pool:?}");
                            continue;
                        };
                        assert!(waits(lane) && pool.has_room(lane));
                        taken.push(pool.take(lane, NOW));
                        let all: u32 = pool.in_use.iter().sum();
                        assert!(all <= pool.limit, "{pool:?}");
                        let others = all - pool.in_use[0];
                        assert!(others <= (pool.limit / 2).max(1), "{pool:?}");
                    }
                    Step::End(_) if taken.is_empty() => continue,
                    Step::End(told) => {
                        pool.give_back(taken.remove(0), *told, later(depth));
                        assert!((1..=3).contains(&pool.limit), "{pool:?}");
                    }
                }
                if seen.insert((pool.clone(), taken.clone())) {
                    next.push((pool, taken));
                }
            }
        }
        edge = next;
    }
    assert_eq!(seen.len(), 598);
}
