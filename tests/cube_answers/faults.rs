//! Every fault by its name: what the client sees, and what is true all the same.

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::raw::{Answer, call, request, until, until_waiting};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile, WritePath};

const TEMPLATE: &str = "tpl-000000000000000000000001";

async fn sim() -> (CubeSim, ManualClock) {
    let clock = ManualClock::at(UnixMillis(1_795_957_013_000));
    let sim = CubeSim::builder().profile(Profile::V060).clock(clock.clone()).seed(7).start().await;
    (sim.expect("the loopback has a free port"), clock)
}

async fn create(sim: &CubeSim) -> Answer {
    let body = json!({ "templateID": TEMPLATE, "metadata": { "owner": "alice" } });
    call(sim.addr(), "POST", "/sandboxes", body).await
}

async fn get(sim: &CubeSim, path: &str) -> Answer {
    call(sim.addr(), "GET", path, Value::Null).await
}

async fn delete(sim: &CubeSim, id: &str) -> Answer {
    call(sim.addr(), "DELETE", &format!("/sandboxes/{id}"), Value::Null).await
}

fn plant_one(sim: &CubeSim) -> String {
    let metadata = BTreeMap::from([("owner".to_owned(), "alice".to_owned())]);
    sim.seed_sandboxes(1, &metadata).remove(0)
}

#[tokio::test]
async fn a_refusal_strikes_its_kind_and_number_of_requests_only() {
    let (sim, _clock) = sim().await;
    let busy = Fault::Refuse { status: 503, body: "busy".to_owned(), retry_after: Some(7) };
    let rule = sim.fault(busy.on(Kind::Create).times(2));
    assert_eq!(get(&sim, "/sandboxes").await.code(), 200, "another kind");
    for _ in 0..2 {
        let refused = create(&sim).await;
        assert_eq!((refused.code(), refused.body.as_str()), (503, "busy"));
        assert!(refused.headers.contains(&"retry-after: 7".to_owned()), "{:?}", refused.headers);
    }
    assert_eq!(create(&sim).await.code(), 201);
    assert_eq!((sim.struck(rule), sim.alive().len(), sim.high_water(&[])), (2, 1, 1));
}

#[tokio::test]
async fn a_fault_on_one_sandbox_leaves_the_others_alone() {
    let (sim, _clock) = sim().await;
    let (first, second) = (plant_one(&sim), plant_one(&sim));
    sim.fault(Fault::DeleteBusy.on(Kind::Delete).id(&first));
    let busy = delete(&sim, &first).await;
    assert_eq!(busy.code(), 503);
    assert!(busy.headers.contains(&"retry-after: 2".to_owned()), "{:?}", busy.headers);
    assert_eq!(delete(&sim, &second).await.code(), 204);
    sim.clear_faults();
    assert_eq!(delete(&sim, &first).await.code(), 204);
}

#[tokio::test]
async fn the_backend_that_is_full_or_gone_says_so_in_cubes_words() {
    let (sim, _clock) = sim().await;
    let message = |answer: Answer| answer.json()["message"].as_str().unwrap_or_default().to_owned();
    sim.fault(Fault::NoResource.on(Kind::Create).times(1));
    assert_eq!(message(create(&sim).await), "CubeMaster returned error code 130597: no more resource");
    sim.fault(Fault::TransportError.on(Kind::Create).times(1));
    assert!(message(create(&sim).await).starts_with("HTTP transport error: error sending request for url"));
    assert_eq!(sim.alive(), []);
}

#[tokio::test]
async fn a_dropped_request_is_not_done_and_a_lost_answer_is_though_both_close_the_connection() {
    let (sim, _clock) = sim().await;
    sim.fault(Fault::DropRequest.on(Kind::Create).times(1));
    assert_eq!(create(&sim).await.code(), 0);
    assert_eq!(sim.alive().len(), 0);
    sim.fault(Fault::LoseAnswer.on(Kind::Create).times(1));
    assert_eq!(create(&sim).await.code(), 0);
    assert_eq!(sim.alive().len(), 1, "nobody was told of it");
    assert_eq!(sim.high_water(&[("owner", "alice")]), 1);
}

