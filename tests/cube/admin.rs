//! The side door: everything the handle can do, as JSON over HTTP on a listener of its own.
//!
//! ```text
//! GET    /state                  version, clock, counters, faults, sandboxes
//! GET    /sandboxes              all that exist             GET /sandboxes/{id}
//! POST   /sandboxes              plant {"count": n, "id"?, "metadata"?, "timeout"?, "auto_pause"?, "auto_resume"?}
//! POST   /sandboxes/{id}/traffic somebody speaks to it now
//! POST   /sandboxes/{id}/state   {"state": "pausing"}
//! POST   /sandboxes/{id}/die
//! POST   /faults                 {"fault": "refuse", "status": 503, "body": "busy",
//!                                 "kind": "create", or "kinds": [..], "methods": ["POST"], "ids": [..], "times": 2} → its number
//! GET    /faults                 DELETE /faults            DELETE /faults/{number}
//! GET    /held?at_least=n        waits until so many requests are held
//! POST   /release                lets them go
//! POST   /overrun               {"writes": n} that nobody waits for hold a strained write path
//! POST   /clock                  {"advance_ms": n}; 409 on the machine's clock
//! POST   /tick                   sweeper and late work, now
//! GET    /requests               as received                DELETE /requests
//! GET    /high-water?key=value   the most ever alive or on their way, of those with these labels
//! POST   /forget                 all state is lost
//! POST   /restart  /stop  /start the API's listener; the side door stays
//! GET    /admin/last_active?since=ms   what CubeProxy's own admin listener answers, to who shows its token
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use cubewarden::time::Clock;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::faults::{NewRule, Rule};
use super::model;
use super::sim::{Alive, Handle};

type Sim = State<Handle>;
type Labels = BTreeMap<String, String>;

/// Serves the side door until dropped.
pub(super) async fn serve(handle: Handle, listener: TcpListener) {
    // Only ends with an error of the listener, which the next caller will notice.
    let _ended = axum::serve(listener, router(handle)).await;
}

fn router(handle: Handle) -> Router {
    Router::new()
        .route("/state", get(state))
        .route("/sandboxes", get(sandboxes).post(plant))
        .route("/sandboxes/{id}", get(sandbox))
        .route("/sandboxes/{id}/traffic", post(traffic))
        .route("/sandboxes/{id}/state", post(set_state))
        .route("/sandboxes/{id}/die", post(die))
        .route("/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/faults/{number}", delete(remove_fault))
        .route("/held", get(held))
        .route("/release", post(release))
        .route("/overrun", post(overrun))
        .route("/clock", post(advance))
        .route("/tick", post(tick))
        .route("/requests", get(requests).delete(forget_requests))
        .route("/high-water", get(high_water))
        .route("/forget", post(forget))
        .route("/restart", post(restart))
        .route("/stop", post(stop))
        .route("/start", post(start))
        .route("/admin/last_active", get(last_active))
        .with_state(handle)
}

#[derive(Deserialize)]
struct Plants {
    count: Option<usize>,
    #[serde(flatten)]
    plant: model::Plant,
}

#[derive(Deserialize)]
struct NewState {
    state: model::State,
}

#[derive(Deserialize)]
struct AtLeast {
    #[serde(default)]
    at_least: usize,
}

#[derive(Deserialize)]
struct Overrun {
    writes: u32,
}

#[derive(Deserialize)]
struct Advance {
    advance_ms: u64,
}

async fn state(State(sim): Sim) -> Json<Value> {
    let (requests, connections) = sim.counters();
    Json(json!({
        "profile": sim.profile().name(),
        "url": sim.url(),
        "admin": sim.admin_addr().map(|addr| format!("http://{addr}")),
        "manual_clock_ms": sim.clock().map(|clock| clock.now().0),
        "requests": requests,
        "connections": connections,
        "held": sim.held(),
        "writes_under_way": sim.writes_under_way(),
        "high_water": sim.high_water(&[]),
        "faults": fault_list(&sim),
        "sandboxes": sim.alive(),
    }))
}

fn fault_list(sim: &Handle) -> Vec<Value> {
    let entry =
        |(number, rule): (u64, Rule)| json!({ "number": number, "struck": sim.struck(number), "rule": rule });
    sim.faults().into_iter().map(entry).collect()
}

