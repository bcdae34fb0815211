//! Several wardens on one ledger are one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cubewarden::rules::entry::State;
use cubewarden::store::Store as _;
use cubewarden::store::schema::Set;
use cubewarden::time::{ManualClock, UnixMillis};

use super::body;
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::FaultyStore;
use crate::support::redis::RedisServer;
use crate::support::until;
use crate::support::warden::{self, Running};

const START: UnixMillis = UnixMillis(1_800_000_000_000);

/// EB18, RD09
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_of_two_wardens_get_exactly_ten_slots() {
    let server = RedisServer::start();
    let cube = CubeSim::builder().start().await.unwrap();
    let config = "[admission]\nwait = \"0s\"\n[bucket_defaults]\nlimit = 10";
    let start = async || warden::before(&cube.url()).config(config).store(server.store().await).start().await;
    let wardens = [start().await, start().await];
    for _ in 0..3 {
        let clients: Vec<_> = (0..64)
            .map(|client| {
                let caller = wardens[client % 2].caller();
                tokio::spawn(async move { caller.post("/sandboxes", &body()).await })
            })
            .collect();
        let mut made = Vec::new();
        for client in clients {
            let answer = client.await.unwrap();
            match answer.status.as_u16() {
                201 => made.push(answer.text("sandboxID")),
                status => assert_eq!(status, 429, "{answer:?}"),
            }
        }
        assert_eq!((made.len(), cube.alive().len()), (10, 10));
        // Each is ended through the warden that may not have made it, all at once, and twice.
        let ends: Vec<_> = made
            .iter()
            .flat_map(|id| wardens.each_ref().map(|warden| (warden.caller(), format!("/sandboxes/{id}"))))
            .map(|(caller, path)| tokio::spawn(async move { caller.delete(&path).await.status.as_u16() }))
            .collect();
        for end in ends {
            let status = end.await.unwrap();
            assert!(status == 204 || status == 404, "{status}");
        }
        assert_eq!((cube.alive().len(), wardens[0].held().await, wardens[1].held().await), (0, 0, 0));
    }
    assert_eq!(cube.high_water(&[]), 10);
}

/// A Cube, and a warden on a store that may die; both by the test's clock.
struct World {
    server: RedisServer,
    clock: ManualClock,
    cube: CubeSim,
}

impl World {
    async fn start() -> Self {
        let clock = ManualClock::at(START);
        let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
        Self { server: RedisServer::start(), clock, cube }
    }

    async fn warden(&self) -> (Running, Arc<FaultyStore>) {
        let store = FaultyStore::wrap(self.server.store_at(&self.clock).await);
        let plan = warden::before(&self.cube.url()).clock(&self.clock).store(store.clone()).without_tasks();
        (plan.start().await, store)
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.cube.tick();
    }
}

async fn states(warden: &Running) -> Vec<&'static str> {
    warden.entries().await.iter().map(|entry| entry.state.name()).collect()
}

fn create(warden: &Running) -> tokio::task::JoinHandle<Result<u16, String>> {
    let caller = warden.caller();
    tokio::spawn(
        async move { Ok(caller.try_call("POST", "/sandboxes", Some(&body())).await?.status.as_u16()) },
    )
}

/// EB18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_warden_left_is_settled_by_another_and_not_before_it_is_dead() {
    let world = World::start().await;
    let (dying, store) = world.warden().await;
    let (living, _) = world.warden().await;
    // It dies with the answer of a create in its hand: dispatched, and never done.
    store.hang_before(store.commits() + 2);
    let lost = create(&dying);
    until("it has died", || store.is_dead()).await;
    lost.abort();
    drop(dying);
    assert_eq!((states(&living).await, world.cube.alive().len()), (vec!["dispatched"], 1));

    world.pass(59);
    living.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(states(&living).await, ["dispatched"], "it may still live");
    world.pass(2);
    living.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(states(&living).await, ["ambiguous"]);
    assert_eq!(world.cube.alive().len(), 1, "nothing is killed because its warden died");
    // Found by its marker; nobody could claim it.
    living.warden.tasks.tick_due().await.unwrap();
    living.warden.tasks.tick_due().await.unwrap();
    living.warden.finish().await;
    assert_eq!((living.held().await, world.cube.alive().len()), (0, 0));
}

/// EB18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_that_a_dead_warden_never_sent_gives_its_slot_back_after_the_horizon() {
    let world = World::start().await;
    let (dying, store) = world.warden().await;
    let (living, _) = world.warden().await;
    store.hang_after(store.commits() + 1);
    let lost = create(&dying);
    until("it has died", || store.is_dead()).await;
    lost.abort();
    drop(dying);
    world.pass(61);
    living.warden.tasks.tick_beat().await.unwrap();
    for _ in 0..100 {
        living.warden.tasks.tick_due().await.unwrap();
        assert_eq!(states(&living).await, ["ambiguous"], "it may still appear");
        world.pass(5);
    }
    world.pass(60);
    living.warden.tasks.tick_due().await.unwrap();
    assert_eq!(living.held().await, 0);
}

