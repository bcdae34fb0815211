//! What operators are told: events in order, once each, to a webhook too; gauges and the plan.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use cubewarden::telemetry::events::signature;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;

use super::{SECOND, world};
use crate::cube::Profile;
use crate::cube::model::Plant;

/// What a webhook received; its first answer is a failure.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Vec<(String, String)>>>);

async fn take(State(hook): State<Hook>, headers: HeaderMap, body: String) -> StatusCode {
    let signed = headers["x-cubewarden-signature"].to_str().unwrap().to_owned();
    let mut taken = hook.0.lock().unwrap();
    taken.push((signed, body));
    if taken.len() == 1 { StatusCode::BAD_GATEWAY } else { StatusCode::NO_CONTENT }
}

impl Hook {
    async fn listen() -> (Self, String) {
        let hook = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?a=b", listener.local_addr().unwrap());
        let router = Router::new().route("/hook", post(take)).with_state(hook.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (hook, url)
    }

    fn events(&self) -> Vec<Value> {
        self.0.lock().unwrap().iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_webhook_is_told_each_thing_once_signed_and_again_if_it_did_not_take_it() {
    let (hook, url) = Hook::listen().await;
    let config = format!(
        "webhook_url = \"{url}\"\nwebhook_secret_env = \"HOOK\"\n[bucket_defaults]\nretention = \"10m\"\n\
         [[bucket]]\nnamespace = \"kept\"\nenv = \"dev\"\nretention = \"0s\"\n"
    );
    let mut world = world(Profile::V060, "").await;
    world.config.push_str(&config);
    let builder = crate::support::warden::before(&world.cube.url()).config(&world.config);
    world.warden = builder.env("HOOK", "secret").clock(&world.clock).without_tasks().start().await;
    world.create(300, "pause").await;
    let kept = world.warden.caller().with("x-cube-namespace", "kept").with("x-cube-env", "dev");
    kept.create(&super::body(300, "pause")).await;
    world.cube.plant(Plant { timeout: None, ..Plant::default() });
    world.cycles(25).await;
    let wanted = ["foreign", "about_to_be_collected", "collected", "kept_though_rootless"];
    // The webhook's patience is counted on the same clock.
    for _ in 0..2000 {
        if hook.events().len() > wanted.len() {
            break;
        }
        world.cube.advance(SECOND / 10).unwrap();
        cubewarden::time::Clock::sleep(&cubewarden::time::WallClock, Duration::from_millis(5)).await;
    }
    let events = hook.events();
    assert_eq!(events[0], events[1], "the first was not taken, and came again");
    let mut kinds: Vec<&str> = events[1..].iter().map(|event| event["event"].as_str().unwrap()).collect();
    let at =
        |kind: &str| kinds.iter().position(|one| *one == kind).unwrap_or_else(|| panic!("{kind}: {kinds:?}"));
    assert!(at("about_to_be_collected") < at("collected"));
    kinds.sort_unstable();
    let mut expected = wanted.to_vec();
    expected.sort_unstable();
    assert_eq!(kinds, expected, "each once");
    for (signed, body) in hook.0.lock().unwrap().iter() {
        assert_eq!(*signed, format!("sha256={}", signature(b"secret", body.as_bytes())));
    }
    let kept = events.iter().find(|event| event["event"] == "kept_though_rootless").unwrap();
    assert_eq!((&kept["bucket"], &kept["count"]), (&"kept/dev".into(), &1.into()));
}

#[tokio::test]
async fn the_plan_names_who_ends_next_and_gauges_show_what_nothing_keeps_and_what_differs() {
    let world = world(Profile::V060, "[bucket_defaults]\nretention = \"10m\"\n").await;
    let id = world.create(300, "pause").await;
    let mut planned = None;
    for _ in 0..30 {
        world.cycles(1).await;
        let plan = world.admin("/v1/admin/plan").await;
        if let Some(end) = plan["ends"].get(0) {
            planned = Some(end.clone());
        }
        if !world.is_there(&id) {
            break;
        }
    }
    assert!(!world.is_there(&id));
    let planned = planned.unwrap();
    assert_eq!((&planned["sandbox_id"], &planned["reason"]), (&id.as_str().into(), &"retention".into()));
    assert!(planned["lasted_seconds"].as_u64() > planned["allowed_seconds"].as_u64(), "{planned}");
    assert!((world.metric("cubewarden_collected_total{reason=\"retention\"}").await - 1.0).abs() < 0.1);
    assert!((world.metric("cubewarden_listing_verdict{verdict=\"trusted\"}").await - 1.0).abs() < 0.1);
    assert!((world.metric("cubewarden_collector_leader").await - 1.0).abs() < 0.1);
    for kind in ["charged_not_shown", "shown_not_charged"] {
        let series = format!("cubewarden_drift{{kind=\"{kind}\"}}");
        assert!(world.metric(&series).await.abs() < 0.1, "{kind}: healthy is zero");
    }
    let sweep = world.admin("/v1/admin/collector").await["last_sweep"].clone();
    assert_eq!((&sweep["planned"], &sweep["condemned"], &sweep["kept"]), (&1.into(), &1.into(), &0.into()));
}

/// Whoever renews its own lease for ever lives for ever, unless its bucket has a longest life.
#[tokio::test]
async fn the_longest_life_ends_also_who_beats_for_ever_and_says_so_a_cycle_before() {
    let world = world(Profile::V060, "[bucket_defaults]\nmax_age = \"1h\"\n").await;
    let lease = world.lease("default/dev", "run", 3600).await;
    let id = lease.text("sandbox_id");
    let mut minutes = 0;
    while world.is_there(&id) && minutes < 90 {
        world.beat(&lease).await;
        world.cycles(1).await;
        minutes += 1;
        let near = world.metric("cubewarden_events_total{event=\"about_to_be_collected\"}").await;
        assert!(world.is_there(&id) || near > 0.5, "it was announced before");
    }
    assert!((60..=63).contains(&minutes), "after {minutes} minutes");
    assert!((world.metric("cubewarden_collected_total{reason=\"max_age\"}").await - 1.0).abs() < 0.1);
}
