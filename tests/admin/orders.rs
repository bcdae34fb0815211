//! What an operator may order, and who may not.

use cubewarden::ids::Bucket;
use serde_json::{Value, json};

use super::{TEMPLATE, ask, order, view};
use crate::cube::CubeSim;
use crate::support::warden::{Running, before};

async fn start(config: &str) -> (CubeSim, Running) {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = before(&cube.url()).config(config).without_tasks().start().await;
    (cube, warden)
}

async fn create(warden: &Running) -> String {
    warden.caller().create(&json!({ "templateID": TEMPLATE, "timeout": 300 }).to_string()).await
}

/// What the log says of a sandbox: kind, actor and reason of each decision.
async fn decisions(warden: &Running, id: &str) -> Vec<(String, Value, Value)> {
    let log = view(warden, &format!("/v1/admin/decisions?sandbox={id}")).await;
    let records = log["decisions"].as_array().unwrap().iter();
    records
        .map(|record| {
            let kind = record["decision"].as_str().unwrap().to_owned();
            (kind, record["actor"].clone(), record["reason"].clone())
        })
        .collect()
}

#[tokio::test]
async fn an_operator_ends_a_sandbox_by_its_generation_or_by_force_with_a_reason() {
    let (cube, warden) = start("").await;
    let admin = &warden.warden.admin;
    let (one, other) = (create(&warden).await, create(&warden).await);
    let generation =
        view(&warden, &format!("/v1/admin/explain/{one}")).await["sandbox"]["generation"].clone();
    let kill = |id: &str| format!("/v1/admin/kill/{id}");
    for lacking in ["", "{}", r#"{"force":true}"#, r#"{"force":true,"reason":"  "}"#, r#"{"reason":"r"}"#] {
        assert_eq!(order(admin, &kill(&one), lacking, &[]).await.0, 400, "{lacking}");
    }
    for torn in ["[]", "{", "?", "\"x\""] {
        assert_eq!(order(admin, &kill(&one), torn, &[]).await.0, 400, "{torn}");
    }
    let (status, says) = order(admin, &kill(&one), r#"{"generation":1}"#, &[]).await;
    assert_eq!((status, &says["generation"]), (409, &generation), "{says}");
    assert_eq!(warden.held().await, 2, "a wrong generation ends nothing");

    let right = json!({ "generation": generation }).to_string();
    assert_eq!(order(admin, &kill(&one), &right, &[]).await.0, 202);
    let forced = r#"{"force":true,"reason":"it mines coins"}"#;
    let (status, says) = order(admin, &kill(&other), forced, &[]).await;
    assert_eq!((status, &says["result"]), (202, &json!("condemned")));
    warden.warden.tasks.tick_due().await.unwrap();
    warden.warden.finish().await;
    assert_eq!((warden.held().await, cube.sandbox(&one).is_none()), (0, true));
    let told = decisions(&warden, &other).await;
    assert!(told.contains(&("condemned".to_owned(), json!("operator"), json!("it mines coins"))), "{told:?}");
    assert_eq!(told.last().unwrap().0, "gone");
    assert_eq!(order(admin, &kill(&one), &right, &[]).await.0, 409, "dead already");
    assert_eq!(order(admin, &kill(&"0".repeat(32)), forced, &[]).await.0, 404);
}

#[tokio::test]
async fn a_hold_is_a_root_until_it_is_taken_back() {
    let (_cube, warden) = start("").await;
    let admin = &warden.warden.admin;
    let id = create(&warden).await;
    let path = |verb: &str| format!("/v1/admin/{verb}/{id}");
    assert_eq!(order(admin, &path("hold"), "{}", &[]).await.0, 400, "a hold has a reason");
    let long = json!({ "reason": "x".repeat(501) }).to_string();
    assert_eq!(order(admin, &path("hold"), &long, &[]).await.0, 400);
    assert_eq!(order(admin, &path("unhold"), "", &[]).await.1["result"], "already_so");
    let (status, says) = order(admin, &path("hold"), r#"{"reason":"evidence"}"#, &[]).await;
    assert_eq!((status, &says["result"]), (200, &json!("held")));
    assert_eq!(view(&warden, &path("explain")).await["sandbox"]["reason"], "held_by_operator");
    assert_eq!(order(admin, &path("unhold"), "", &[]).await.1["result"], "unheld");
    assert_eq!(view(&warden, &path("explain")).await["sandbox"]["reason"], "deadline_ahead");
    let kinds: Vec<_> = decisions(&warden, &id).await.into_iter().map(|told| told.0).collect();
    assert_eq!(kinds, ["live", "held", "unheld"]);
}

#[tokio::test]
async fn what_was_found_is_released_one_by_one_or_by_bucket() {
    let cube = CubeSim::builder().start().await.unwrap();
    let direct = crate::support::http::Caller::new(&cube.url());
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(direct.create(&json!({ "templateID": TEMPLATE, "timeout": 300 }).to_string()).await);
    }
    let warden = before(&cube.url()).without_tasks().start().await;
    warden.warden.tasks.tick_inventory().await.unwrap();
    let admin = &warden.warden.admin;
    let state =
        async |id: &str| view(&warden, &format!("/v1/admin/explain/{id}")).await["sandbox"]["origin"].clone();
    assert_eq!(state(&found[0]).await, "imported");
    let one = format!("/v1/admin/release/{}", found[0]);
    assert_eq!(order(admin, &one, "", &[]).await.1["result"], "released");
    assert_eq!(order(admin, &one, "", &[]).await.1["result"], "already_so");
    assert_eq!(order(admin, "/v1/admin/release", "", &[]).await.0, 400);
    let all = order(admin, "/v1/admin/release?bucket=default/dev", "", &[]).await;
    assert_eq!((all.0, &all.1["count"]), (200, &json!(2)));
    assert!(warden.entries().await.iter().all(|entry| entry.released.is_some()));
}

#[tokio::test]
async fn a_warden_that_only_watches_ends_nothing_for_an_operator_either() {
    let (_cube, warden) = start("mode = \"shadow\"\n").await;
    let id = create(&warden).await;
    let forced = r#"{"force":true,"reason":"r"}"#;
    let (status, says) = order(&warden.warden.admin, &format!("/v1/admin/kill/{id}"), forced, &[]).await;
    assert!(status == 409 && says["message"].as_str().unwrap().contains("only watches"), "{says}");
    assert!(warden.entries().await[0].usable());
}

#[tokio::test]
async fn orders_are_taken_from_operators_alone() {
    let cube = CubeSim::builder().start().await.unwrap();
    let paths = ["kill/x", "hold/x", "unhold/x", "release/x", "release?bucket=a/b", "drain"];
    let paths = paths.map(|path| format!("/v1/admin/{path}"));
    let token =
        before(&cube.url()).env("ADMIN_TOKEN", "s3cret").config("[admin]\ntoken_env = \"ADMIN_TOKEN\"");
    let tokened = token.without_tasks().start().await;
    let open =
        before(&cube.url()).env("CUBEWARDEN_LISTEN_ADMIN", "0.0.0.0:9300").without_tasks().start().await;
    let local = before(&cube.url()).without_tasks().start().await;
    for path in &paths {
        for headers in [&[][..], &[("authorization", "Bearer wrong")]] {
            assert_eq!(order(&tokened.warden.admin, path, "{}", headers).await.0, 401, "{path}");
        }
        assert_eq!(order(&open.warden.admin, path, "{}", &[]).await.0, 403, "{path}: reachable, no token");
        let page = [("origin", "http://evil.example")];
        assert_eq!(order(&local.warden.admin, path, "{}", &page).await.0, 403, "{path}: from a page");
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            let answer = ask(&local.warden.admin, method, path, &[]).await;
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["allow"]),
                (405, &"POST".parse().unwrap())
            );
        }
    }
    let bearer = [("authorization", "Bearer s3cret")];
    assert_eq!(order(&tokened.warden.admin, "/v1/admin/hold/x", r#"{"reason":"r"}"#, &bearer).await.0, 404);
    assert_eq!(order(&local.warden.admin, "/v1/admin/drain", "", &[]).await.0, 202);
    assert_eq!(ask(&local.warden.admin, "GET", "/readyz", &[]).await.status(), 503);
}

#[tokio::test]
async fn a_flood_of_refusals_does_not_crowd_out_who_ended_a_sandbox() {
    let (_cube, warden) =
        start("[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 1\n[admission]\nwait = \"0s\"\n")
            .await;
    let caller = warden.caller().with("x-request-id", "req-1");
    let id = create(&warden).await;
    let refused = caller.post("/sandboxes", &json!({ "templateID": TEMPLATE }).to_string()).await;
    assert_eq!(refused.status, 429);
    assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    for _ in 0..40 {
        warden.warden.ledger.note(cubewarden::ledger::Decision::new("refused", "RATE_LIMITED"));
        warden.warden.ledger.write_notes().await.unwrap();
    }
    let day = std::time::Duration::from_secs(86_400);
    warden.warden.ledger.trim_decisions(cubewarden::ledger::Log::Calls, 5, day).await.unwrap();
    let log = view(&warden, "/v1/admin/decisions").await["decisions"].clone();
    let log = log.as_array().unwrap();
    assert_eq!(log.iter().filter(|record| record["decision"] == "refused").count(), 5);
    let condemned = log.iter().find(|record| record["decision"] == "condemned").unwrap();
    assert_eq!((&condemned["actor"], &condemned["request_id"]), (&json!("client"), &json!("req-1")));
    let print = condemned["policy"].as_str().unwrap();
    let policies = &warden.warden.governor.settings().policies;
    assert_eq!(print, policies.of(&Bucket::parse("default/dev").unwrap()).fingerprint());
    assert!(log.iter().any(|record| record["decision"] == "gone"));
}
