//! Governed calls: the whole body in hand first, and run to their end whatever the client does.

use std::time::Duration;

use cubewarden::proxy::Ending;

use super::front::{BODY_LIMIT, Front};
use super::peer::{Peer, Upstream, closing, field};

async fn scene() -> (Upstream, Front, Peer) {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let client = front.client().await;
    (upstream, front, client)
}

fn one_byte_chunks(body: &str) -> String {
    let chunks: Vec<String> = body.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect();
    format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", chunks.concat())
}

#[tokio::test]
async fn px01_a_forwarded_body_has_its_exact_length_however_it_came() {
    let (upstream, _front, mut client) = scene().await;
    let json = r#"{"templateID":"base"}"#;
    let rounds = [
        (json, format!("Content-Length: 21\r\n\r\n{json}")),
        (json, format!("Transfer-Encoding: chunked\r\n\r\n15\r\n{json}\r\n0\r\n\r\n")),
        (json, one_byte_chunks(json)),
        ("{}", "Content-Length: 2\r\n\r\n{}".to_owned()),
        ("", "Content-Length: 0\r\n\r\n".to_owned()),
        ("", "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
    ];
    for (body, rest) in rounds {
        client.say(format!("POST /governed/forward HTTP/1.1\r\nHost: h\r\nX-Case: a\r\n{rest}")).await;
        let mut up = upstream.accept().await;
        let head = up.hear_head().await;
        assert_eq!(field(&head, "content-length"), Some(body.len().to_string().as_str()));
        assert_eq!((field(&head, "transfer-encoding"), field(&head, "expect")), (None, None));
        assert!(head.contains("\r\nX-Case: a\r\n"));
        assert_eq!(up.hear(body.len()).await, body);
        let answer =
            "HTTP/1.1 201 Created\r\ndate: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
        up.say(closing(answer)).await;
        client.hear_until("1\r\nx\r\n0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn px01_a_client_that_stalls_in_its_body_is_a_408_and_nothing_is_called() {
    let (_upstream, mut front, mut client) = scene().await;
    for start in ["Content-Length: 9\r\n\r\n{\"a\"", "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"a\""] {
        client.say(format!("POST /governed/echo HTTP/1.1\r\nHost: h\r\n{start}")).await;
        front.pass(Duration::from_secs(30)).await;
        let answer = client.hear_all().await;
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout"), "{answer}");
        assert!(answer.contains(r#"{"code":408,"#), "{answer}");
        assert!(front.is_unasked());
        client = front.client().await;
    }
}

#[tokio::test]
async fn px01_broken_framing_is_a_400_and_nothing_is_called() {
    let (_upstream, mut front, mut client) = scene().await;
    client
        .say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n")
        .await;
    let answer = client.hear_all().await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
    assert!(answer.contains(r#"{"code":400,"#), "{answer}");
    assert!(front.is_unasked());
}

#[tokio::test]
async fn a_body_over_the_limit_is_a_413_and_nothing_is_called() {
    let (_upstream, mut front, _) = scene().await;
    let large = "x".repeat(BODY_LIMIT + 1);
    let bodies = [
        format!("Content-Length: {}\r\n\r\n{large}", large.len()),
        one_byte_chunks(&large),
        // Nobody waits for this one: it is refused by its length, and the expected 100 never comes.
        format!("Expect: 100-continue\r\nContent-Length: {}\r\n\r\n", large.len()),
        "Content-Length: 99999999999\r\n\r\n".to_owned(),
    ];
    for body in bodies {
        let mut client = front.client().await;
        client.say(format!("POST /governed/echo HTTP/1.1\r\nHost: h\r\n{body}")).await;
        let answer = client.hear_all().await;
        assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large"), "{answer}");
        assert!(answer.contains(r#""error_code":"BODY_TOO_LARGE""#), "{answer}");
        assert!(front.is_unasked());
    }
    let mut client = front.client().await;
    let most = "x".repeat(BODY_LIMIT);
    client.say(format!("POST /governed/echo HTTP/1.1\r\nHost: h\r\n{}", one_byte_chunks(&most))).await;
    assert!(client.hear_until(&most).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn an_answer_has_its_exact_length_and_nothing_hop_by_hop() {
    let (_upstream, mut front, mut client) = scene().await;
    client.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    let head = client.hear_head().await;
    assert_eq!(client.hear(2).await, "{}");
    assert_eq!(field(&head, "content-length"), Some("2"));
    assert_eq!(field(&head, "x-outer"), Some("end"));
    for hop in ["connection", "x-inner", "transfer-encoding"] {
        assert_eq!(field(&head, hop), None, "{head}");
    }
    client.say("DELETE /governed/empty HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let head = client.hear_head().await;
    assert!(head.starts_with("HTTP/1.1 204 No Content"), "{head}");
    assert_eq!(field(&head, "content-length"), None);
    let finished = front.finished().await;
    assert_eq!((finished.route, finished.bytes, finished.ending), ("govern", 2, Ending::Complete));
}

#[tokio::test]
async fn px10_a_call_runs_to_its_end_though_its_client_hung_up() {
    let (_upstream, mut front, mut client) = scene().await;
    client.say("POST /governed/patient HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    assert_eq!(front.call().await, "began /governed/patient");
    drop(client);
    assert_eq!(front.call().await, "ended /governed/patient");
    let finished = front.finished().await;
    assert_eq!((finished.status, finished.ending), (None, Ending::CallerLeft));
}

#[tokio::test]
async fn px10_a_client_that_hangs_up_within_its_body_called_nothing() {
    let (_upstream, mut front, mut client) = scene().await;
    client.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{}").await;
    drop(client);
    front.finished().await;
    assert!(front.is_unasked());
}

#[tokio::test]
async fn a_call_that_panics_is_a_500_in_json_and_the_connection_lives_on() {
    let (_upstream, mut front, mut client) = scene().await;
    client.say("POST /governed/panic HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    let answer = client.hear_until("\"INTERNAL\"}").await;
    assert!(answer.starts_with("HTTP/1.1 500 Internal Server Error"), "{answer}");
    assert_eq!(front.finished().await.ending, Ending::Panicked);
    client.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    client.hear_until("{}").await;
}
