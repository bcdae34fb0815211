//! Whose key goes where: Cube's own, a tenant's, a client's that only Cube can judge.

use std::time::Duration;

use super::stage::{BODY, Stage, path, real, timed, two_tenants};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile};
use crate::support::{until, warden};

/// A warden that has Cube's own key.
async fn with_cubes_key(config: &str) -> Stage {
    let mut stage = real(Profile::V070, config).await;
    let builder = warden::before(&stage.cube.url()).config(config).env("KEY_OF_CUBE", "cube-key");
    stage.warden = builder.env("CUBEWARDEN_UPSTREAM_API_KEY_ENV", "KEY_OF_CUBE").start().await;
    stage
}

/// The values of a header in what Cube was asked by this method and path.
fn headers(cube: &CubeSim, method: &str, path: &str, name: &str) -> Vec<String> {
    let requests = cube.requests().into_iter();
    let ours = requests.filter(|seen| seen.head.method == method && seen.head.target == path);
    let fields = ours.flat_map(|seen| seen.head.headers);
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[tokio::test]
async fn a_tenants_key_does_not_go_to_cube_with_what_is_open_to_all() {
    let stage = with_cubes_key(&two_tenants()).await;
    let caller = stage.a().with("authorization", "Bearer e2b_aa");
    assert_eq!(caller.get("/health").await.status, 200);
    caller.call("OPTIONS", "/sandboxes", None).await;
    for (method, path) in [("GET", "/health"), ("OPTIONS", "/sandboxes")] {
        for name in ["x-api-key", "authorization"] {
            let values = headers(&stage.cube, method, path, name);
            assert!(!values.iter().any(|value| value.contains("e2b_aa")), "{method} {path}: {values:?}");
        }
    }
}

#[tokio::test]
async fn a_bearer_beside_an_empty_key_is_what_identifies_and_goes_on() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let caller = stage.warden.caller().with("x-api-key", "").with("authorization", "Bearer e2b_aa");
    caller.create(BODY).await;
    assert_eq!(headers(&stage.cube, "POST", "/sandboxes", "authorization"), ["Bearer e2b_aa"]);
    stage.balance(1).await;
}

/// An open warden without Cube's key before a Cube that wants one; the sandbox is there.
async fn before_a_locked_cube() -> (Stage, String) {
    let mut stage = timed(Profile::V070, "").await;
    stage.cube = CubeSim::builder()
        .profile(Profile::V070)
        .clock(stage.clock.clone())
        .api_key("good")
        .start()
        .await
        .unwrap();
    stage.warden = warden::before(&stage.cube.url()).clock(&stage.clock).without_tasks().start().await;
    let create = stage.warden.caller_with("good").with("idempotency-key", "k1");
    let id = create.create(BODY).await;
    (stage, id)
}

#[tokio::test]
async fn a_key_that_cube_does_not_take_ends_nothing_and_is_shown_nothing() {
    let (stage, id) = before_a_locked_cube().await;
    let (good, wrong) = (stage.warden.caller_with("good"), stage.warden.caller_with("wrong"));
    let zero = r#"{"timeout":0}"#;
    for answer in [wrong.delete(&path(&id, "")).await, wrong.post(&path(&id, "/timeout"), zero).await] {
        assert_eq!(answer.status, 401, "{answer:?}");
        assert!(answer.text("message").contains("Invalid API key"), "in Cube's own words: {answer:?}");
    }
    let repeat = wrong.with("idempotency-key", "k1").post("/sandboxes", BODY).await;
    assert_eq!(repeat.status, 401, "{repeat:?}");
    assert_eq!(stage.states().await, ["live"]);
    assert_eq!(good.get(&path(&id, "")).await.status, 200);
    assert_eq!(good.with("idempotency-key", "k1").create(BODY).await, id);
    // Without any key it is the same, once Cube is known to want one.
    stage.inventory().await;
    assert_eq!(stage.warden.caller().delete(&path(&id, "")).await.status, 401);
    assert_eq!(stage.states().await, ["live"]);
    assert_eq!(stage.times(&format!("DELETE /sandboxes/{id}")), 0);
    assert_eq!(good.delete(&path(&id, "")).await.status, 204);
    stage.balance(0).await;
}

#[tokio::test]
async fn what_was_lent_for_a_kill_outlives_a_wish_that_comes_to_nothing() {
    let (stage, id) = before_a_locked_cube().await;
    let no = Fault::Refuse { status: 500, body: r#"{"code":500,"message":"no"}"#.into(), retry_after: None };
    let fault = stage.cube.fault(no.on(Kind::Delete).times(1));
    let (caller, route) = (stage.warden.caller_with("good"), path(&id, ""));
    let delete = tokio::spawn(async move { caller.delete(&route).await });
    until("it failed", || stage.cube.struck(fault) == 1).await;
    stage.until_due(Duration::from_secs(2)).await;
    let stale = stage.warden.caller_with("good").delete(&path(&id, "-gmx22x1lw")).await;
    assert_eq!(stale.status, 404, "{stale:?}");
    stage.skip(Duration::from_secs(2));
    assert_eq!(delete.await.unwrap().status, 204);
    stage.balance(0).await;
}
