//! Gauges are the ledger at the moment of the scrape: whatever ends a sandbox, and over a restart.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::cli::warden::open_store;
use cubewarden::ledger::CHARGED;
use cubewarden::store::Store;
use cubewarden::time::{Clock, ManualClock, UnixMillis, WallClock};
use serde_json::Value;

use super::{TEMPLATE, scrape, view};
use crate::cube::CubeSim;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::warden::{Running, before};

const CONFIG: &str = "[reconciler]\nquarantine_after = 1\ndelete_wait = \"1s\"\nclaim = \"120s\"\n\
    [[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 60\n";

/// The gauge, the store and the operator's view say the same, and it is this: (state, how many) of `default/dev`.
#[track_caller]
fn agree<'a>(
    warden: &'a Running,
    expected: &'a [(&'a str, u64)],
    paused: u64,
) -> impl Future<Output = ()> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let series = scrape(warden).await;
        let gauge =
            |name: String| series.get(&name).cloned().unwrap_or_else(|| panic!("{caller}: no {name}"));
        let entries = warden.entries().await;
        let buckets = view(warden, "/v1/admin/buckets").await;
        let bucket = &buckets["buckets"][0];
        for state in CHARGED {
            let wanted = expected.iter().find(|(name, _)| *name == state).map_or(0, |(_, count)| *count);
            let stored = entries.iter().filter(|entry| entry.state.name() == state).count() as u64;
            let shown = gauge(format!("cubewarden_entries{{bucket=\"default/dev\",state=\"{state}\"}}"));
            assert_eq!(
                (stored, bucket["entries"][state].as_u64()),
                (wanted, Some(wanted)),
                "{caller}: {state}"
            );
            assert_eq!(shown, wanted.to_string(), "{caller}: {state}");
            let other = gauge(format!("cubewarden_entries{{bucket=\"other\",state=\"{state}\"}}"));
            assert_eq!(other, "0", "{caller}: {state} of others");
        }
        let shown = gauge("cubewarden_paused{bucket=\"default/dev\"}".to_owned());
        assert_eq!(shown, paused.to_string(), "{caller}: paused");
        assert_eq!(bucket["held"].as_u64(), Some(entries.len() as u64), "{caller}");
        assert_eq!(bucket["paused"].as_u64(), Some(paused), "{caller}");
    }
}

async fn create(warden: &Running, seconds: u32) -> String {
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":{seconds}}}"#);
    warden.caller().create(&body).await
}

/// Kills are carried out beside the ticks.
async fn until_held(warden: &Running, count: u64) {
    for _ in 0..6000 {
        if warden.held().await == count {
            return;
        }
        WallClock.sleep(Duration::from_millis(10)).await;
    }
    panic!("waited a minute in vain for {count} held slots; there are {}", warden.held().await);
}

async fn pass(clock: &ManualClock, cube: &CubeSim, warden: &Running, by: Duration) {
    clock.advance(by);
    cube.tick();
    warden.warden.tasks.tick_due().await.unwrap();
}

/// MT03
#[tokio::test]
async fn the_gauge_is_the_size_of_the_store_whatever_ends_a_sandbox() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let plan = before(&cube.url()).config(CONFIG).clock(&clock).without_tasks();
    let any_clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let store: Arc<dyn Store> = open_store(&plan.settings().store, &any_clock).await.unwrap();
    let started =
        || before(&cube.url()).config(CONFIG).clock(&clock).without_tasks().store(Arc::clone(&store));
    let warden = started().start().await;
    warden.warden.tasks.tick_inventory().await.unwrap();
    agree(&warden, &[], 0).await;

    let mut ids = Vec::new();
    for at in 0..50 {
        ids.push(create(&warden, if at < 10 { 300 } else { 3600 }).await);
    }
    agree(&warden, &[("live", 50)], 0).await;
    let caller = warden.caller();
    for id in &ids[10..15] {
        assert_eq!(caller.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
    }
    agree(&warden, &[("live", 50)], 5).await;

    // Its own client ends it, running or paused.
    for id in &ids[13..20] {
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 404);
    }
    agree(&warden, &[("live", 43)], 3).await;

    // Cube's sweeper ends ten whose endAt has come, and tells nobody.
    pass(&clock, &cube, &warden, Duration::from_secs(310)).await;
    agree(&warden, &[("live", 33)], 3).await;

    // Three vanish from Cube: one while paused.
    for id in [&ids[12], &ids[20], &ids[21]] {
        assert!(cube.let_die(id));
    }
    warden.warden.tasks.tick_inventory().await.unwrap();
    agree(&warden, &[("live", 30)], 2).await;

    // A restart counts nothing twice and forgets nothing.
    drop(warden);
    let warden = started().start().await;
    agree(&warden, &[("live", 30)], 2).await;

    // One cannot be killed: it is charged until it can.
    let caller = warden.caller();
    let refuse =
        Fault::Refuse { status: 500, body: r#"{"code":500,"message":"no"}"#.to_owned(), retry_after: None };
    let fault = cube.fault(refuse.on(Kind::Delete));
    let path = format!("/sandboxes/{}", ids[22]);
    assert_eq!(caller.delete(&path).await.status, 503);
    agree(&warden, &[("live", 29), ("quarantined", 1)], 2).await;
    cube.remove_fault(fault);
    pass(&clock, &cube, &warden, Duration::from_secs(601)).await;
    until_held(&warden, 29).await;
    agree(&warden, &[("live", 29)], 2).await;

    // A create whose answer is lost is charged; found and claimed by nobody, it is killed.
    cube.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":3600}}"#);
    assert_eq!(caller.post("/sandboxes", &body).await.status, 504);
    agree(&warden, &[("live", 29), ("ambiguous", 1)], 2).await;
    pass(&clock, &cube, &warden, Duration::from_secs(6)).await;
    let after_search: Vec<Value> =
        view(&warden, "/v1/admin/sandboxes?state=ambiguous").await["sandboxes"].as_array().unwrap().clone();
    assert!(after_search.is_empty(), "{after_search:?}");

    for id in cube.alive() {
        let status = caller.delete(&format!("/sandboxes/{}", id.id)).await.status;
        assert!(status == 204 || status == 404, "{status}");
    }
    pass(&clock, &cube, &warden, Duration::from_secs(130)).await;
    until_held(&warden, 0).await;
    assert!(cube.alive().is_empty());
    agree(&warden, &[], 0).await;
}