/// EB18
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_living_warden_does_is_left_alone() {
    let world = World::start().await;
    let (busy, _) = world.warden().await;
    let (other, _) = world.warden().await;
    let beat = async || {
        world.pass(10);
        for warden in [&busy, &other] {
            warden.warden.tasks.tick_beat().await.unwrap();
        }
    };
    for _ in 0..10 {
        beat().await;
    }
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let answer = create(&busy);
    until("the create is at Cube", || world.cube.held() == 1).await;
    for _ in 0..2 {
        beat().await;
        other.warden.tasks.tick_inventory().await.unwrap();
        assert_eq!(states(&other).await, ["dispatched"]);
    }
    // One that starts meanwhile does not take the others for dead.
    let (third, _) = world.warden().await;
    assert_eq!(states(&third).await, ["dispatched"]);
    world.cube.release();
    assert_eq!(answer.await.unwrap(), Ok(201));
    assert_eq!(states(&other).await, ["live"]);
}

/// How many DELETEs Cube has seen.
fn deletes(cube: &CubeSim) -> usize {
    cube.requests().iter().filter(|seen| seen.head.method == "DELETE").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_is_left_to_the_warden_that_was_asked_and_finished_by_any_if_that_one_dies() {
    let world = World::start().await;
    let (asked, store) = world.warden().await;
    let (other, _) = world.warden().await;
    let caller = asked.caller();
    let (first, second) = (caller.create(&body()).await, caller.create(&body()).await);
    world.cube.fault(Fault::Hold { done: true }.on(Kind::Delete).times(1));
    let before = deletes(&world.cube);
    let delete = {
        let (caller, path) = (caller.clone(), format!("/sandboxes/{first}"));
        tokio::spawn(async move { caller.delete(&path).await.status.as_u16() })
    };
    until("the delete is at Cube", || world.cube.held() == 1).await;
    other.warden.tasks.tick_due().await.unwrap();
    other.warden.finish().await;
    assert_eq!(deletes(&world.cube) - before, 1, "two would take each other's 404 for the truth");
    world.cube.release();
    assert_eq!(delete.await.unwrap(), 204);

    // It dies after a try that came to nothing, before it could say so.
    world.cube.fault(Fault::DropRequest.on(Kind::Delete).times(1));
    store.hang_before(store.commits() + 2);
    let lost =
        tokio::spawn(async move { caller.try_call("DELETE", &format!("/sandboxes/{second}"), None).await });
    until("it has died", || store.is_dead()).await;
    lost.abort();
    drop(asked);
    world.pass(31);
    other.warden.tasks.tick_due().await.unwrap();
    other.warden.finish().await;
    assert_eq!((other.held().await, world.cube.alive().len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_said_farewell_is_not_waited_for_and_the_long_dead_are_forgotten() {
    let world = World::start().await;
    let (leaving, store) = world.warden().await;
    let (dead, _) = world.warden().await;
    let (staying, _) = world.warden().await;
    let known = async || store_of(&world).await.members(&Set::Instances, None, 9).await.unwrap();
    assert_eq!(known().await.len(), 3);
    store.hang_after(store.commits() + 1);
    let lost = create(&leaving);
    until("it has died", || store.is_dead()).await;
    lost.abort();
    // Said by another hand: a dead store says nothing.
    let instance = leaving.warden.ledger.instance().clone();
    let away = cubewarden::store::Batch {
        remove: vec![cubewarden::store::schema::Key::Instance(instance.clone())],
        leave: vec![(Set::Instances, instance.to_string())],
        ..Default::default()
    };
    store_of(&world).await.commit(away).await.unwrap();
    staying.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(states(&staying).await, ["ambiguous"], "nobody waits a minute for it");

    drop(dead);
    world.pass(3601);
    staying.warden.tasks.tick_beat().await.unwrap();
    assert_eq!(known().await, [staying.warden.ledger.instance().to_string()]);
    staying.warden.ledger.farewell().await.unwrap();
    assert!(known().await.is_empty());
}

async fn store_of(world: &World) -> Arc<cubewarden::store::redis::Redis> {
    world.server.store_at(&world.clock).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_loses_nothing_and_refuses_nobody() {
    let server = RedisServer::start();
    let cube = CubeSim::builder().start().await.unwrap();
    let start = async || warden::before(&cube.url()).store(server.store().await).start().await;
    let mut wardens = [Arc::new(start().await), Arc::new(start().await)];
    let mut kept = BTreeSet::new();
    for round in 0..4 {
        let leaving = round % 2;
        // Clients hold on to both; those of the one that leaves are answered before it goes.
        let clients: Vec<_> = (0..20)
            .map(|client| {
                let caller = wardens[client % 2].caller();
                tokio::spawn(async move {
                    let kept = caller.create(&body()).await;
                    let ended = caller.create(&body()).await;
                    assert_eq!(caller.delete(&format!("/sandboxes/{ended}")).await.status, 204);
                    kept
                })
            })
            .collect();
        let next = Arc::new(start().await);
        for client in clients {
            kept.insert(client.await.unwrap());
        }
        wardens[leaving].warden.finish().await;
        wardens[leaving].warden.ledger.farewell().await.unwrap();
        wardens[leaving] = next;
    }
    let of_cube: BTreeSet<String> = cube.alive().into_iter().map(|alive| alive.id).collect();
    assert_eq!((kept.len(), &of_cube), (80, &kept));
    for warden in &wardens {
        let entries = warden.entries().await;
        let of_ledger: BTreeSet<String> =
            entries.iter().filter_map(|entry| entry.sandbox.as_ref().map(ToString::to_string)).collect();
        assert_eq!((entries.len(), &of_ledger), (80, &kept));
        assert!(entries.iter().all(|entry| matches!(entry.state, State::Live(_))));
    }
}
