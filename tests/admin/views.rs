//! What the operator sees, and what nobody else does.

use serde_json::{Value, json};

use super::{TEMPLATE, ask, scrape, view};
use crate::cube::CubeSim;
use crate::support::http::Caller;
use crate::support::warden::{Running, before};

const CONFIG: &str = "[[bucket]]\nnamespace = \"shop\"\nenv = \"prod\"\nlimit = 7\n\
    [admission]\nglobal_limit = 90\n";

async fn start(config: &str) -> (CubeSim, Running) {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = before(&cube.url()).config(config).without_tasks().start().await;
    (cube, warden)
}

async fn create(caller: &Caller, metadata: &Value) -> String {
    caller.create(&json!({ "templateID": TEMPLATE, "timeout": 300, "metadata": metadata }).to_string()).await
}

#[tokio::test]
async fn buckets_show_limits_entries_and_what_lives_in_buckets_without_a_name() {
    let (_cube, warden) = start(CONFIG).await;
    let caller = warden.caller();
    create(&caller, &json!({ "namespace": "shop", "env": "prod" })).await;
    create(&caller, &json!({ "namespace": "strange", "env": "place" })).await;
    let body = view(&warden, "/v1/admin/buckets").await;
    let none =
        json!({ "reserved": 0, "dispatched": 0, "ambiguous": 0, "live": 0, "killing": 0, "quarantined": 0 });
    let mut one = none.clone();
    one["live"] = 1.into();
    let mut two = none.clone();
    two["live"] = 2.into();
    let named = |namespace: &str, env: &str, limit: Option<u32>, entries: &Value, held: u32| {
        json!({ "namespace": namespace, "env": env, "limit": limit, "entries": entries, "held": held,
                "paused": 0, "waiting": 0 })
    };
    let expected = json!({
        "buckets": [named("default", "dev", None, &none, 0), named("shop", "prod", Some(7), &one, 1)],
        "other": { "entries": one, "held": 1, "paused": 0 },
        "all": { "entries": two, "held": 2, "paused": 0, "limit": 90 },
        "foreign": 0,
    });
    assert_eq!(body, expected);
    let series = scrape(&warden).await;
    let live =
        |bucket: &str| series[&format!("cubewarden_entries{{bucket=\"{bucket}\",state=\"live\"}}")].as_str();
    assert_eq!((live("other"), live("shop/prod")), ("1", "1"));
    assert_eq!(series["cubewarden_bucket_limit{bucket=\"shop/prod\"}"], "7");
    assert_eq!(series["cubewarden_ledger_up"], "1");
}

