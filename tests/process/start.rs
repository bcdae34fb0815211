//! How a process begins, or says why it does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubewarden::store::embedded::Embedded;
use cubewarden::time::WallClock;

use super::program::{Site, complaint, run};
use crate::cube::CubeSim;
use crate::support::warden::before;

#[tokio::test]
async fn a_second_process_on_the_same_ledger_is_refused_and_told_what_to_do() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "");
    let first = site.ready().await;
    let second = site.run("serve", &[]);
    assert_eq!(second.status.code(), Some(1));
    let said = complaint(&second);
    assert!(said.contains("is in use by another process"), "{said}");
    assert!(said.contains("store.path") && said.lines().count() == 1, "{said}");
    assert_eq!(first.held().await, 0);
    first.stop().await;
}

#[test]
fn a_bad_configuration_prints_every_problem_and_exits_with_2() {
    let site =
        Site::new("http://127.0.0.1:1", "[admission]\nwiat = \"1s\"\nwait = \"90s\"\n[collector]\ncycle = 5")
            .env("CUBEWARDEN_MODE", "loud");
    for command in ["serve", "check"] {
        let output = site.run(command, &[]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in ["admission.wiat", "did you mean", "admission.wait", "collector.cycle", "CUBEWARDEN_MODE"]
        {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
        assert!(said.contains("cubewarden.toml") && said.lines().count() == 5, "{said}");
        assert!(!site.ledger().exists());
    }
}

#[test]
fn a_configuration_that_is_not_there_and_a_command_that_is_none_exit_with_2() {
    let output = run(&["serve", "--config", "/nowhere/cubewarden.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("read the configuration /nowhere/cubewarden.toml: No such file"));
    let output = run(&["check"], &[("CUBEWARDEN_CONFIG", "/nowhere/either.toml")]);
    assert!(complaint(&output).contains("/nowhere/either.toml"));
    assert_eq!(run(&["sevre"], &[]).status.code(), Some(2));
}

#[tokio::test]
async fn an_address_that_is_taken_is_named_with_its_key() {
    let cube = CubeSim::builder().start().await.unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (variable, key) in
        [("CUBEWARDEN_LISTEN_PROXY", "listen.proxy"), ("CUBEWARDEN_LISTEN_ADMIN", "listen.admin")]
    {
        let output = Site::new(&cube.url(), "").env(variable, &address).run("serve", &[]);
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("listen on {address} ({key}): Address already in use")), "{said}");
    }
}

#[tokio::test]
async fn a_warden_before_a_cube_that_is_not_there_serves_but_is_not_ready() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = Site::new(&format!("http://{nobody}"), "");
    let warden = site.serve().await;
    let ready = warden.operator().get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["upstream"]["up"]), (503, &serde_json::json!(false)));
    assert_eq!(warden.operator().get("/healthz").await.status, 200);
    assert_eq!(warden.caller().get("/health").await.status, 502);
    warden.stop().await;
}

#[tokio::test]
async fn the_admin_token_is_asked_for_on_the_admin_listener() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "[admin]\ntoken_env = \"ADMIN_TOKEN\"").env("ADMIN_TOKEN", "s3cret");
    let warden = site.ready().await;
    let operator = warden.operator();
    assert_eq!(operator.get("/v1/admin/buckets").await.status, 401);
    assert_eq!(operator.with("authorization", "Bearer s3cret").get("/v1/admin/buckets").await.status, 200);
    let head = operator.call("HEAD", "/healthz", None).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    warden.stop().await;
}

#[tokio::test]
async fn a_first_start_before_many_sandboxes_takes_them_in_with_few_syncs_of_the_disk() {
    let cube = CubeSim::builder().start().await.unwrap();
    cube.seed_sandboxes(1000, &BTreeMap::new());
    let store = Arc::new(Embedded::in_memory(Arc::new(WallClock)).unwrap());
    let warden = before(&cube.url()).store(store.clone()).without_tasks().start().await;
    warden.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(warden.held().await, 1000);
    let groups = store.groups();
    assert!(groups.batches >= 1000 && groups.groups * 4 < groups.batches, "{groups:?}");
}
