//! SIGHUP: limits, policies and tenants, all or nothing.

use serde_json::Value;

use super::program::{Serving, Site};
use crate::cube::CubeSim;

const CREATE: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":300}"#;

fn limited(limit: u32, more: &str) -> String {
    format!(
        "[admission]\nwait = \"0s\"\n{more}\n[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = {limit}\n"
    )
}

/// Reloads, and waits for the sentence that says how that went.
async fn reload(warden: &mut Serving, says: &str) -> Value {
    warden.signal("HUP");
    warden.until_said(says).await
}

async fn limit(warden: &Serving) -> Value {
    warden.operator().get("/v1/admin/buckets").await.json()["buckets"][0]["limit"].clone()
}

#[tokio::test]
async fn a_reload_raises_a_limit_and_a_bad_file_changes_nothing() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), &limited(1, ""));
    let mut warden = site.ready().await;
    let caller = warden.caller();
    caller.create(CREATE).await;
    assert_eq!(caller.post("/sandboxes", CREATE).await.status, 429);

    site.write(&cube.url(), &limited(9, "[collector]\ncycle = \"0s\""));
    let refused = reload(&mut warden, "the configuration was not reloaded").await;
    let why = refused["error"].as_str().unwrap();
    assert!(why.contains("collector.cycle") && refused["level"] == "ERROR", "{refused}");
    assert_eq!(
        (limit(&warden).await, caller.post("/sandboxes", CREATE).await.status.as_u16()),
        (1.into(), 429)
    );

    site.write(&cube.url(), &limited(2, "[proxy]\ndrain = \"7s\""));
    let done = reload(&mut warden, "the configuration was reloaded").await;
    assert_eq!(done["changed"], "bucket.default/dev.limit");
    let waiting = warden.until_said("some settings that changed hold only after a restart").await;
    assert_eq!(waiting["waiting"], "proxy.drain");
    assert_eq!(limit(&warden).await, 2);
    caller.create(CREATE).await;
    assert_eq!(caller.post("/sandboxes", CREATE).await.status, 429);

    // Lowered again: nobody is killed for it.
    site.write(&cube.url(), &limited(0, "[proxy]\ndrain = \"7s\""));
    warden.signal("HUP");
    while limit(&warden).await != 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((warden.held().await, cube.alive().len()), (2, 2));
    warden.stop().await;
}

#[tokio::test]
async fn what_needs_a_restart_keeps_its_value_and_is_named_at_each_reload() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), &limited(1, ""));
    let mut warden = site.ready().await;
    site.write("http://127.0.0.1:1", &limited(1, "[reconciler]\nsearch = \"7s\"\n[admission_]\n"));
    reload(&mut warden, "the configuration was not reloaded").await;
    site.write("http://127.0.0.1:1", &limited(1, "[reconciler]\nsearch = \"7s\""));
    let named = |line: &Value| {
        line["waiting"] == "upstream.url, reconciler.search"
            || line["waiting"] == "reconciler.search, upstream.url"
    };
    reload(&mut warden, "some settings that changed").await;
    warden.signal("HUP");
    while warden.log().iter().filter(|line| named(line)).count() < 2 {
        tokio::task::yield_now().await;
    }
    // Still before the old Cube.
    warden.caller().create(CREATE).await;
    assert_eq!(cube.alive().len(), 1);
    warden.stop().await;
}

#[tokio::test]
async fn a_reload_brings_a_tenant_and_takes_another_away() {
    use sha2::{Digest as _, Sha256};
    let cube = CubeSim::builder().start().await.unwrap();
    let tenant = |name: &str, key: &str| {
        let hash = hex::encode(Sha256::digest(key));
        format!("[[tenant]]\nname = \"{name}\"\nkeys_sha256 = [\"{hash}\"]\nbuckets = [\"{name}/prod\"]\n")
    };
    let site = Site::new(&cube.url(), &tenant("old", "e2b_01"));
    let mut warden = site.ready().await;
    let status = async |warden: &Serving, key: &str| {
        warden.caller().with("x-api-key", key).get("/sandboxes").await.status.as_u16()
    };
    assert_eq!((status(&warden, "e2b_01").await, status(&warden, "e2b_02").await), (200, 401));
    site.write(&cube.url(), &tenant("new", "e2b_02"));
    reload(&mut warden, "the configuration was reloaded").await;
    assert_eq!((status(&warden, "e2b_01").await, status(&warden, "e2b_02").await), (401, 200));
    let buckets = warden.operator().get("/v1/admin/buckets").await.json();
    assert_eq!(buckets["buckets"][0]["namespace"], "new");
    warden.stop().await;
}
