//! A rolling restart looks like nothing happened; what one that was killed has left is adopted by the other.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use cubewarden::time::Chance;
use tokio::sync::watch;

use super::balancer::Balancer;
use super::crowd::Crowd;
use super::storm::all_is_well;
use super::wardens::Wardens;
use super::{CLIENTS, LIMIT, TEMPLATE, seed};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Latency, Profile};
use crate::support::redis::RedisServer;
use crate::support::until;

async fn two(cube: &CubeSim) -> (RedisServer, Wardens) {
    let server = RedisServer::durable();
    let wardens = Wardens::start(cube, &[server.url(), server.url()]).await;
    (server, wardens)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_one_warden_after_the_other_is_restarted_no_client_sees_more_than_a_refusal() {
    let cube = CubeSim::builder().profile(Profile::V070).latency(Latency::Node);
    let cube = Arc::new(cube.start().await.unwrap());
    let (_server, mut wardens) = two(&cube).await;
    let balancer = Balancer::before(wardens.addresses()).await;
    let (_told, address) = watch::channel(vec![balancer.url().to_owned()]);
    let crowd = Crowd::start(&cube, &address, &Chance::seeded(seed()));
    for which in [0, 1, 0, 1] {
        let before = crowd.seen().lives.load(SeqCst);
        until("the crowd is at work", || crowd.seen().lives.load(SeqCst) >= before + CLIENTS / 3).await;
        wardens.stop(which).await;
        wardens.revive(which).await;
        wardens.until_ready(which).await;
    }
    let (seen, mut wrongs) = crowd.finish().await;
    // Nothing was forgotten, so nothing may be left to its deadline.
    wrongs.extend(seen.undead(&[]));
    let unclear = seen.unclear();
    assert!(wrongs.is_empty() && unclear.is_empty(), "{unclear:#?}\n{}", wardens.story_of(&wrongs).await);
    assert!(cube.high_water(&[]) <= LIMIT, "{}", cube.high_water(&[]));
    // Each client has ended what it had: no slot is left behind, and nothing that holds none.
    wardens.until_ledger_is_cube(&cube).await;
    assert_eq!((cube.alive().len(), wardens.serving(0).held().await), (0, 0));
    all_is_well(&wardens).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_warden_left_is_adopted_and_nothing_of_it_is_collected() {
    let cube = CubeSim::builder().profile(Profile::V070).start().await.unwrap();
    let (server, mut wardens) = two(&cube).await;
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":600}}"#);
    let (dying, living) = (wardens.serving(0).caller(), wardens.serving(1).caller());
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(dying.create(&body).await);
    }
    // A fourth is at Cube, which makes it, when the warden dies; its client asks again at the other.
    cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let (asker, wish) = (dying.with("idempotency-key", "the fourth"), body.clone());
    let unanswered = tokio::spawn(async move { asker.try_call("POST", "/sandboxes", Some(&wish)).await });
    cube.until_held(1).await;
    wardens.kill(0);
    cube.release();
    assert!(unanswered.await.unwrap().is_err());
    until("Cube has made it", || cube.alive().len() == 4).await;
    assert_eq!(wardens.serving(1).held().await, 4, "it holds its slot whoever is dead");

    wardens.bury(&server);
    let again = living.with("idempotency-key", "the fourth");
    let mut refusal = None;
    for _ in 0..100 {
        let answer = again.post("/sandboxes", &body).await;
        if answer.status == 201 {
            made.push(answer.text("sandboxID"));
            break;
        }
        refusal = Some(answer);
    }
    assert_eq!(made.len(), 4, "it could not be claimed: {refusal:?}\n{}", wardens.story().await);
    wardens.until_ledger_is_cube(&cube).await;
    let deleted = |path: &str| {
        cube.requests()
            .iter()
            .any(|seen| (seen.head.method.as_str(), seen.head.target.as_str()) == ("DELETE", path))
    };
    for id in &made {
        let path = format!("/sandboxes/{id}");
        assert!(living.get(&path).await.status == 200 && !deleted(&path), "{id}");
    }
    wardens.revive(0).await;
    wardens.until_ready(0).await;
    // Whoever came in its place serves what it had made, too.
    for (id, caller) in made.iter().zip([wardens.serving(0).caller(), living].iter().cycle()) {
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    }
    assert_eq!((cube.alive().len(), wardens.serving(0).held().await), (0, 0));
}
