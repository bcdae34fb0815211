//! Two ledgers before one Cube, one ledger over two Cubes, and wardens whose clocks disagree.

use std::collections::BTreeSet;
use std::time::Duration;

use cubewarden::store::redis::{Redis, Time};
use cubewarden::store::settings;
use cubewarden::time::{Clock as _, ManualClock, UnixMillis};

use super::stage::{BODY, CONFIG, START, rebuilt};
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::redis::RedisServer;
use crate::support::until;
use crate::support::warden::{self, Running};

async fn ticks(warden: &Running) {
    let tasks = &warden.warden.tasks;
    tasks.tick_due().await.unwrap();
    tasks.tick_inventory().await.unwrap();
    tasks.tick_beat().await.unwrap();
    tasks.tick_notes(0).await.unwrap();
}

async fn held(warden: &Running) -> BTreeSet<String> {
    let entries = warden.warden.ledger.charged_here().await.unwrap().0;
    assert!(entries.iter().all(cubewarden::rules::entry::Entry::usable), "{entries:#?}");
    entries.iter().map(|entry| entry.sandbox.as_ref().unwrap().to_string()).collect()
}

async fn makes(warden: &Running, how_many: usize) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    for _ in 0..how_many {
        made.insert(warden.caller().create(BODY).await);
    }
    made
}

fn deletes(cube: &CubeSim) -> usize {
    cube.requests().iter().filter(|seen| seen.head.method == "DELETE").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ledgers_before_one_cube_leave_each_others_sandboxes_alone_even_when_one_is_lost() {
    let clock = ManualClock::at(START);
    let (server, cube) =
        (RedisServer::start(), CubeSim::builder().clock(clock.clone()).start().await.unwrap());
    let start = async |ledger: &str| {
        let settings = settings::Redis { ledger: ledger.to_owned(), ..server.settings() };
        let store = Redis::open(&settings, Time::Of(std::sync::Arc::new(clock.clone()))).await.unwrap();
        let plan = warden::before(&cube.url()).config(CONFIG).clock(&clock).store(std::sync::Arc::new(store));
        plan.without_tasks().start().await
    };
    let (one, other) = (start("one").await, start("other").await);
    let of_one = makes(&one, 3).await;
    let of_other = makes(&other, 4).await;
    for _ in 0..5 {
        for warden in [&one, &other] {
            ticks(warden).await;
        }
        clock.advance(Duration::from_secs(70));
        cube.tick();
    }
    assert_eq!((held(&one).await, held(&other).await), (of_one.clone(), of_other.clone()));
    assert_eq!((one.warden.tasks.foreign(), other.warden.tasks.foreign()), (4, 3));

    let mut link = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("{cw:one}:*").query(&mut link).unwrap();
    redis::cmd("DEL").arg(keys).exec(&mut link).unwrap();
    assert!(one.warden.ledger.now().await.is_err());
    rebuilt(&[&one]).await;
    ticks(&one).await;
    ticks(&other).await;
    assert_eq!((held(&one).await, held(&other).await), (of_one, of_other));
    assert_eq!((deletes(&cube), cube.alive().len()), (0, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_ledger_over_two_cubes_counts_both_and_neither_warden_judges_the_others() {
    let clock = ManualClock::at(START);
    let server = RedisServer::start();
    let cube = async |seed| CubeSim::builder().clock(clock.clone()).seed(seed).start().await.unwrap();
    let (here, there) = (cube(1).await, cube(2).await);
    let start = async |cube: &CubeSim, name: &str| {
        let plan = warden::before(&cube.url()).config(CONFIG).clock(&clock).without_tasks();
        plan.env("CUBEWARDEN_UPSTREAM_NAME", name).store(server.store_at(&clock).await).start().await
    };
    let (one, other) = (start(&here, "here").await, start(&there, "there").await);
    let near = makes(&one, 3).await;
    let far = makes(&other, 5).await;
    assert_eq!(one.caller().post("/sandboxes", BODY).await.status, 429, "eight slots over both");
    let story = async || {
        for _ in 0..5 {
            for warden in [&one, &other] {
                ticks(warden).await;
            }
            clock.advance(Duration::from_secs(70));
            here.tick();
            there.tick();
        }
        assert_eq!((held(&one).await, held(&other).await), (near.clone(), far.clone()));
        assert_eq!((one.held().await, here.alive().len(), there.alive().len()), (8, 3, 5));
        assert_eq!(deletes(&here) + deletes(&there), 0);
    };
    story().await;
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    assert!(one.warden.ledger.now().await.is_err());
    rebuilt(&[&one, &other]).await;
    story().await;
    assert_eq!(one.caller().post("/sandboxes", BODY).await.status, 429);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wardens_ten_minutes_apart_and_one_that_steps_back_an_hour_break_no_law() {
    let clocks = [START.0, START.0, START.0 + 600_000].map(|at| ManualClock::at(UnixMillis(at)));
    let [ledger, early, late] = &clocks;
    let server = RedisServer::start();
    let cube = CubeSim::builder().clock(ledger.clone()).start().await.unwrap();
    let start = async |clock: &ManualClock| {
        let plan = warden::before(&cube.url()).config(CONFIG).clock(clock).without_tasks();
        plan.store(server.store_at(ledger).await).start().await
    };
    let (one, other) = (start(early).await, start(late).await);
    let pass = |seconds| {
        for clock in &clocks {
            clock.advance(Duration::from_secs(seconds));
        }
        cube.tick();
    };
    let mut made = makes(&one, 3).await;
    made.extend(makes(&other, 3).await);
    for round in 0..8 {
        if round == 3 {
            early.set(early.now().minus(Duration::from_secs(3600)));
        }
        // A create of each is under way while the other looks for what the dead have left.
        for (asked, looks) in [(&one, &other), (&other, &one)] {
            cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
            let caller = asked.caller();
            let create = tokio::spawn(async move { caller.create(BODY).await });
            until("it is at Cube", || cube.held() == 1).await;
            ticks(looks).await;
            ticks(asked).await;
            let states = asked.entries().await;
            let states: Vec<_> = states.iter().map(|entry| entry.state.name()).collect();
            assert_eq!(states.iter().filter(|state| **state == "dispatched").count(), 1, "{states:?}");
            cube.release();
            let id = create.await.unwrap();
            // Whoever did not make it ends it.
            assert_eq!(looks.caller().delete(&format!("/sandboxes/{id}")).await.status, 204);
        }
        assert_eq!((held(&one).await, held(&other).await), (made.clone(), made.clone()), "round {round}");
        pass(40);
    }
    made.extend(makes(&one, 2).await);
    for warden in [&one, &other] {
        assert_eq!(warden.caller().post("/sandboxes", BODY).await.status, 429);
        ticks(warden).await;
    }
    assert_eq!((held(&one).await, one.held().await, cube.high_water(&[])), (made, 8, 8));
    // A generation is of the ledger's clock, whatever the wardens' show.
    let now = one.warden.ledger.now().await.unwrap();
    let generations: BTreeSet<u64> = one.entries().await.iter().map(|entry| entry.generation.0).collect();
    assert!(generations.iter().all(|generation| (START.0..=now.0).contains(generation)), "{generations:?}");
}
