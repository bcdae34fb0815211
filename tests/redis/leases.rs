//! Leases between wardens: whose sandbox it is stands in the ledger, not in anybody's memory.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::ledger::Condemned;
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::delete::{Judged, Shown};
use cubewarden::rules::entry::{Actor, Entry};
use cubewarden::time::{Clock as _, ManualClock, UnixMillis};
use serde_json::json;

use super::TEMPLATE;
use crate::cube::CubeSim;
use crate::support::faulty_store::FaultyStore;
use crate::support::http::{Answer, Caller};
use crate::support::redis::RedisServer;
use crate::support::warden::{self, Running};

const SECOND: Duration = Duration::from_secs(1);

/// Two wardens of one ledger before one Cube, all by the test's clock.
struct World {
    clock: ManualClock,
    cube: CubeSim,
    wardens: [Running; 2],
    stores: [Arc<FaultyStore>; 2],
    _server: RedisServer,
}

impl World {
    async fn start() -> Self {
        let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
        let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
        let server = RedisServer::start();
        let warden = async || {
            let store = FaultyStore::wrap(server.store_at(&clock).await);
            let plan = warden::before(&cube.url()).clock(&clock).store(store.clone()).without_tasks();
            (plan.start().await, store)
        };
        let ((one, of_one), (two, of_two)) = (warden().await, warden().await);
        Self { clock, cube, wardens: [one, two], stores: [of_one, of_two], _server: server }
    }

    fn pass(&self, length: Duration) {
        self.clock.advance(length);
        self.cube.tick();
    }

    async fn acquire(&self, by: usize, lease: &str) -> Answer {
        let body = json!({"run": "r", "lease_id": lease, "template_id": TEMPLATE, "timeout": 300});
        self.wardens[by].caller().post("/v1/leases", &body.to_string()).await
    }

    async fn only(&self) -> Entry {
        let entries = self.wardens[0].entries().await;
        let [entry] = &entries[..] else { panic!("one entry, not {entries:#?}") };
        entry.clone()
    }

    /// The second warden's sweep of what it marked then; `None` if its ledger cannot be reached.
    async fn swept(&self, entry: &Entry, marked: UnixMillis) -> Option<Condemned> {
        let judged = Judged { incarnation: entry.incarnation, marked, ceilings: Ceilings::default() };
        let shown = Shown { judged: Some(judged), ..Shown::of_generation(Some(entry.generation)) };
        let warden = &self.wardens[1].warden;
        let condemned = warden.ledger.condemn(&entry.marker, Actor::Collector, &shown, "swept").await;
        for ticked in [warden.tasks.tick_due().await.map(drop), warden.tasks.tick_inventory().await] {
            assert_eq!(ticked.is_ok(), condemned.is_ok(), "{ticked:?}");
        }
        warden.finish().await;
        condemned.ok()
    }

    fn deletes(&self) -> usize {
        let of_one = |target: &str| !target.ends_with(&"0".repeat(32));
        let requests = self.cube.requests();
        requests.iter().filter(|seen| seen.head.method == "DELETE" && of_one(&seen.head.target)).count()
    }
}

async fn beat(caller: &Caller, owner: &str, lease: &str) -> u16 {
    let body = json!({"owner_id": owner, "lease_id": lease}).to_string();
    caller.post("/v1/lease-heartbeats", &body).await.status.as_u16()
}

/// EB20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_only_its_own_warden_has_heard_of_keeps_its_sandbox_from_every_other_warden() {
    let world = World::start().await;
    let acquired = world.acquire(0, "lease-a").await;
    assert_eq!(acquired.status, 201, "{acquired:?}");
    let (owner, caller) = (acquired.text("owner_id"), world.wardens[0].caller());
    let mut marked = world.clock.now();
    for _ in 0..20 {
        world.pass(30 * SECOND);
        assert_eq!(beat(&caller, &owner, "lease-a").await, 200);
        let swept = world.swept(&world.only().await, marked).await;
        assert_eq!(swept, Some(Condemned::Kept));
        marked = world.clock.now();
    }
    assert_eq!((world.cube.alive().len(), world.deletes()), (1, 0));
}

/// EB20
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_that_cannot_reach_the_ledger_deletes_nothing_and_a_lapse_during_an_outage_loses_nothing() {
    let world = World::start().await;
    let acquired = world.acquire(0, "lease-a").await;
    let (owner, caller) = (acquired.text("owner_id"), world.wardens[0].caller());
    let (held, marked) = (world.only().await, world.clock.now());
    world.stores.iter().for_each(|store| store.down());
    for _ in 0..3 {
        world.pass(150 * SECOND);
        assert_eq!(world.swept(&held, marked).await, None);
        assert_eq!(beat(&caller, &owner, "lease-a").await, 503, "said, not taken for the loss of the lease");
    }
    assert_eq!((world.cube.alive().len(), world.deletes()), (1, 0));
    world.stores.iter().for_each(|store| store.heal());
    // Its lease has lapsed, and nobody has overtaken it: its holder goes on, and what was marked before is void.
    assert_eq!(beat(&caller, &owner, "lease-a").await, 200);
    assert_eq!(world.swept(&held, marked).await, Some(Condemned::Kept));
    assert_eq!((world.only().await.generation, world.deletes()), (held.generation, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquisitions_of_one_owner_through_two_wardens_at_once_are_one_sandbox_with_one_present_holder() {
    let world = Arc::new(World::start().await);
    for round in 0..20 {
        let asks: Vec<_> = (0..6)
            .map(|ask| {
                let world = Arc::clone(&world);
                tokio::spawn(async move { world.acquire(ask % 2, &format!("lease-{round}-{ask}")).await })
            })
            .collect();
        let mut given = Vec::new();
        for ask in asks {
            let answer = ask.await.unwrap();
            assert!(answer.status.is_success(), "{answer:?}");
            given.push((answer.json()["generation"].as_u64().unwrap(), answer.text("lease_id")));
        }
        assert_eq!((world.cube.alive().len(), world.wardens[0].held().await), (1, 1), "round {round}");
        given.sort();
        assert!(
            given.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "a generation was given twice: {given:?}"
        );
        let owner = world.only().await.owner.to_string();
        let caller = world.wardens[round % 2].caller();
        let mut beats = Vec::new();
        for (_, lease) in &given {
            beats.push(beat(&caller, &owner, lease).await);
        }
        assert_eq!(beats, [409, 409, 409, 409, 409, 200], "round {round}: {given:?}");
    }
}
