//! A reload while calls come in: each ends by the settings that it came under, and rates that stay the same go on.

use bytes::Bytes;
use cubewarden::calls::seam::{Caller, Calls as _, Reply, Route};
use http::Request;

use super::stage::{BODY, Stage, real, refused, two_tenants};
use crate::cube::Profile;
use crate::support::warden;

fn reload(stage: &Stage, config: &str) {
    stage.warden.warden.reload(&warden::before(&stage.cube.url()).config(config).settings());
}

/// A create of tenant a, routed under the settings in force and called under those of `config`.
async fn create_across(stage: &Stage, path: &str, config: &str) -> u16 {
    let request =
        Request::post(path).header("x-api-key", "e2b_aa").header("content-type", "application/json");
    let (mut head, ()) = request.body(()).unwrap().into_parts();
    let governor = &stage.warden.warden.governor;
    assert!(matches!(governor.route(&mut head), Route::Govern { .. }));
    reload(stage, config);
    let (_waiting, caller) = Caller::pair();
    match governor.call(head, Bytes::from_static(BODY.as_bytes()), caller).await {
        Reply::Answer(answer) => answer.status().as_u16(),
        Reply::Forward(..) => 0,
    }
}

#[tokio::test]
async fn a_call_ends_by_the_settings_that_it_came_under() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let b_only = two_tenants().split("[[tenant]]").last().map(|b| format!("[[tenant]]{b}")).unwrap();
    for later in [b_only.as_str(), "mode = \"transparent\"\n", "mode = \"shadow\"\n"] {
        reload(&stage, &two_tenants());
        assert_eq!(create_across(&stage, "/sandboxes", later).await, 201, "{later}");
    }
    let buckets: Vec<String> =
        stage.warden.entries().await.iter().map(|entry| entry.bucket.to_string()).collect();
    assert_eq!(buckets, ["a/prod"; 3]);
    assert!(stage.created().iter().all(|body| body.contains("cw_marker")), "governed to the end");
    stage.balance(3).await;
    reload(&stage, &b_only);
    refused(&stage.a().get("/sandboxes").await, 401, "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_call_that_came_in_shadow_or_transparent_mode_is_not_governed_by_a_reload() {
    let stage = real(Profile::V070, "mode = \"shadow\"\n").await;
    assert_eq!(create_across(&stage, "/sandboxes", &two_tenants()).await, 201);
    reload(&stage, "mode = \"transparent\"\n");
    assert_eq!(create_across(&stage, "/v2/sandboxes", &two_tenants()).await, 0, "as v1, straight on");
    assert!(stage.created().iter().all(|body| body == BODY));
}

#[tokio::test]
async fn a_rate_goes_on_through_a_reload_that_leaves_it_as_it_was() {
    let rate = |rate| format!("[bucket_defaults]\ncreates_per_minute = {rate}\ncreate_burst = {rate}\n");
    let stage = real(Profile::V070, &rate(1)).await;
    let caller = stage.warden.caller();
    caller.create(BODY).await;
    refused(&caller.post("/sandboxes", BODY).await, 429, "RATE_LIMITED");
    reload(&stage, &rate(1));
    refused(&caller.post("/sandboxes", BODY).await, 429, "RATE_LIMITED");
    reload(&stage, &rate(2));
    caller.create(BODY).await;
    stage.balance(2).await;
}

#[tokio::test]
async fn buckets_that_clients_think_of_share_one_rate() {
    let rate = "[bucket_defaults]\ncreates_per_minute = 2\ncreate_burst = 2\n\
                [[bucket]]\nnamespace = \"own\"\nenv = \"dev\"\n";
    let stage = real(Profile::V070, rate).await;
    let of = |name: &str| stage.warden.caller().with("x-cube-namespace", name).with("x-cube-env", "dev");
    of("x1").create(BODY).await;
    of("x2").create(BODY).await;
    refused(&of("x3").post("/sandboxes", BODY).await, 429, "RATE_LIMITED");
    of("own").create(BODY).await;
    of("own").create(BODY).await;
    refused(&of("own").post("/sandboxes", BODY).await, 429, "RATE_LIMITED");
    stage.balance(4).await;
}