#[tokio::test]
async fn a_reset_is_a_reset_and_not_a_close() {
    let (sim, _clock) = sim().await;
    for (done, alive) in [(false, 0), (true, 1)] {
        sim.fault(Fault::Reset { done }.on(Kind::Create).times(1));
        let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
        let body = json!({ "templateID": TEMPLATE });
        tcp.write_all(&request("curl/8.0", "POST", "/sandboxes", &body)).await.expect("it reads");
        let ended = tcp.read(&mut [0; 64]).await.expect_err("no answer, no end of stream");
        assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
        assert_eq!(sim.alive().len(), alive);
    }
}

#[tokio::test]
async fn a_held_request_is_done_before_or_after_the_hold_and_counts_from_its_acceptance() {
    for (done, meanwhile) in [(false, 0), (true, 1)] {
        let (sim, _clock) = sim().await;
        sim.fault(Fault::Hold { done }.on(Kind::Create).times(1));
        let watch = async {
            sim.until_held(1).await;
            assert_eq!((sim.alive().len(), sim.high_water(&[])), (meanwhile, 1));
            sim.release();
        };
        let (created, ()) = tokio::join!(create(&sim), watch);
        assert_eq!((created.code(), sim.alive().len(), sim.held()), (201, 1, 0));
    }
}

#[tokio::test]
async fn what_is_held_is_done_though_its_client_has_gone() {
    let (sim, _clock) = sim().await;
    sim.fault(Fault::Hold { done: false }.on(Kind::Create).times(1));
    let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
    let body = json!({ "templateID": TEMPLATE });
    tcp.write_all(&request("curl/8.0", "POST", "/sandboxes", &body)).await.expect("it reads");
    sim.until_held(1).await;
    drop(tcp);
    sim.release();
    until("it is done all the same", || sim.alive().len() == 1).await;
}

#[tokio::test]
async fn a_blocked_write_path_answers_408_after_thirty_seconds_and_does_the_work_late_or_never() {
    let (sim, clock) = sim().await;
    let blocked = |answer: &Answer| (answer.code(), answer.body.clone(), answer.headers.clone());
    let empty = (408, String::new(), vec!["transfer-encoding: chunked".to_owned()]);
    let patience = Duration::from_secs(30);
    let wait = || async {
        until_waiting(&clock, patience).await;
        assert_eq!(get(&sim, "/sandboxes").await.code(), 200, "reads are not blocked");
        clock.advance(patience);
    };

    sim.fault(Fault::Block { late_ms: Some(90_000) }.on(Kind::Create).times(1));
    let (late, ()) = tokio::join!(create(&sim), wait());
    assert_eq!(blocked(&late), empty);
    assert_eq!((sim.alive().len(), sim.high_water(&[])), (0, 1), "on its way");
    sim.advance(Duration::from_secs(59)).expect("the clock is ours");
    assert_eq!(sim.alive().len(), 0);
    sim.advance(Duration::from_secs(1)).expect("the clock is ours");
    let id = sim.alive().remove(0).id;

    sim.fault(Fault::Block { late_ms: None });
    let (never, ()) = tokio::join!(delete(&sim, &id), wait());
    assert_eq!(blocked(&never), empty);
    sim.clear_faults();
    sim.advance(Duration::from_hours(1)).expect("the clock is ours");
    assert!(sim.sandbox(&id).is_some());
}

#[tokio::test]
async fn a_slow_request_is_done_when_its_time_has_come_even_if_the_client_was_told_408() {
    let (sim, clock) = sim().await;
    sim.fault(Fault::Slow { ms: 45_000 }.on(Kind::Create).times(1));
    let wait = async {
        until_waiting(&clock, Duration::from_secs(30)).await;
        clock.advance(Duration::from_secs(30));
    };
    let (created, ()) = tokio::join!(create(&sim), wait);
    assert_eq!((created.code(), sim.alive().len(), sim.high_water(&[])), (408, 0, 1));
    clock.advance(Duration::from_secs(15));
    until("it is done all the same", || sim.alive().len() == 1).await;
}

