//! The handle and the side door: what a test may rely on when it steers a simulator.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::raw::{ask, call, until};
use crate::cube::ask::Kind;
use crate::cube::{CubeSim, Latency, Profile};

const TEMPLATE: &str = "tpl-000000000000000000000001";

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

async fn create(sim: &CubeSim, metadata: Value) -> String {
    let body = json!({ "templateID": TEMPLATE, "metadata": metadata });
    let answer = call(sim.addr(), "POST", "/sandboxes", body).await;
    answer.json()["sandboxID"].as_str().expect("created").to_owned()
}

#[tokio::test]
async fn the_same_seed_and_requests_give_the_same_bytes() {
    let mut runs = Vec::new();
    for seed in [3, 3, 4] {
        let clock = ManualClock::at(UnixMillis(1_795_957_013_000));
        let sim = CubeSim::builder().clock(clock).seed(seed).start().await.expect("a free port");
        create(&sim, json!({ "a": "1", "b": "2" })).await;
        runs.push(call(sim.addr(), "GET", "/v2/sandboxes", Value::Null).await.body);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn requests_are_remembered_with_the_case_and_order_of_their_headers_and_their_raw_body() {
    let sim = CubeSim::builder().memory(2).start().await.expect("a free port");
    let chunked = "POST /sandboxes?x=1 HTTP/1.1\r\nhOSt: a\r\nX-Two: 1\r\nContent-Type: application/json\r\n\
                   x-two: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"t\r\n4\r\n\":1}\r\n0\r\n\r\n";
    let pipelined = "GET /health HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n";
    ask(sim.addr(), b"GET /nope HTTP/1.1\r\nHost: forgotten\r\n\r\n").await;
    let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
    tcp.write_all(format!("{chunked}{pipelined}").as_bytes()).await.expect("it reads");
    let mut answers = String::new();
    tcp.read_to_string(&mut answers).await.expect("it answers and closes");

    let [first, second]: [_; 2] = sim.requests().try_into().expect("two are remembered");
    assert_eq!((first.head.method.as_str(), first.head.target.as_str()), ("POST", "/sandboxes?x=1"));
    let names: Vec<&str> = first.head.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hOSt", "X-Two", "Content-Type", "x-two", "Transfer-Encoding"]);
    assert_eq!(first.body, r#"{"t":1}"#);
    assert_eq!((second.head.target.as_str(), second.number), ("/health", 3));
    assert_eq!((first.connection, second.connection), (2, 2));
    assert_eq!(sim.counters(), (3, 2));
    sim.forget_requests();
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn high_water_is_the_most_ever_open_at_once_for_any_labels() {
    let sim = CubeSim::builder().start().await.expect("a free port");
    let first = create(&sim, json!({ "namespace": "a", "env": "dev" })).await;
    create(&sim, json!({ "namespace": "a", "env": "prod" })).await;
    call(sim.addr(), "DELETE", &format!("/sandboxes/{first}"), Value::Null).await;
    let third = create(&sim, json!({ "namespace": "a", "env": "dev" })).await;
    assert!(sim.let_die(&third));
    assert_eq!(sim.high_water(&[("namespace", "a"), ("env", "dev")]), 1);
    assert_eq!(sim.high_water(&[("namespace", "a")]), 2);
    assert_eq!(sim.high_water(&[("namespace", "b")]), 0);
}

#[tokio::test]
async fn a_restart_loses_connections_and_keeps_state_and_address_and_forgetting_is_the_reverse() {
    let sim = CubeSim::builder().start().await.expect("a free port");
    let id = create(&sim, json!({})).await;
    let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
    sim.stop().await;
    assert_eq!(tcp.read(&mut [0; 8]).await.unwrap_or(0), 0, "the connection is lost");
    assert!(TcpStream::connect(sim.addr()).await.is_err(), "nobody listens");
    sim.revive().await.expect("the address is still ours");
    sim.restart().await.expect("the address is still ours");
    let path = format!("/sandboxes/{id}");
    assert_eq!(call(sim.addr(), "GET", &path, Value::Null).await.code(), 200);
    sim.forget_everything();
    assert_eq!(call(sim.addr(), "GET", &path, Value::Null).await.code(), 404);
}

#[tokio::test]
async fn a_dropped_simulator_no_longer_listens() {
    let sim = CubeSim::builder().start().await.expect("a free port");
    let addr = sim.addr();
    drop(sim);
    let refused = || std::net::TcpStream::connect(addr).is_err();
    until("it is gone", refused).await;
}

#[tokio::test]
async fn a_static_key_is_taken_from_either_header_and_the_bearer_wins() {
    let sim = CubeSim::builder().api_key("good").start().await.expect("a free port");
    let with = |headers: &str| format!("GET /sandboxes HTTP/1.1\r\nHost: x\r\n{headers}\r\n").into_bytes();
    for (headers, code) in [
        ("X-API-Key: good\r\n", 200),
        ("Authorization: Bearer good\r\n", 200),
        ("Authorization: Bearer good\r\nX-API-Key: bad\r\n", 200),
        ("Authorization: Bearer bad\r\nX-API-Key: good\r\n", 401),
        ("", 401),
    ] {
        let answer = ask(sim.addr(), &with(headers)).await;
        assert_eq!(answer.code(), code, "{headers:?}");
    }
    let wrong = ask(sim.addr(), &with("X-API-Key: bad\r\n")).await;
    assert_eq!(wrong.body, r#"{"code":401,"message":"Invalid API key or token"}"#);
}

#[tokio::test]
async fn what_cube_has_and_the_simulator_has_not_is_501_with_the_name_of_the_route() {
    let sim = CubeSim::builder().profile(Profile::V051).start().await.expect("a free port");
    let nodes = call(sim.addr(), "GET", "/cubeapi/v1/nodes", Value::Null).await;
    assert_eq!(nodes.body, r#"{"code":501,"message":"cube-sim does not model /nodes"}"#);
    let build = call(sim.addr(), "GET", "/templates/t/builds/b/logs", Value::Null).await;
    assert_eq!(build.code(), 501);
}

#[test]
fn a_create_on_a_node_has_its_median_at_180_and_its_95th_percentile_at_210_milliseconds() {
    let at = |thousandth| Latency::Node.sample(Kind::Create, thousandth).as_millis();
    assert_eq!((at(500), at(950)), (180, 210));
    assert!(at(0) < at(250) && at(250) < at(500) && at(999) > at(950));
    assert_eq!(Latency::None.sample(Kind::Create, 999).as_millis(), 0);
}

/// The side door, called as a person would with curl.
struct Door(SocketAddr);

impl Door {
    async fn get(&self, path: &str) -> Value {
        let answer = self.call("GET", path, Value::Null).await;
        serde_json::from_str(&answer).unwrap_or(Value::String(answer))
    }

    /// The body of the answer; its status if there is none.
    async fn call(&self, method: &str, path: &str, body: Value) -> String {
        let answer = call(self.0, method, path, body).await;
        if answer.body.is_empty() { answer.code().to_string() } else { answer.body }
    }
}

/// A simulator with a side door and a clock of its own.
async fn with_door() -> (CubeSim, Door) {
    let clock = ManualClock::at(UnixMillis(1_795_957_013_000));
    let builder = CubeSim::builder().listen(anywhere()).admin(anywhere()).latency(Latency::None);
    let sim = builder.clock(clock).start().await.expect("free ports");
    let door = Door(sim.admin_addr().expect("it is open"));
    (sim, door)
}

#[tokio::test]
async fn the_side_door_plants_and_moves_sandboxes() {
    let (sim, door) = with_door().await;
    let many = json!({ "count": 3, "metadata": { "owner": "bob" } });
    assert_eq!(door.call("POST", "/sandboxes", many).await.matches('"').count(), 6, "three ids");
    let id = "0123456789abcdef0123456789abcdef";
    let one = json!({ "id": id, "timeout": 60, "auto_pause": true, "auto_resume": true });
    assert_eq!(door.call("POST", "/sandboxes", one).await, format!("[\"{id}\"]"));

    assert_eq!(door.call("POST", "/clock", json!({ "advance_ms": 60_000 })).await, "204");
    let path = format!("/sandboxes/{id}");
    assert_eq!(door.get(&path).await["state"], "paused");
    assert_eq!(door.call("POST", &format!("{path}/traffic"), Value::Null).await, r#""woken""#);
    let pausing = json!({ "state": "pausing" });
    assert_eq!(door.call("POST", &format!("{path}/state"), pausing).await, "204");
    assert_eq!(door.call("POST", &format!("{path}/die"), Value::Null).await, "204");
    assert_eq!(door.call("POST", &format!("{path}/die"), Value::Null).await, "404");
    assert_eq!(door.get("/high-water?owner=bob").await, 3);
    let seeded = sim.seed_sandboxes(2, &BTreeMap::new());
    assert_eq!(door.get("/sandboxes").await.as_array().map(Vec::len), Some(3 + seeded.len()));
    assert_eq!(door.call("POST", "/forget", Value::Null).await, "204");
    assert_eq!(door.get("/sandboxes").await, json!([]));
}

#[tokio::test]
async fn the_side_door_sets_faults_and_releases_what_they_hold() {
    let (sim, door) = with_door().await;
    let rule = json!({ "fault": "refuse", "status": 503, "body": "", "kind": "create", "kinds": ["get"],
                       "methods": ["POST", "GET"], "ids": [], "times": 1 });
    assert_eq!(door.call("POST", "/faults", rule).await, "1");
    let held = json!({ "fault": "hold", "done": false, "kind": "health" });
    assert_eq!(door.call("POST", "/faults", held).await, "2");
    let body = json!({ "templateID": TEMPLATE });
    assert_eq!(call(sim.addr(), "POST", "/sandboxes", body).await.code(), 503);
    assert_eq!(door.get("/faults").await[0]["struck"], 1);
    let steer = async {
        assert_eq!(door.get("/held?at_least=1").await, 1);
        door.call("POST", "/release", Value::Null).await
    };
    let (health, released) = tokio::join!(call(sim.addr(), "GET", "/health", Value::Null), steer);
    assert_eq!((health.code(), released.as_str()), (200, "204"));
    assert_eq!(door.call("DELETE", "/faults/2", Value::Null).await, "204");
    assert_eq!(door.call("DELETE", "/faults", Value::Null).await, "204");
    assert_eq!(door.get("/faults").await, json!([]));
}

#[tokio::test]
async fn the_side_door_shows_what_was_received_and_restarts_the_listener() {
    let (sim, door) = with_door().await;
    call(sim.addr(), "GET", "/health", Value::Null).await;
    assert_eq!(door.get("/requests").await[0]["head"]["target"], "/health");
    assert_eq!(door.call("DELETE", "/requests", Value::Null).await, "204");
    assert_eq!(door.get("/requests").await, json!([]));
    for verb in ["/tick", "/restart", "/stop", "/start"] {
        assert_eq!(door.call("POST", verb, Value::Null).await, "204", "{verb}");
    }
    assert_eq!(call(sim.addr(), "GET", "/health", Value::Null).await.code(), 200);
    let state = door.get("/state").await;
    assert_eq!(
        (&state["profile"], &state["requests"], &state["url"]),
        (&json!("v070"), &json!(2), &json!(sim.url()))
    );
}
