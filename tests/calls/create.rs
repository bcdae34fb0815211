//! POST /sandboxes and /v2/sandboxes: what goes upstream, what comes back, and whose slot it is afterwards.

use std::time::Duration;

use cubewarden::rules::entry::State;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::stage::{BODY, NO_WAIT, Stage, body_with, limit_of, path, real, refused, timed, two_tenants};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::support::http::Answer;
use crate::support::until;

const SECOND: Duration = Duration::from_secs(1);

/// A create whose answer is lost by Cube's own 30 s: 408 and an empty body, and the work is done 5 s later.
async fn answered_408(stage: &Stage) -> Answer {
    stage.cube.fault(Fault::Block { late_ms: Some(35_000) }.on(Kind::Create).times(1));
    let caller = stage.warden.caller();
    let create = tokio::spawn(async move { caller.post("/sandboxes", BODY).await });
    stage.pass(30 * SECOND).await;
    create.await.unwrap()
}

/// CB13
#[tokio::test]
async fn a_create_answered_408_is_an_unknown_outcome_that_is_found_and_ended() {
    let stage = timed(Profile::V070, &limit_of("default/dev", 1)).await;
    let answer = answered_408(&stage).await;
    refused(&answer, 504, "OUTCOME_UNKNOWN");
    assert_eq!(answer.header("should-retry"), Some("false"));
    assert_eq!(stage.times("POST /sandboxes"), 1, "it is never sent twice");
    assert_eq!((stage.warden.held().await, stage.states().await), (1, vec!["ambiguous"]));
    stage.due().await;
    assert_eq!(stage.warden.held().await, 1, "a listing without it proves nothing yet");
    stage.skip(5 * SECOND);
    assert_eq!(stage.cube.alive().len(), 1, "it comes 5 s after the answer was lost");
    stage.due().await;
    stage.balance(0).await;
    assert_eq!(stage.times("POST /sandboxes"), 1);
    let id = stage.warden.caller().create(BODY).await;
    assert_eq!(stage.cube.alive()[0].id, id, "the one slot is back, and it is one");
    stage.balance(1).await;
}

#[tokio::test]
async fn an_unclear_500_stays_cubes_own_answer_and_keeps_its_slot() {
    let stage = timed(Profile::V070, "").await;
    stage.cube.fault(Fault::Backend { code: 130_594, message: "db error".into() }.on(Kind::Create).times(1));
    let answer = stage.warden.caller().post("/sandboxes", BODY).await;
    assert_eq!(answer.status, 500);
    assert!(answer.text("message").contains("130594"), "{answer:?}");
    assert_eq!(stage.states().await, ["ambiguous"]);
    for wait in [80, 5, 515] {
        stage.skip(wait * SECOND);
        stage.due().await;
    }
    stage.balance(0).await;
}

/// CB23
#[tokio::test]
async fn a_create_under_v2_is_governed_like_any_other() {
    let config = limit_of("default/dev", 1) + NO_WAIT;
    for profile in [Profile::V051, Profile::V070] {
        let stage = real(profile, &config).await;
        let caller = stage.warden.caller();
        let made = caller.post("/v2/sandboxes", &body_with(&json!({"session_id": "s1"}))).await;
        assert_eq!(made.status, 201, "{made:?}");
        let metadata = &stage.cube.alive()[0].metadata;
        assert_eq!(metadata["owner_id"], "default.dev.-.s1");
        assert_eq!((metadata["managed_by"].as_str(), metadata["cw_marker"].len()), ("cubewarden", 32));
        let before = stage.times("POST /v2/sandboxes") + stage.times("POST /sandboxes");
        for route in ["/v2/sandboxes", "/sandboxes", "/cubeapi/v1/sandboxes", "/cubeapi/v1/v2/sandboxes"] {
            refused(&caller.post(route, BODY).await, 429, "CAPACITY_EXCEEDED");
        }
        let after = stage.times("POST /v2/sandboxes") + stage.times("POST /sandboxes");
        assert_eq!(before, after, "{profile:?}: a full quota calls nobody");
        for route in ["/v3/sandboxes", "/sandboxes/", "/sandboxes/batch", "/V2/sandboxes"] {
            refused(&caller.post(route, BODY).await, 422, "UNGOVERNED_ROUTE");
        }
        stage.balance(1).await;
    }
}