#[test]
fn a_strained_write_path_is_slower_with_each_resident_and_each_write_until_nothing_is_done() {
    let path = WritePath::JUNE_18;
    let (patience, millis) = (Duration::from_secs(30), Duration::from_millis);
    assert_eq!(path.passage(400, 0).takes, millis(150), "an ample node takes no notice");
    assert_eq!(path.passage(400, 100).takes, millis(900));
    assert_eq!(path.passage(704, 0).takes, millis(5622), "slow, and alive");
    let crowded = path.passage(704, 100);
    assert!(crowded.takes > patience && crowded.done, "done, but too late for whoever asked: {crowded:?}");
    let collapsed = path.passage(704, 200);
    assert!(collapsed.takes == millis(60_000) && !collapsed.done, "{collapsed:?}");
    for (residents, others) in (0..900).step_by(50).flat_map(|r| (0..300).step_by(20).map(move |o| (r, o))) {
        let takes = path.passage(residents, others).takes;
        assert!(path.passage(residents + 1, others).takes >= takes, "{residents} residents, {others} others");
        assert!(path.passage(residents, others + 1).takes >= takes, "{residents} residents, {others} others");
    }
}

#[tokio::test]
async fn an_overrun_write_path_answers_408_leaves_late_orphans_and_recovers_when_it_is_left_alone() {
    let (sim, clock) = sim().await;
    let ids = sim.seed_sandboxes(704, &BTreeMap::new());
    let unanswered = |answer: &Answer| (answer.code(), answer.body.clone(), answer.headers.clone());
    let empty = (408, String::new(), vec!["transfer-encoding: chunked".to_owned()]);
    let patience = Duration::from_secs(30);
    let wait = |before: usize, longest: Duration| {
        let (sim, clock) = (&sim, &clock);
        async move {
            until("the write is on its way", || sim.writes_under_way() > before).await;
            assert_eq!(get(sim, "/sandboxes").await.code(), 200, "reads do not pass there");
            clock.advance(longest);
        }
    };
    assert_eq!(create(&sim).await.code(), 201, "off by default");
    let rule = sim.fault(Fault::StrainedWrites(WritePath::JUNE_18));

    sim.overrun(100);
    let (late, ()) = tokio::join!(create(&sim), wait(100, patience));
    assert_eq!((unanswered(&late), sim.alive().len()), (empty.clone(), 705));
    sim.advance(patience).expect("the clock is ours");
    until("the orphan comes to be", || sim.alive().len() == 706).await;

    sim.overrun(200);
    let (never, ()) = tokio::join!(delete(&sim, &ids[0]), wait(200, patience));
    assert_eq!(unanswered(&never), empty);
    sim.advance(patience).expect("the clock is ours");
    get(&sim, "/sandboxes").await;
    assert!(sim.sandbox(&ids[0]).is_some(), "given up");

    let (alone, ()) = tokio::join!(delete(&sim, &ids[0]), wait(0, Duration::from_secs(6)));
    assert_eq!(alone.code(), 204, "nothing else is under way any more");
    sim.remove_fault(rule);
    assert_eq!(delete(&sim, &ids[1]).await.code(), 204, "healed, it takes no time");
    let strained = CubeSim::builder().write_path(WritePath::JUNE_18).start().await.expect("a free port");
    assert_eq!(strained.faults().len(), 1, "from the beginning, and healed the same way");
}

