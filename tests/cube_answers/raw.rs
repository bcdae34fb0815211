//! A client on a raw socket: bytes out, the answer as it came.

use std::net::SocketAddr;
use std::time::Duration;

use cubewarden::time::{Clock, ManualClock, WallClock, within};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer as it came.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) framing: &'static str,
    pub(crate) headers: Vec<String>,
    pub(crate) interim: bool,
    pub(crate) body: String,
    pub(crate) length: usize,
}

impl Answer {
    /// The status code; 0 if there was no answer.
    pub(crate) fn code(&self) -> u16 {
        self.status.rsplit(' ').next().and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    /// The body; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// No test waits longer than this for what must come at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ready once `there` says so; panics if it never does.
pub(crate) async fn until(what: &str, mut there: impl FnMut() -> bool) {
    let watch = async {
        while !there() {
            tokio::task::yield_now().await;
        }
    };
    let ended = within(&WallClock, PATIENCE, watch).await;
    ended.unwrap_or_else(|elapsed| panic!("{what}: {elapsed}"));
}

/// Ready once somebody sleeps on the clock for exactly so long.
pub(crate) async fn until_waiting(clock: &ManualClock, length: Duration) {
    let there = || clock.next_due() == Some(clock.now().plus(length));
    until(&format!("somebody sleeps for {length:?}"), there).await;
}

/// A request with a JSON body (null: none), by an ordinary client.
pub(crate) async fn call(addr: SocketAddr, method: &str, path: &str, body: Value) -> Answer {
    call_as(addr, "curl/8.0", method, path, body).await
}

/// The same by another user agent.
pub(crate) async fn call_as(addr: SocketAddr, agent: &str, method: &str, path: &str, body: Value) -> Answer {
    ask(addr, &request(agent, method, path, &body)).await
}

/// The bytes of such a request.
pub(crate) fn request(agent: &str, method: &str, path: &str, body: &Value) -> Vec<u8> {
    let lead = format!("{method} {path} HTTP/1.1\r\nHost: cube.test\r\nUser-Agent: {agent}\r\n");
    if body.is_null() {
        return format!("{lead}\r\n").into_bytes();
    }
    let body = body.to_string();
    let length = body.len();
    format!("{lead}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// One request on a connection of its own; an empty answer if the connection ends, or nothing comes.
pub(crate) async fn ask(addr: SocketAddr, request: &[u8]) -> Answer {
    let mut tcp = TcpStream::connect(addr).await.expect("the simulator listens");
    // It may answer and close before it has read all of a bad request.
    let _broken = tcp.write_all(request).await;
    let head_only = request.starts_with(b"HEAD ");
    let mut bytes = Vec::new();
    while !complete(&bytes, head_only) {
        match within(&WallClock, PATIENCE, tcp.read_buf(&mut bytes)).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => break,
        }
    }
    parse(&bytes, head_only)
}

fn complete(bytes: &[u8], head_only: bool) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    match framing(head, head_only) {
        "chunked" => body.ends_with("0\r\n\r\n"),
        "length" => {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            length.is_some_and(|length| length.parse() == Ok(body.len()))
        }
        "close" => false,
        _ => true,
    }
}

fn framing(head: &str, head_only: bool) -> &'static str {
    let has = |line: &str| head.lines().any(|held| held.starts_with(line));
    if head_only || head.contains(" 204 ") {
        "none"
    } else if has("transfer-encoding: chunked") {
        "chunked"
    } else if has("content-length: ") {
        "length"
    } else {
        "close"
    }
}

fn parse(bytes: &[u8], head_only: bool) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let rest = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n");
    let interim = rest.is_some();
    let Some((head, body)) = rest.unwrap_or(&text).split_once("\r\n\r\n") else {
        return Answer::default();
    };
    let framing = framing(head, head_only);
    let mut lines = head.split("\r\n").map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    let status: Vec<&str> = status.trim_start_matches("HTTP/").splitn(3, ' ').take(2).collect();
    let body = if framing == "chunked" { unchunked(body) } else { body.to_owned() };
    Answer {
        status: status.join(" "),
        framing,
        headers: lines.filter(|line| !line.starts_with("date: ")).collect(),
        interim,
        length: body.len(),
        body,
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        // Compressed bytes are not text, and not compared.
        let Some(chunk) = tail.get(..size).filter(|_| size > 0) else {
            break;
        };
        body.push_str(chunk);
        rest = tail.get(size + 2..).unwrap_or_default();
    }
    body
}
