//! What the operator sees of it.

use bytes::Bytes;
use http::{Request, Response};

use super::*;

async fn ask(world: &World, path: &str) -> Response<Bytes> {
    let request = Request::builder().uri(path).body(()).unwrap();
    world.warden.warden.admin.answer(&request.into_parts().0).await
}

async fn metric(world: &World, name: &str) -> String {
    let text = String::from_utf8(ask(world, "/metrics").await.into_body().to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[tokio::test]
async fn breaker_lanes_backlog_and_latency_are_to_be_seen_in_admin_and_metrics() {
    let world = world("").await;
    world.cube.fault(Fault::Slow { ms: 180 }.on(Kind::Create).times(1));
    let first = world.begin("POST", "/sandboxes".into(), Some(BODY));
    crate::support::until("it is on its way", || world.view().in_use[3] == 1).await;
    assert_eq!(metric(&world, r#"cubewarden_writes_in_flight{lane="create"}"#).await, "1");
    world.settle().await;
    world.cube.advance(180 * SECOND / 1000).unwrap();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(
        metric(&world, r#"cubewarden_create_latency_milliseconds{bucket="default/dev"}"#).await,
        "180"
    );
    world.break_creates().await;
    shut(&world.create().await);

    let body = ask(&world, "/v1/admin/breaker").await;
    assert_eq!(body.status(), 200);
    let body: serde_json::Value = serde_json::from_slice(body.body()).unwrap();
    assert_eq!(body["create"]["state"], "open", "{body}");
    assert_eq!(body["create"]["probe_due"], "2027-01-15T08:00:15.180Z", "{body}");
    assert_eq!(body["delete"], serde_json::json!({"state": "closed"}), "{body}");
    assert_eq!((&body["limit"], &body["recovering"]), (&8.into(), &false.into()), "{body}");
    assert_eq!(body["lanes"]["create"], serde_json::json!({"in_flight": 0, "waiting": 0}), "{body}");
    assert_eq!(ask(&world, "/v1/admin/breaker?x=1").await.status(), 400);

    assert_eq!(metric(&world, r#"cubewarden_breaker_state{path="create"}"#).await, "2");
    assert_eq!(
        metric(&world, r#"cubewarden_breaker_changes_total{change="opened",path="create"}"#).await,
        "1"
    );
    assert_eq!(metric(&world, "cubewarden_write_limit").await, "8");
    let refused = r#"cubewarden_refusals_total{bucket="default/dev",reason="WRITE_PATH_OPEN"}"#;
    assert_eq!(metric(&world, refused).await, "1");
}