#[tokio::test]
async fn a_list_can_leave_out_lie_and_forget_while_get_knows_better() {
    let (sim, _clock) = sim().await;
    let (first, second) = (plant_one(&sim), plant_one(&sim));
    let listed = async || -> Vec<String> {
        let list = get(&sim, "/v2/sandboxes").await.json();
        let ids = list
            .as_array()
            .expect("a list")
            .iter()
            .map(|item| item["sandboxID"].as_str().unwrap_or_default());
        ids.map(str::to_owned).collect()
    };
    sim.fault(Fault::Omit { ids: [first.clone()].into() });
    assert_eq!(listed().await, [second]);
    assert_eq!(get(&sim, &format!("/sandboxes/{first}")).await.code(), 200);
    sim.clear_faults();
    sim.fault(Fault::EmptyList);
    assert_eq!(listed().await, [""; 0]);
    sim.clear_faults();
    sim.fault(Fault::ForgetLabels);
    let forgetful = get(&sim, &format!("/sandboxes/{first}")).await.json();
    assert_eq!(
        (&forgetful["metadata"]["owner"], &forgetful["metadata"]["X-Caller"]),
        (&Value::Null, &json!("X-Caller"))
    );
    sim.clear_faults();
    sim.fault(Fault::ListFails);
    assert_eq!(get(&sim, "/sandboxes").await.code(), 500);
}

#[tokio::test]
async fn a_host_that_is_away_is_missing_from_the_list_and_500_to_everything_else() {
    let (sim, _clock) = sim().await;
    let id = plant_one(&sim);
    let host = sim.sandbox(&id).expect("planted").host;
    let rule = sim.fault(Fault::HostUnreachable { host: host.clone() });
    assert_eq!(get(&sim, "/sandboxes").await.json(), json!([]));
    let unhealthy = "CubeMaster returned error code 130408: CubeletUnHealthy";
    assert_eq!(get(&sim, &format!("/sandboxes/{id}")).await.json()["message"], unhealthy);
    assert_eq!(delete(&sim, &id).await.code(), 500);
    let created = create(&sim).await.json()["sandboxID"].as_str().expect("elsewhere").to_owned();
    assert_ne!(sim.sandbox(&created).expect("created").host, host);
    sim.remove_fault(rule);
    assert_eq!(get(&sim, "/sandboxes").await.json().as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_deleted_sandbox_can_come_back_and_counts_again() {
    let (sim, _clock) = sim().await;
    let id = plant_one(&sim);
    sim.fault(Fault::Resurrect { after_ms: 1500 }.on(Kind::Delete).times(1));
    assert_eq!(delete(&sim, &id).await.code(), 204);
    assert_eq!(get(&sim, &format!("/sandboxes/{id}")).await.code(), 404);
    sim.advance(Duration::from_millis(1500)).expect("the clock is ours");
    assert_eq!(get(&sim, &format!("/sandboxes/{id}")).await.code(), 200);
    assert_eq!(delete(&sim, &id).await.code(), 204);
    assert_eq!((sim.alive().len(), sim.high_water(&[])), (0, 1));
}

#[tokio::test]
async fn an_answer_can_come_twice_on_one_connection() {
    let (sim, _clock) = sim().await;
    sim.fault(Fault::AnswerTwice.on(Kind::Health).times(1));
    let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
    let goodbye = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    tcp.write_all(goodbye.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    tcp.read_to_string(&mut text).await.expect("it answers and closes");
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{text}");
    assert_eq!(text.matches(r#"{"status":"ok","sandboxes":0}"#).count(), 2, "{text}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time_and_a_used_one_is_not() {
    let (sim, clock) = sim().await;
    sim.fault(Fault::IdleClose { ms: 5000 });
    let mut tcp = TcpStream::connect(sim.addr()).await.expect("it listens");
    let health = request("curl/8.0", "GET", "/health", &Value::Null);
    for _ in 0..3 {
        tcp.write_all(&health).await.expect("still open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"0\r\n\r\n") {
            answer.push(tcp.read_u8().await.expect("still open"));
        }
        until_waiting(&clock, Duration::from_secs(5)).await;
        clock.advance(Duration::from_secs(4));
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(tcp.read(&mut [0; 8]).await.expect("a close, not a reset"), 0);
}
