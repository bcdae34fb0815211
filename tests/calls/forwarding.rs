//! What the proxy's stories promise of any exchange, shown for governed creates over raw sockets and warm connections.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::stage::{BODY, Stage, real, refused, timed};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;

/// Says the bytes to the warden and hears the status of what comes back.
async fn say(stage: &Stage, bytes: &str) -> u16 {
    let mut socket = TcpStream::connect(stage.warden.addr()).await.unwrap();
    socket.write_all(bytes.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    socket.read_exact(&mut start).await.unwrap();
    String::from_utf8(start[9..].to_vec()).unwrap().parse().unwrap()
}

/// PX01
#[tokio::test]
async fn a_create_whose_body_was_edited_goes_up_with_its_new_length_however_it_came() {
    let stage = real(Profile::V070, "").await;
    let start = "POST /sandboxes HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n";
    let chunks: Vec<String> = BODY.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    let chunks = chunks.concat();
    for rest in [
        format!("Content-Length: {}\r\n\r\n{BODY}", BODY.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"),
    ] {
        assert_eq!(say(&stage, &format!("{start}{rest}")).await, 201, "{rest}");
    }
    let creates = stage.cube.requests().into_iter();
    let creates: Vec<_> = creates.filter(|seen| seen.head.target == "/sandboxes").collect();
    assert_eq!(creates.len(), 3);
    for create in creates {
        assert!(create.body.len() > BODY.len(), "our labels are in it");
        let field = |wanted: &str| {
            let mut fields = create.head.headers.iter();
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.clone())
        };
        assert_eq!(field("content-length"), Some(create.body.len().to_string()));
        assert_eq!(field("transfer-encoding"), None);
    }
    stage.balance(3).await;
}

/// PX03
#[tokio::test]
async fn a_create_that_was_sent_is_never_sent_again_however_its_answer_is_lost() {
    for fault in [
        Fault::DropRequest,
        Fault::LoseAnswer,
        Fault::Reset { done: false },
        Fault::Reset { done: true },
        Fault::Refuse { status: 502, body: "<html>".into(), retry_after: None },
        Fault::Refuse { status: 504, body: String::new(), retry_after: None },
    ] {
        let stage = timed(Profile::V070, "").await;
        // The connection is warm: what is lost on a reused one is tempting to repeat.
        stage.warden.caller().create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
        stage.cube.fault(fault.clone().on(Kind::Create).times(1));
        let answer = stage.warden.caller().post("/sandboxes", BODY).await;
        refused(&answer, 504, "OUTCOME_UNKNOWN");
        assert_eq!(stage.created().len(), 2, "{fault:?}");
        for wait in [80, 5, 515] {
            stage.skip(Duration::from_secs(wait));
            stage.due().await;
        }
        stage.balance(1).await;
    }
}

/// PX04
#[tokio::test]
async fn connections_that_cube_closes_when_idle_cost_no_create() {
    let stage = timed(Profile::V070, "").await;
    stage.cube.fault(Fault::IdleClose { ms: 200 });
    for made in 1..=20 {
        stage.warden.caller().create(BODY).await;
        assert_eq!(stage.created().len(), made);
        // Cube closes it long before the warden would have.
        stage.skip(Duration::from_millis(201));
        stage.settle().await;
    }
    stage.balance(20).await;
}

/// PX10
#[tokio::test]
async fn a_create_whose_client_hangs_up_is_carried_to_its_end() {
    let stage = timed(Profile::V070, "").await;
    stage.cube.fault(Fault::Hold { done: false }.on(Kind::Create).times(1));
    let caller = stage.warden.caller();
    let create = tokio::spawn(async move { caller.try_call("POST", "/sandboxes", Some(BODY)).await });
    stage.cube.until_held(1).await;
    create.abort();
    assert!(create.await.is_err());
    stage.settle().await;
    assert_eq!(stage.states().await, ["dispatched"], "its slot is held while Cube may still make it");
    stage.cube.release();
    crate::support::until("it was made", || stage.cube.alive().len() == 1).await;
    stage.until_state("killing").await;
    stage.due().await;
    stage.balance(0).await;
    assert!(stage.cube.alive().is_empty());
}
