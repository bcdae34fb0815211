//! A sandbox's whole life through the warden, in front of each Cube.

use crate::cube::{CubeSim, Profile};
use crate::support::{until, warden};

#[tokio::test]
async fn a_sandbox_lives_and_dies_through_the_warden_on_every_cube() {
    for profile in [Profile::V051, Profile::V060, Profile::V070] {
        let cube = CubeSim::builder().profile(profile).start().await.expect("a simulator starts");
        let warden = warden::before(&cube.url()).start().await;
        let caller = warden.caller();
        let body = r#"{"templateID":"tpl-000000000000000000000001","timeout":300,"metadata":{"a":"b c"}}"#;
        let id = caller.create(body).await;
        assert_eq!(warden.held().await, 1);
        let metadata = &cube.alive()[0].metadata;
        assert_eq!(metadata["a"], "b c");
        assert_eq!(metadata["namespace"], "default");
        assert_eq!(metadata["managed_by"], "cubewarden");
        let shown = caller.get(&format!("/sandboxes/{id}")).await;
        assert_eq!((shown.status.as_u16(), shown.text("sandboxID")), (200, id.clone()));
        assert_eq!(caller.get("/v2/sandboxes").await.json().as_array().map(Vec::len), Some(1));
        let timeout = caller.post(&format!("/sandboxes/{id}/timeout"), r#"{"timeout":60}"#).await;
        assert_eq!(timeout.status, 204);
        assert_eq!(caller.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
        let connect = caller.post(&format!("/v2/sandboxes/{id}/connect"), r#"{"timeout":90}"#).await;
        assert_eq!(connect.status, 200, "{profile:?} {connect:?}");
        assert_eq!(caller.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204, "{profile:?}");
        assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 404, "{profile:?}");
        assert!(cube.alive().is_empty());
        until("the slot is back", || true).await;
        assert_eq!(warden.held().await, 0);
        let v2 = caller.post("/v2/sandboxes", body).await;
        assert_eq!(v2.status, 201, "{profile:?} {v2:?}");
    }
}