async fn sandboxes(State(sim): Sim) -> Json<Vec<Alive>> {
    Json(sim.alive())
}

async fn sandbox(State(sim): Sim, Path(id): Path<String>) -> Result<Json<Alive>, StatusCode> {
    sim.sandbox(&id).map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn plant(State(sim): Sim, Json(plants): Json<Plants>) -> Json<Vec<String>> {
    let bare = plants.plant.timeout.is_none() && plants.plant.id.is_none();
    Json(match plants.count {
        Some(count) if bare => sim.seed_sandboxes(count, &plants.plant.metadata),
        _ => vec![sim.plant(plants.plant)],
    })
}

async fn traffic(State(sim): Sim, Path(id): Path<String>) -> Json<model::Traffic> {
    Json(sim.traffic(&id))
}

async fn set_state(State(sim): Sim, Path(id): Path<String>, Json(new): Json<NewState>) -> StatusCode {
    found(sim.set_state(&id, new.state))
}

async fn die(State(sim): Sim, Path(id): Path<String>) -> StatusCode {
    found(sim.let_die(&id))
}

fn found(found: bool) -> StatusCode {
    if found { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

async fn faults(State(sim): Sim) -> Json<Vec<Value>> {
    Json(fault_list(&sim))
}

async fn add_fault(State(sim): Sim, Json(rule): Json<NewRule>) -> Json<u64> {
    Json(sim.fault(rule))
}

async fn clear_faults(State(sim): Sim) -> StatusCode {
    sim.clear_faults();
    StatusCode::NO_CONTENT
}

async fn remove_fault(State(sim): Sim, Path(number): Path<u64>) -> StatusCode {
    sim.remove_fault(number);
    StatusCode::NO_CONTENT
}

async fn held(State(sim): Sim, Query(wanted): Query<AtLeast>) -> Json<usize> {
    sim.until_held(wanted.at_least).await;
    Json(sim.held())
}

async fn release(State(sim): Sim) -> StatusCode {
    sim.release();
    StatusCode::NO_CONTENT
}

async fn overrun(State(sim): Sim, Json(by): Json<Overrun>) -> StatusCode {
    sim.overrun(by.writes);
    StatusCode::NO_CONTENT
}

async fn advance(State(sim): Sim, Json(by): Json<Advance>) -> StatusCode {
    match sim.advance(Duration::from_millis(by.advance_ms)) {
        Some(()) => StatusCode::NO_CONTENT,
        None => StatusCode::CONFLICT,
    }
}

async fn tick(State(sim): Sim) -> StatusCode {
    sim.tick();
    StatusCode::NO_CONTENT
}

async fn requests(State(sim): Sim) -> Json<Vec<super::server::Seen>> {
    Json(sim.requests())
}

async fn forget_requests(State(sim): Sim) -> StatusCode {
    sim.forget_requests();
    StatusCode::NO_CONTENT
}

async fn high_water(State(sim): Sim, Query(wanted): Query<Labels>) -> Json<usize> {
    let wanted: Vec<(&str, &str)> =
        wanted.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Json(sim.high_water(&wanted))
}

/// What `X-Cube-Admin-Token` must be.
pub(crate) const ADMIN_TOKEN: &str = "token-of-cubeproxy";

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
}

async fn last_active(
    State(sim): Sim,
    Query(Since { since }): Query<Since>,
    headers: http::HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    if headers.get("x-cube-admin-token").is_none_or(|token| token != ADMIN_TOKEN) {
        return Err(StatusCode::FORBIDDEN);
    }
    let entries = sim.last_active(since);
    Ok(Json(json!({ "now": sim.now(), "since": since, "count": entries.len(), "entries": entries })))
}

async fn forget(State(sim): Sim) -> StatusCode {
    sim.forget_everything();
    StatusCode::NO_CONTENT
}

async fn restart(State(sim): Sim) -> StatusCode {
    bound(&sim.restart().await)
}

async fn stop(State(sim): Sim) -> StatusCode {
    sim.stop().await;
    StatusCode::NO_CONTENT
}

async fn start(State(sim): Sim) -> StatusCode {
    bound(&sim.revive().await)
}

fn bound(result: &std::io::Result<()>) -> StatusCode {
    if result.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::CONFLICT }
}
