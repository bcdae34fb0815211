//! Pass-through: what goes in comes out.

use std::time::Duration;

use cubewarden::proxy::Ending;
use cubewarden::verdict::Reason;

use super::front::Front;
use super::peer::{Peer, Upstream, closing, field};

/// An upstream, the proxy before it, and a client of the proxy.
async fn scene() -> (Upstream, Front, Peer) {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let client = front.client().await;
    (upstream, front, client)
}

#[tokio::test]
async fn a_request_goes_up_byte_for_byte_without_its_hop_by_hop_fields() {
    let (upstream, _front, mut client) = scene().await;
    client
        .say(
            "PoST //a/%2e%2E/b%2F;p=1?q=%zz&&x={|}' HTTP/1.1\r\nHOST: 49983-abc.cube.app\r\nX-API-Key: e2b_00\r\n\
             Vary: A\r\nConnection: keep-alive, X-Hop, Host, Content-Length\r\nvary: B\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
             Proxy-Connection: x\r\nTE: gzip\r\nUpgrade: h2c\r\nContent-LENGTH: 2\r\nuser-agent: t\r\n\r\nhi",
        )
        .await;
    let mut up = upstream.accept().await;
    assert_eq!(
        up.hear_until("hi").await,
        "PoST //a/%2e%2E/b%2F;p=1?q=%zz&&x={|}' HTTP/1.1\r\nHOST: 49983-abc.cube.app\r\nX-API-Key: e2b_00\r\n\
         Vary: A\r\nvary: B\r\nContent-LENGTH: 2\r\nuser-agent: t\r\n\r\nhi"
    );
}

#[tokio::test]
async fn an_answer_comes_back_byte_for_byte_without_its_hop_by_hop_fields() {
    let (upstream, mut front, mut client) = scene().await;
    client.say("GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE\r\n\r\n").await;
    let mut up = upstream.accept().await;
    let asked = up.hear_head().await;
    assert_eq!(asked, "GET / HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    up.say(
        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 404 Nothing Here\r\nDATE: yesterday\r\nVary: a\r\n\
         Connection: close, X-Hop\r\nvary: b\r\nX-Hop: 1\r\ncontent-encoding: gzip\r\nTrailer: X-Sum\r\n\
         Transfer-encoding: chunked\r\nKeep-Alive: 5\r\nServer: s\r\n\r\n5\r\nabcde\r\n0\r\nX-Sum: 9\r\n\r\n",
    )
    .await;
    assert_eq!(
        client.hear_until("0\r\nx-sum: 9\r\n\r\n").await,
        "HTTP/1.1 404 Nothing Here\r\nDATE: yesterday\r\nVary: a\r\nvary: b\r\ncontent-encoding: gzip\r\n\
         Trailer: X-Sum\r\nTransfer-encoding: chunked\r\nServer: s\r\n\r\n5\r\nabcde\r\n0\r\nx-sum: 9\r\n\r\n"
    );
    let finished = front.finished().await;
    assert_eq!((finished.status, finished.bytes, finished.ending), (Some(404), 5, Ending::Complete));
    assert_eq!((finished.path.as_str(), finished.route), ("/", "pass"));
}

#[tokio::test]
async fn chunks_go_both_ways_before_the_next_is_there() {
    let (upstream, _front, mut client) = scene().await;
    client
        .say("GET /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n3\r\none\r\n")
        .await;
    let mut up = upstream.accept().await;
    let head = up.hear_until("3\r\none\r\n").await;
    assert_eq!(field(&head, "transfer-encoding"), Some("chunked"));
    client.say("3\r\ntwo\r\n0\r\nx-t: 1\r\n\r\n").await;
    assert_eq!(up.hear_until("x-t: 1\r\n\r\n").await, "3\r\ntwo\r\n0\r\nx-t: 1\r\n\r\n");
    up.say("HTTP/1.1 200 OK\r\ndate: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n").await;
    client.hear_until("4\r\nfour\r\n").await;
    up.say("5\r\nthree\r\n0\r\n\r\n").await;
    assert_eq!(client.hear_until("0\r\n\r\n").await, "5\r\nthree\r\n0\r\n\r\n");
}