/// CB23
#[tokio::test]
async fn without_the_mend_the_405_of_an_old_cube_is_passed_on_and_the_slot_is_back() {
    let stage = real(Profile::V070, "[compat]\nv2_create = false\nerror_bodies = false\n").await;
    let answer = stage.warden.caller().post("/v2/sandboxes", BODY).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (405, 0));
    assert_eq!(stage.created().len(), 1);
    stage.balance(0).await;
}

#[tokio::test]
async fn a_v2_create_that_asks_for_what_v1_cannot_do_is_400_and_holds_nothing() {
    for field in ["memory", "autoPauseMemory"] {
        let stage = real(Profile::V070, "").await;
        let caller = stage.warden.caller();
        let body = format!(r#"{{"templateID":"tpl-000000000000000000000001","{field}":false}}"#);
        // The first teaches that this Cube has no v2, the second is refused without asking it.
        for _ in 0..2 {
            let answer = caller.post("/v2/sandboxes", &body).await;
            refused(&answer, 400, "BAD_REQUEST");
            assert!(answer.text("message").contains(field), "{answer:?}");
        }
        assert_eq!(stage.times("POST /v2/sandboxes"), 1);
        assert_eq!(stage.times("POST /sandboxes"), 0);
        stage.balance(0).await;
        let fine = caller.post("/v2/sandboxes", &body.replace("false", "true")).await;
        assert_eq!(fine.status, 201, "{fine:?}");
        stage.balance(1).await;
    }
}

/// CB30
#[tokio::test]
async fn host_mounts_are_denied_by_policy_or_kept_to_the_byte() {
    let mount = r#"[{\"hostPath\":\"/data\",\"mountPath\":\"/mnt\",\"readOnly\":false}]"#;
    let body = format!(
        r#"{{"templateID":"tpl-000000000000000000000001", "metadata" : {{"host-mount": "{mount}", "a":"b"}}}}"#
    );
    let denied = "[bucket_defaults]\nhost_mount = \"deny\"\n".to_owned();
    for (config, tenant) in [(denied, false), (two_tenants(), true)] {
        let stage = real(Profile::V070, &config).await;
        let caller = if tenant { stage.a() } else { stage.warden.caller() };
        let answer = caller.post("/sandboxes", &body).await;
        refused(&answer, 422, "FORBIDDEN_FIELD");
        let escaped = body.replace("host-mount", r"host\u002dmount");
        refused(&caller.post("/v2/sandboxes", &escaped).await, 422, "FORBIDDEN_FIELD");
        assert_eq!(stage.created(), [""; 0]);
        stage.balance(0).await;
    }
    let stage = real(Profile::V070, "").await;
    stage.warden.caller().create(&body).await;
    let sent = stage.created().remove(0);
    assert!(sent.contains(&format!(r#""host-mount": "{mount}""#)), "{sent}");
    let read: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(read["metadata"]["managed_by"], "cubewarden");
    stage.balance(1).await;
}

#[tokio::test]
async fn node_choice_is_denied_where_tenants_are() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let body = r#"{"templateID":"tpl-000000000000000000000001","distributionScope":["node-1"]}"#;
    refused(&stage.a().post("/sandboxes", body).await, 422, "FORBIDDEN_FIELD");
    stage.balance(0).await;
}

/// CB31
#[tokio::test]
async fn no_more_resource_is_a_retryable_429_that_holds_nothing() {
    let stage = real(Profile::V070, &limit_of("default/dev", 5)).await;
    let full = stage.cube.fault(Fault::NoResource);
    for _ in 0..50 {
        let answer = stage.warden.caller().post("/sandboxes", BODY).await;
        refused(&answer, 429, "CAPACITY_EXCEEDED");
        let after: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=20).contains(&after), "{after}");
        assert_eq!(answer.header("should-retry"), None);
        assert!(answer.text("message").contains("130597"), "Cube's own words are inside: {answer:?}");
        assert_eq!(stage.warden.held().await, 0);
    }
    assert_eq!(stage.metric(r#"cubewarden_mends_total{mend="capacity_answers"}"#), 50);
    assert_eq!(stage.times("POST /sandboxes"), 50);
    stage.balance(0).await;
    stage.cube.remove_fault(full);
    stage.warden.caller().create(BODY).await;
    stage.balance(1).await;
}

/// CB31
#[tokio::test]
async fn without_the_mend_no_more_resource_stays_cubes_own_500() {
    let stage = real(Profile::V070, "[compat]\ncapacity_answers = false\n").await;
    let full = stage.cube.fault(Fault::NoResource);
    let direct = crate::support::http::Caller::new(&stage.cube.url()).post("/sandboxes", BODY).await;
    let through = stage.warden.caller().post("/sandboxes", BODY).await;
    assert_eq!((through.status, &through.body), (direct.status, &direct.body));
    assert_eq!((through.status.as_u16(), through.header("retry-after")), (500, None));
    stage.cube.remove_fault(full);
    stage.balance(0).await;
}

/// DA01
#[tokio::test]
async fn five_hundred_creates_that_fail_in_six_ways_leave_nothing_behind() {
    // Here all of them are to reach Cube: no breaker.
    let config = "[write_path]\nfailures = 10000\nfailure_percent = 100";
    let stage = timed(Profile::V070, config).await;
    // First, for later fewer writes go to Cube at once.
    clients_abort(&stage, 80).await;
    let refuse = |status: u16| Fault::Refuse {
        status,
        body: format!(r#"{{"code":{status},"message":"no"}}"#),
        retry_after: None,
    };
    let unknown_template = Fault::Backend { code: 130_404, message: "template not found".into() };
    let unclear = Fault::TransportError;
    let timeout = Fault::Refuse { status: 408, body: String::new(), retry_after: None };
    let reset = Fault::Reset { done: true };
    let ways = [refuse(400), unknown_template, unclear, timeout, reset];
    for way in &ways {
        let rule = stage.cube.fault(way.clone().on(Kind::Create));
        let caller = stage.warden.caller();
        let creates = (0..84).map(|_| caller.try_call("POST", "/sandboxes", Some(BODY)));
        for answer in futures_util::future::join_all(creates).await {
            let answer = answer.unwrap();
            assert!(answer.status.as_u16() >= 400, "{answer:?}");
            assert!(!answer.body.is_empty());
        }
        assert_eq!(stage.cube.struck(rule), 84, "one upstream call each");
        stage.cube.remove_fault(rule);
    }
    assert_eq!(stage.warden.held().await, 3 * 84, "what is unclear stays charged");
    stage.due().await;
    stage.until_held(2 * 84).await;
    assert!(stage.cube.alive().is_empty(), "what came to be was found and ended");
    for wait in [80, 5, 515] {
        stage.skip(wait * SECOND);
        stage.due().await;
    }
    stage.balance(0).await;
}

/// So many clients hang up while their creates are under way; what Cube then makes is ended again.
async fn clients_abort(stage: &Stage, clients: usize) {
    let held = stage.cube.fault(Fault::Hold { done: false }.on(Kind::Create));
    let before = stage.warden.held().await;
    let mut calls = Vec::new();
    for _ in 0..clients {
        let caller = stage.warden.caller();
        calls.push(tokio::spawn(async move { caller.try_call("POST", "/sandboxes", Some(BODY)).await }));
    }
    stage.cube.until_held(clients).await;
    assert_eq!(stage.warden.held().await, before + clients as u64);
    for call in calls {
        call.abort();
        assert!(call.await.is_err());
    }
    stage.settle().await;
    stage.cube.release();
    until("they are made", || stage.cube.alive().len() == clients).await;
    while stage.warden.held().await > before {
        stage.settle().await;
        stage.due().await;
    }
    assert!(stage.cube.alive().is_empty());
    stage.cube.remove_fault(held);
}

/// DA01
#[tokio::test]
async fn two_resumes_of_one_paused_sandbox_count_once() {
    let stage = real(Profile::V070, &(limit_of("default/dev", 2) + NO_WAIT)).await;
    let caller = stage.warden.caller();
    let id = caller.create(BODY).await;
    assert_eq!(caller.post(&path(&id, "/pause"), "").await.status, 204);
    assert_eq!(stage.warden.held().await, 1, "a paused one keeps its slot");
    let (one, two) = (path(&id, "/resume"), path(&id, "/connect"));
    let (one, two) = tokio::join!(caller.post(&one, "{}"), caller.post(&two, r#"{"timeout":60}"#));
    assert!(one.status.is_success() || two.status.is_success(), "{one:?} {two:?}");
    stage.balance(1).await;
    caller.create(BODY).await;
    refused(&caller.post("/sandboxes", BODY).await, 429, "CAPACITY_EXCEEDED");
    stage.balance(2).await;
}

/// A create over a socket that the test can close.
async fn create_by_hand(stage: &Stage) -> TcpStream {
    let mut socket = TcpStream::connect(stage.warden.addr()).await.unwrap();
    let head = format!(
        "POST /sandboxes HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        BODY.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(BODY.as_bytes()).await.unwrap();
    socket
}

#[tokio::test]
async fn a_create_that_nobody_awaits_any_more_is_deleted_again() {
    let stage = real(Profile::V070, "").await;
    stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let socket = create_by_hand(&stage).await;
    stage.cube.until_held(1).await;
    assert_eq!(stage.cube.alive().len(), 1);
    drop(socket);
    stage.settle().await;
    stage.cube.release();
    stage.until_held(0).await;
    stage.balance(0).await;
    assert!(stage.cube.alive().is_empty());
}

#[tokio::test]
async fn a_create_whose_client_stays_is_kept_however_long_it_takes() {
    let stage = real(Profile::V070, "").await;
    stage.cube.fault(Fault::Hold { done: true }.on(Kind::Create).times(1));
    let mut socket = create_by_hand(&stage).await;
    stage.cube.until_held(1).await;
    stage.settle().await;
    stage.cube.release();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
    stage.balance(1).await;
}

#[tokio::test]
async fn bodies_that_two_readers_could_understand_differently_are_400_and_hold_nothing() {
    let stage = real(Profile::V070, "").await;
    let caller = stage.warden.caller();
    for body in [
        r#"{"templateID":"a","templateID":"b"}"#,
        r#"{"templateID":"a","metadata":{"x":"1"},"metadata":{"x":"2"}}"#,
        r#"{"templateID":"a","metadata":{"x":"1"},"m\u0065tadata":{"x":"2"}}"#,
        r#"{"templateID":"a","metadata":{"owner_id":"x","owner\u005fid":"y"}}"#,
        r#"{"templateID":"a","timeout":1,"timeout":-1}"#,
        r#"["a"]"#,
        r#""a""#,
        "null",
        "",
        "{",
        r#"{"templateID":"a"} {}"#,
    ] {
        let answer = caller.post("/sandboxes", body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.json()["code"], 400, "{body}");
    }
    assert_eq!(stage.times("POST /sandboxes"), 0);
    stage.balance(0).await;
}

#[tokio::test]
async fn timeouts_follow_the_buckets_policy() {
    let config = "[bucket_defaults]\ndefault_timeout = \"15m\"\nmax_timeout = \"1h\"\n";
    let stage = timed(Profile::V070, config).await;
    let caller = stage.warden.caller();
    let cases = [
        ("", 900, None),
        (r#","timeout":60"#, 60, None),
        (r#","timeout":3600"#, 3600, None),
        (r#","timeout":3601"#, 3600, Some("timeout=3600")),
        (r#","timeout":-1"#, 3600, Some("timeout=3600")),
    ];
    for (said, granted, header) in cases {
        let body = format!(r#"{{"templateID":"tpl-000000000000000000000001"{said}}}"#);
        let answer = caller.post("/sandboxes", &body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.header("x-cubewarden-clamped"), header, "{said}");
        let id = answer.text("sandboxID");
        let end = stage.cube.sandbox(&id).unwrap().end_at_ms.unwrap();
        assert_eq!(end, 1_800_000_000_000 + granted * 1000, "{said}");
        let entries = stage.warden.entries().await;
        let entry = entries.iter().find(|entry| entry.sandbox.as_ref().unwrap().as_str() == id).unwrap();
        assert_eq!(entry.deadline.unwrap().0, end, "the ledger's deadline is Cube's");
    }
    stage.balance(cases.len()).await;
    let unclamped = timed(Profile::V070, "").await;
    let body = r#"{"templateID":"tpl-000000000000000000000001"}"#;
    let answer = unclamped.warden.caller().post("/sandboxes", body).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-cubewarden-clamped")), (201, None));
    assert!(!unclamped.created()[0].contains("timeout"), "nothing is added by default");
    assert_eq!(unclamped.warden.entries().await[0].deadline, None);
}

#[tokio::test]
async fn a_bucket_decides_what_happens_at_the_timeout() {
    use crate::cube::model::OnTimeout;
    let flat = r#"{"templateID":"tpl-000000000000000000000001","timeout":60,"autoPause":true}"#;
    let killed =
        r#"{"templateID":"tpl-000000000000000000000001","timeout":60,"lifecycle":{"onTimeout":"kill"}}"#;
    for profile in [Profile::V051, Profile::V060, Profile::V070] {
        for (policy, body, expected) in [
            ("client", flat, OnTimeout::Pause),
            ("client", killed, OnTimeout::Kill),
            ("client", BODY, OnTimeout::Kill),
            ("pause", BODY, OnTimeout::Pause),
            ("pause", killed, OnTimeout::Pause),
            ("kill", flat, OnTimeout::Kill),
            ("kill", BODY, OnTimeout::Kill),
        ] {
            let stage = real(profile, &format!("[bucket_defaults]\non_timeout = \"{policy}\"\n")).await;
            // What a Cube heeds is learned by the tasks; a create right after the start must be right as well.
            let id = stage.warden.caller().create(body).await;
            let made = stage.cube.sandbox(&id).unwrap();
            assert_eq!(made.on_timeout, expected, "{profile:?} {policy} {body}");
            stage.balance(1).await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_names_no_sandbox_is_an_unknown_outcome() {
    let stage = timed(Profile::V070, "").await;
    let odd = Fault::Refuse { status: 201, body: "{}".into(), retry_after: None };
    stage.cube.fault(odd.on(Kind::Create).times(1));
    refused(&stage.warden.caller().post("/sandboxes", BODY).await, 504, "OUTCOME_UNKNOWN");
    let entries = stage.warden.entries().await;
    assert!(matches!(entries[0].state, State::Ambiguous { .. }), "{entries:?}");
    for wait in [80, 5, 515] {
        stage.skip(wait * SECOND);
        stage.due().await;
    }
    stage.balance(0).await;
}

#[tokio::test]
async fn a_cube_that_cannot_be_reached_got_nothing_and_holds_nothing() {
    let stage = timed(Profile::V070, "").await;
    stage.cube.stop().await;
    let answer = stage.warden.caller().post("/sandboxes", BODY).await;
    refused(&answer, 502, "UPSTREAM_UNREACHABLE");
    assert_eq!(answer.header("retry-after"), Some("2"));
    stage.balance(0).await;
    stage.cube.revive().await.unwrap();
    stage.warden.caller().create(BODY).await;
    stage.balance(1).await;
}
