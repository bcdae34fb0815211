//! The end of connections: idle ones, draining, and the same on pingora's listeners.

use std::time::Duration;

use cubewarden::proxy::{LINGER, service};
use pingora_core::services::Service as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;

use super::front::{Front, pass, wire};
use super::peer::{Upstream, field, soon};

#[tokio::test]
async fn an_idle_client_connection_outlives_the_clients_own_300_seconds() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut client = front.client().await;
    client.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    client.hear_until("{}").await;
    front.clock.advance(Duration::from_mins(10));
    client.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    client.hear_until("{}").await;
    front.pass(Duration::from_secs(620)).await;
    assert_eq!(client.hear_all().await, "");
}

#[tokio::test]
async fn draining_finishes_what_is_in_flight_and_answers_once_more_who_is_just_about_to_ask() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut busy = front.client().await;
    let mut idle = front.client().await;
    idle.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    idle.hear_until("{}").await;
    busy.say("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    front.drain.send_replace(true);
    idle.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    let last = idle.hear_all().await;
    assert_eq!(field(&last, "connection"), Some("close"));
    assert!(last.ends_with("{}"), "{last}");
    up.say("HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 4\r\n\r\ndone").await;
    let answer = busy.hear_all().await;
    assert_eq!(field(&answer, "connection"), Some("close"));
    assert!(answer.ends_with("\r\n\r\ndone"), "{answer}");
}

#[tokio::test]
async fn draining_closes_what_stays_idle() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut idle = front.client().await;
    idle.say("POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
    idle.hear_until("{}").await;
    front.drain.send_replace(true);
    front.pass(LINGER).await;
    assert_eq!(idle.hear_all().await, "");
}

#[tokio::test]
async fn the_pingora_service_serves_the_same_and_drains_with_its_server() {
    let upstream = Upstream::listen().await;
    let (proxy, clock, _calls, _finished) = wire(upstream.address(), "", false);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("proxy");
    let mut service = service("proxy", proxy, "127.0.0.1:0");
    service.endpoints().add_uds(socket.to_str().unwrap(), None);
    let (shutdown, shutting) = watch::channel(false);
    let serving = tokio::spawn(async move { service.start_service(None, shutting, 1).await });
    let listening = async {
        loop {
            match UnixStream::connect(&socket).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let mut client = soon("the listener", listening).await;
    client
        .write_all(b"POST /governed/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nping")
        .await
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"ping") {
        assert!(soon("the answer", client.read_buf(&mut answer)).await.unwrap() > 0);
    }
    shutdown.send_replace(true);
    pass(&clock, LINGER).await;
    assert_eq!(soon("the end", client.read_to_end(&mut answer)).await.unwrap(), 0);
    soon("the service's end", serving).await.unwrap();
}