#[tokio::test]
async fn the_kind_of_framing_stays_what_it_was() {
    let (upstream, _front, mut client) = scene().await;
    let rounds = [
        (
            "DELETE /a HTTP/1.1\r\nHost: h\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n",
        ),
        (
            "DELETE /b HTTP/1.1\r\nHost: h\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ndate: x\r\ncontent-length: 0\r\n\r\n",
        ),
        ("HEAD /c HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\ndate: x\r\nContent-Length: 120\r\n\r\n"),
        (
            "OPTIONS * HTTP/1.1\r\nHost: h\r\nOrigin: o\r\n\r\n",
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\ndate: x\r\ncontent-length: 2\r\n\r\nok",
        ),
        (
            "PATCH /d HTTP/1.1\r\nHost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 0\r\n\r\n",
        ),
        (
            "GET /e HTTP/1.1\r\nHost: h\r\n\r\n",
            "HTTP/1.1 200 OK\r\ndate: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        ),
    ];
    for (question, answer) in rounds {
        client.say(question).await;
        let mut up = upstream.accept().await;
        assert_eq!(up.hear(question.len()).await, question);
        // Closing by word: otherwise the next round might still find this connection in the pool.
        up.say(closing(answer)).await;
        assert_eq!(client.hear(answer.len()).await, answer);
    }
}

#[tokio::test]
async fn an_http_1_0_client_gets_an_answer_that_ends_with_its_connection() {
    let (upstream, _front, mut client) = scene().await;
    client.say("GET /old HTTP/1.0\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    assert_eq!(up.hear_head().await, "GET /old HTTP/1.1\r\nHost: h\r\n\r\n");
    up.say("HTTP/1.1 200 OK\r\ndate: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        .await;
    assert_eq!(client.hear_all().await, "HTTP/1.0 200 OK\r\ndate: x\r\n\r\nabc");
}

#[tokio::test]
async fn an_http_1_0_client_that_asks_to_be_kept_is_kept() {
    let (upstream, _front, mut client) = scene().await;
    client.say("GET /1 HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n").await;
    let mut up = upstream.accept().await;
    assert_eq!(up.hear_head().await, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
    up.say("HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 2\r\n\r\nok").await;
    let answer = client.hear_until("\r\n\r\nok").await;
    assert_eq!(field(&answer, "connection"), Some("keep-alive"));
    client.say("GET /2 HTTP/1.0\r\nHost: h\r\n\r\n").await;
    assert!(up.hear_head().await.starts_with("GET /2 "));
}

#[tokio::test]
async fn compressed_bytes_pass_as_they_are() {
    let (upstream, _front, mut client) = scene().await;
    client.say("GET /z HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n").await;
    let mut up = upstream.accept().await;
    assert_eq!(field(&up.hear_head().await, "accept-encoding"), Some("gzip, br"));
    let bytes: Vec<u8> = (0..=255).collect();
    up.say("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 256\r\n\r\n").await;
    up.say(&bytes).await;
    assert_eq!(field(&client.hear_head().await, "content-encoding"), Some("gzip"));
    assert!(client.hear(256).await.chars().eq(bytes.into_iter().map(char::from)));
}

#[tokio::test]
async fn an_absolute_target_names_the_host_and_a_prefix_comes_before_the_path() {
    let upstream = Upstream::listen().await;
    let front = Front::with(upstream.address(), "/cubeapi/", false).await;
    let mut client = front.client().await;
    client.say("GET http://other.example:81/p?q HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n").await;
    let mut up = upstream.accept().await;
    let head = up.hear_head().await;
    assert_eq!(head, "GET /cubeapi/p?q HTTP/1.1\r\nHost: other.example:81\r\nA: b\r\n\r\n");
}

#[tokio::test]
async fn a_client_connection_serves_one_request_after_another() {
    let (upstream, _front, mut client) = scene().await;
    client.say("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    for n in 1..4 {
        assert!(up.hear_head().await.starts_with(&format!("GET /{n} ")));
        up.say("HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 1\r\n\r\nx").await;
        client.hear_until("\r\n\r\nx").await;
        client.say(format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", n + 1)).await;
    }
}

#[tokio::test]
async fn an_expected_100_is_sent_when_the_upstream_says_so_and_not_before() {
    let (upstream, _front, mut client) = scene().await;
    client.say("POST /u HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    let mut up = upstream.accept().await;
    assert_eq!(field(&up.hear_head().await, "expect"), Some("100-continue"));
    assert!(client.is_quiet());
    up.say("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(client.hear_head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.say("abc").await;
    assert_eq!(up.hear(3).await, "abc");
    up.say("HTTP/1.1 201 Created\r\ndate: x\r\ncontent-length: 0\r\n\r\n").await;
    assert!(client.hear_head().await.starts_with("HTTP/1.1 201 Created"));
}

#[tokio::test]
async fn an_upstream_that_refuses_at_once_never_makes_the_client_send_its_body() {
    let (upstream, _front, mut client) = scene().await;
    client.say("POST /u HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    up.say("HTTP/1.1 401 Unauthorized\r\ndate: x\r\ncontent-length: 2\r\n\r\n").await;
    let answer = client.hear_head().await;
    assert!(answer.starts_with("HTTP/1.1 401 Unauthorized"), "{answer}");
    // An answer that takes its time is not cut off because the request's body is given up.
    up.say("n").await;
    assert_eq!(client.hear(1).await, "n");
    up.say("o").await;
    assert_eq!(client.hear(1).await, "o");
    // The body never comes, so the upstream connection cannot be used again.
    assert_eq!(up.hear_all().await, "");
}

#[tokio::test]
async fn an_upstream_that_ignores_an_expectation_gets_the_body_after_a_while() {
    let (upstream, front, mut client) = scene().await;
    client.say("POST /u HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    front.pass(Duration::from_secs(1)).await;
    client.hear_until("100 Continue\r\n\r\n").await;
    client.say("abc").await;
    assert_eq!(up.hear(3).await, "abc");
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_a_502_in_json() {
    let (upstream, mut front, mut client) = scene().await;
    drop(upstream);
    client.say("GET /x?secret HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let head = client.hear_head().await;
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway"), "{head}");
    let length = field(&head, "content-length").unwrap().parse().unwrap();
    let body: serde_json::Value = serde_json::from_str(&client.hear(length).await).unwrap();
    assert_eq!(body["code"], 502);
    assert_eq!(body["error_code"], "UPSTREAM_UNREACHABLE");
    // A browser would not show the answer to its page otherwise.
    assert_eq!(field(&head, "access-control-allow-origin"), Some("*"));
    let finished = front.finished().await;
    assert_eq!((finished.path.as_str(), finished.status), ("/x", Some(502)));
    assert_eq!(finished.refused, Some(Reason::UpstreamUnreachable));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_broken_off() {
    let (upstream, mut front, mut client) = scene().await;
    for start in ["content-length: 9\r\n\r\nabc", "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        client.say("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut up = upstream.accept().await;
        up.hear_head().await;
        up.say(format!("HTTP/1.1 200 OK\r\ndate: x\r\n{start}")).await;
        client.hear_until("abc").await;
        drop(up);
        let rest = client.hear_all().await;
        assert!(!rest.contains("0\r\n"), "an end that was never there: {rest:?}");
        assert_eq!(front.finished().await.ending, Ending::UpstreamLost);
        client = front.client().await;
    }
}

#[tokio::test]
async fn a_silent_upstream_is_a_504_once_the_limit_is_over() {
    let (upstream, front, mut client) = scene().await;
    client.say("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi").await;
    let mut up = upstream.accept().await;
    up.hear_until("hi").await;
    front.pass(Duration::from_mins(5)).await;
    let head = client.hear_until("UPSTREAM_TIMEOUT\"}").await;
    assert!(head.starts_with("HTTP/1.1 504 Gateway Timeout"), "{head}");
    assert_eq!(up.hear_all().await, "");
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_upstream_exchange_along() {
    let (upstream, mut front, mut client) = scene().await;
    client.say("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    drop(client);
    assert_eq!(up.hear_all().await, "");
    let finished = front.finished().await;
    assert_eq!((finished.status, finished.ending), (None, Ending::CallerLeft));
}

#[tokio::test]
async fn a_request_without_an_id_gets_one_that_goes_up_and_comes_back() {
    let upstream = Upstream::listen().await;
    let mut front = Front::with(upstream.address(), "", true).await;
    let mut client = front.client().await;
    client.say("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    let asked = up.hear_head().await;
    let id = field(&asked, "x-request-id").unwrap();
    assert_eq!(id.len(), 32);
    up.say("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(field(&client.hear_head().await, "x-request-id"), Some(id));
    assert_eq!(front.finished().await.request_id.as_deref(), Some(id));

    client.say("GET /x HTTP/1.1\r\nHost: h\r\nX-Request-ID: mine\r\n\r\n").await;
    assert!(up.hear_head().await.contains("X-Request-ID: mine\r\n"));
    up.say("HTTP/1.1 200 OK\r\nx-request-id: theirs\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(field(&client.hear_head().await, "x-request-id"), Some("theirs"));
    client.say("GET /governed/empty HTTP/1.1\r\nHost: h\r\nX-Request-ID: mine\r\n\r\n").await;
    assert_eq!(field(&client.hear_head().await, "x-request-id"), Some("mine"));
}

#[tokio::test]
async fn broken_chunks_and_connect_are_a_400() {
    let (_upstream, front, mut client) = scene().await;
    client.say("POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").await;
    let answer = client.hear_all().await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request"), "{answer}");
    assert!(answer.contains("BAD_REQUEST"), "{answer}");
    let mut client = front.client().await;
    client.say("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let answer = client.hear_all().await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request") && answer.contains("BAD_REQUEST"), "{answer}");
}