#[tokio::test]
async fn a_sandbox_shows_every_documented_field_and_what_clients_wrote_as_data_only() {
    let (_cube, warden) = start(CONFIG).await;
    let nasty = "</script><script>\"'\u{7}\n";
    let id = create(&warden.caller(), &json!({ "project": "p", "run": "r", "note": nasty })).await;
    let body = view(&warden, "/v1/admin/sandboxes").await;
    let shown = &body["sandboxes"][0];
    let fields = [
        "sandbox_id",
        "marker",
        "bucket",
        "owner_id",
        "state",
        "generation",
        "colour",
        "reason",
        "tenant",
        "origin",
        "upstream",
        "host",
        "template",
        "cpu_milli",
        "memory_mib",
        "holders",
        "metadata",
        "operations",
        "hold",
        "kill",
        "gone",
        "asked_at",
        "dispatched_at",
        "first_seen_at",
        "last_sign_at",
        "paused_since",
        "deadline",
        "claim_until",
        "due_at",
        "released_at",
    ];
    assert_eq!(shown.as_object().unwrap().keys().collect::<Vec<_>>(), fields);
    assert_eq!(shown["sandbox_id"], id);
    assert_eq!((&shown["bucket"], &shown["owner_id"]), (&json!("default/dev"), &json!("default.dev.p.r")));
    assert_eq!((&shown["colour"], &shown["reason"]), (&json!("black"), &json!("deadline_ahead")));
    assert_eq!((&shown["state"], &shown["origin"]), (&json!("live"), &json!("created")));
    assert_eq!(shown["metadata"]["note"], nasty);
    assert!(shown["generation"].as_u64() > Some(1_700_000_000_000));
    assert!(shown["host"].is_string() && shown["deadline"].is_string());
    let answer = ask(&warden.warden.admin, "GET", "/v1/admin/sandboxes", &[]).await;
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    // A token of the sandbox, or our own bookkeeping about the answer, is nobody's business here.
    let text = String::from_utf8(answer.into_body().to_vec()).unwrap();
    for secret in ["trafficAccessToken", "envdAccessToken", "answer"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn sandboxes_are_filtered_and_paged_without_gaps_or_repeats() {
    let (_cube, warden) = start(CONFIG).await;
    let caller = warden.caller();
    for run in 0..7 {
        let id = create(
            &caller,
            &json!({ "namespace": "shop", "env": "prod", "project": "p", "run": run.to_string() }),
        )
        .await;
        if run == 0 {
            assert_eq!(caller.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
        }
    }
    create(&caller, &json!({})).await;
    let mut seen = Vec::new();
    let mut path = "/v1/admin/sandboxes?bucket=shop%2Fprod&limit=3".to_owned();
    let mut pages = 0;
    loop {
        let page = view(&warden, &path).await;
        pages += 1;
        let items = page["sandboxes"].as_array().unwrap().clone();
        seen.extend(items.into_iter().map(|item| item["marker"].as_str().unwrap().to_owned()));
        match page["next_after"].as_str() {
            Some(after) => path = format!("/v1/admin/sandboxes?bucket=shop/prod&limit=3&after={after}"),
            None => break,
        }
    }
    let mut distinct = seen.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((pages, seen.len(), &distinct), (3, 7, &seen));
    let count = async |query: &str| {
        view(&warden, &format!("/v1/admin/sandboxes?{query}")).await["sandboxes"].as_array().unwrap().len()
    };
    assert_eq!(count("").await, 8);
    assert_eq!(count("state=paused").await, 1);
    assert_eq!(count("state=live").await, 8);
    assert_eq!(count("state=killing").await, 0);
    assert_eq!(count("owner=shop.prod.p.3").await, 1);
    assert_eq!(count("owner=shop.prod.p.3&bucket=default/dev").await, 0);
    for bad in ["state=alive", "bucket=shop", "limit=0", "after=x", "stat=live", "owner=a%20b"] {
        let answer = ask(&warden.warden.admin, "GET", &format!("/v1/admin/sandboxes?{bad}"), &[]).await;
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(answer.status(), 400, "{bad}");
        let name = bad.split('=').next().unwrap();
        assert!(body["message"].as_str().unwrap().contains(name), "{bad}: {body}");
    }
}

#[tokio::test]
async fn the_log_is_read_by_what_it_is_about_and_an_entry_is_explained_by_any_of_its_names() {
    let (_cube, warden) = start(CONFIG).await;
    let caller = warden.caller();
    let (one, other) = (create(&caller, &json!({})).await, create(&caller, &json!({})).await);
    assert_eq!(caller.delete(&format!("/sandboxes/{one}")).await.status, 204);
    let all = view(&warden, "/v1/admin/decisions").await;
    let all = all["decisions"].as_array().unwrap();
    assert!(all.windows(2).all(|pair| pair[0]["sequence"].as_u64() < pair[1]["sequence"].as_u64()));
    let first = view(&warden, "/v1/admin/decisions?limit=1").await;
    let after = first["next_after"].as_u64().unwrap();
    let rest = view(&warden, &format!("/v1/admin/decisions?after={after}")).await;
    assert_eq!(rest["decisions"].as_array().unwrap().len() + 1, all.len());
    let about = view(&warden, &format!("/v1/admin/decisions?sandbox={one}&bucket=default/dev")).await;
    let kinds: Vec<_> =
        about["decisions"].as_array().unwrap().iter().map(|record| record["decision"].clone()).collect();
    assert_eq!(kinds.first(), Some(&json!("live")));
    assert_eq!(kinds.last(), Some(&json!("gone")));
    assert!(
        view(&warden, "/v1/admin/decisions?bucket=shop/prod").await["decisions"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    let dead = view(&warden, &format!("/v1/admin/explain/{one}")).await;
    assert_eq!(
        (&dead["sandbox"]["state"], &dead["sandbox"]["gone"]["proof"]),
        (&json!("gone"), &json!("deleted"))
    );
    assert_eq!((&dead["sandbox"]["colour"], &dead["sandbox"]["reason"]), (&json!("grey"), &json!("dead")));
    assert_eq!(dead["decisions"][0]["decision"], "admitted");
    let marker = dead["sandbox"]["marker"].as_str().unwrap();
    let same = view(&warden, &format!("/v1/admin/explain/{marker}")).await;
    assert_eq!((&same["sandbox"], &same["decisions"]), (&dead["sandbox"], &dead["decisions"]));
    assert_eq!((&dead["about"], &dead["verdict"]), (&json!("sandbox"), &json!("ended")));
    assert!(dead["branch"].as_str().unwrap().starts_with("client wanted its end"), "{dead}");
    let alive = view(&warden, &format!("/v1/admin/explain/{other}-node-0")).await;
    assert_eq!(alive["sandbox"]["sandbox_id"], other);
    for nobody in ["0".repeat(32), "x".to_owned(), String::new()] {
        let answer = ask(&warden.warden.admin, "GET", &format!("/v1/admin/explain/{nobody}"), &[]).await;
        assert_eq!(answer.status(), 404, "{nobody}");
    }
}

#[tokio::test]
async fn paths_methods_and_heads_are_answered_as_http_wants_it() {
    let (_cube, warden) = start(CONFIG).await;
    let admin = &warden.warden.admin;
    let known = [
        "/",
        "/console.js",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/admin/buckets",
        "/v1/admin/sandboxes",
        "/v1/admin/decisions",
    ];
    for path in known {
        let (get, head) = (ask(admin, "GET", path, &[]).await, ask(admin, "HEAD", path, &[]).await);
        assert_eq!(head.status(), get.status(), "{path}");
        assert_eq!(head.headers()["content-type"], get.headers()["content-type"], "{path}");
        assert!(head.body().is_empty() && head.headers().contains_key("content-length"), "{path}");
        for method in ["POST", "DELETE", "PUT"] {
            let answer = ask(admin, method, path, &[]).await;
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["allow"]),
                (405, &"GET, HEAD".parse().unwrap())
            );
        }
    }
    for path in ["/console", "/v1/admin", "/v1/admin/buckets/", "/sandboxes", "/healthz/x"] {
        for method in ["GET", "POST"] {
            let answer = ask(admin, method, path, &[]).await;
            let body: Value = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!((answer.status().as_u16(), &body["code"]), (404, &json!(404)), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn with_a_token_only_health_is_open() {
    let cube = CubeSim::builder().start().await.unwrap();
    let plan =
        before(&cube.url()).env("ADMIN_TOKEN", "s3cret").config("[admin]\ntoken_env = \"ADMIN_TOKEN\"");
    let warden = plan.without_tasks().start().await;
    let admin = &warden.warden.admin;
    for path in ["/metrics", "/v1/admin/buckets", "/v1/admin/sandboxes", "/v1/admin/decisions", "/nothing"] {
        for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("x-api-key", "s3cret")]] {
            let answer = ask(admin, "GET", path, headers).await;
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["www-authenticate"]),
                (401, &"Bearer".parse().unwrap())
            );
        }
    }
    assert_eq!(ask(admin, "GET", "/metrics", &[("authorization", "Bearer s3cret")]).await.status(), 200);
    assert_eq!(ask(admin, "GET", "/healthz", &[]).await.status(), 200);
}

#[tokio::test]
async fn a_warden_is_ready_when_ledger_and_cube_answer_and_says_which_does_not() {
    use crate::support::faulty_store::FaultyStore;
    use cubewarden::cli::warden::open_store;
    let cube = CubeSim::builder().start().await.unwrap();
    let clock: std::sync::Arc<dyn cubewarden::time::Clock> = std::sync::Arc::new(cubewarden::time::WallClock);
    let store = FaultyStore::wrap(open_store(&before(&cube.url()).settings().store, &clock).await.unwrap());
    let warden = before(&cube.url()).store(store.clone()).start().await;
    let admin = &warden.warden.admin;
    let ready = async || {
        let answer = ask(admin, "GET", "/readyz", &[]).await;
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(body["ready"], answer.status() == 200);
        body
    };
    while ready().await["ready"] != true {
        tokio::task::yield_now().await;
    }
    let body = ready().await;
    assert_eq!((&body["ledger"]["up"], &body["upstream"]["up"]), (&json!(true), &json!(true)));
    assert_eq!((&body["first_import_done"], &body["listing_off"]), (&json!(true), &Value::Null));
    assert_eq!((&body["corrupt_records"], &body["draining"]), (&json!(0), &json!(false)));
    store.down();
    let body = ready().await;
    assert_eq!((&body["ready"], &body["ledger"]["up"]), (&json!(false), &json!(false)));
    assert!(body["ledger"]["error"].as_str().unwrap().contains("unavailable"), "{body}");
    assert_eq!(scrape(&warden).await["cubewarden_ledger_up"], "0");
    assert_eq!(ask(admin, "GET", "/v1/admin/buckets", &[]).await.status(), 503);
    assert_eq!(ask(admin, "GET", "/healthz", &[]).await.status(), 200);
    store.heal();
    admin.drain();
    assert_eq!(ready().await["draining"], true);
}
