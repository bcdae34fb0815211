//! Whose key goes where: Cube's own, a tenant's, a client's that only Cube can judge.

use super::stage::{BODY, Stage, real, two_tenants};
use crate::cube::{CubeSim, Profile};
use crate::support::warden;

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
