//! Upgrades: a tunnel once the upstream agrees, an ordinary answer if not.

use super::front::Front;
use super::peer::{Upstream, field};

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Key: k\r\n\r\n";

#[tokio::test]
async fn an_upgraded_connection_is_a_tunnel_until_both_sides_have_ended() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut client = front.client().await;
    client.say(ASK).await;
    let mut up = upstream.accept().await;
    let asked = up.hear_head().await;
    assert_eq!(
        asked,
        "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
    );
    up.say("HTTP/1.1 101 Switching Protocols\r\ndate: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly").await;
    let head = client.hear_head().await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols"), "{head}");
    assert_eq!(field(&head, "upgrade"), Some("websocket"));
    assert_eq!(client.hear(5).await, "early");
    client.say("ping").await;
    assert_eq!(up.hear(4).await, "ping");
    client.finish().await;
    assert_eq!(up.hear_all().await, "");
    up.say("still talking").await;
    up.finish().await;
    assert_eq!(client.hear_all().await, "still talking");
}

#[tokio::test]
async fn a_refused_upgrade_is_an_ordinary_answer() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut client = front.client().await;
    client.say(ASK).await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    up.say("HTTP/1.1 404 Not Found\r\ndate: x\r\ncontent-length: 2\r\n\r\nno").await;
    assert_eq!(
        client.hear_until("no").await,
        "HTTP/1.1 404 Not Found\r\ndate: x\r\ncontent-length: 2\r\n\r\nno"
    );
    client.say("GET /next HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(up.hear_head().await.starts_with("GET /next "));
}

#[tokio::test]
async fn a_protocol_switch_that_nobody_asked_for_is_a_504() {
    let upstream = Upstream::listen().await;
    let front = Front::before(upstream.address()).await;
    let mut client = front.client().await;
    client.say("GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let mut up = upstream.accept().await;
    up.hear_head().await;
    up.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").await;
    assert!(client.hear_head().await.starts_with("HTTP/1.1 504 Gateway Timeout"));
}
