//! A call whose end could not be written down: once the ledger is back it keeps nobody waiting.

use std::sync::Arc;

use cubewarden::store::embedded::Embedded;
use cubewarden::time::{ManualClock, UnixMillis};

use super::stage::{BODY, path, refused};
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::faulty_store::{FaultyStore, When};
use crate::support::warden;

const START: u64 = 1_800_000_000_000;

#[tokio::test]
async fn a_call_that_ended_while_the_ledger_was_away_keeps_no_delete_waiting_when_it_is_back() {
    let clock = ManualClock::at(UnixMillis(START));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let store = FaultyStore::wrap(Arc::new(Embedded::in_memory(Arc::new(clock.clone())).unwrap()));
    let plan = warden::before(&cube.url()).clock(&clock).store(Arc::clone(&store) as _);
    let warden = plan.without_tasks().start().await;
    let caller = warden.caller();
    let id = caller.create(BODY).await;
    let connect = path(&id, "/connect");
    let under_way = async || warden.entries().await[0].operations.len();

    // Cube does it, and the ledger cannot be told.
    cube.fault(Fault::Hold { done: true }.on(Kind::Connect).times(1));
    let (asker, route) = (caller.clone(), connect.clone());
    let call = tokio::spawn(async move { asker.post(&route, r#"{"timeout":3000}"#).await });
    cube.until_held(1).await;
    store.down();
    cube.release();
    assert_eq!(call.await.unwrap().status, 200);
    store.heal();
    assert_eq!(under_way().await, 1);
    warden.warden.tasks.tick_due().await.unwrap();
    assert_eq!(under_way().await, 0);
    assert_eq!(warden.entries().await[0].deadline, Some(UnixMillis(START + 3_000_000)), "what was granted");

    // It was registered, its caller was told that it was not, and nothing was sent.
    store.lose_reply(When::Next(1));
    refused(&caller.post(&connect, r#"{"timeout":3000}"#).await, 503, "LEDGER_UNAVAILABLE");
    assert_eq!(under_way().await, 1);
    warden.warden.tasks.tick_due().await.unwrap();
    assert_eq!(under_way().await, 0);

    assert_eq!(caller.delete(&path(&id, "")).await.status, 204);
    assert_eq!((warden.held().await, cube.alive().len()), (0, 0));
}
