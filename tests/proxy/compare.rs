//! One raw request to two addresses, the answers side by side: status line, header lines in order, kind of framing, body,
//! trailers. What is known to differ from one moment to the next is masked by its name.

use std::net::SocketAddr;

use super::front::Front;
use super::peer::{Peer, Upstream, field};

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is none: HEAD, 204, 304.
    Bodiless,
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The connection's end.
    Close,
}

/// An answer, taken apart but not interpreted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status_line: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) body: String,
    pub(crate) trailers: Vec<(String, String)>,
}

/// Sends the raw `request` on a connection of its own and reads the one answer to it; interim answers are left out.
pub(crate) async fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let request = request.as_ref();
    let mut peer = Peer::connect(address).await;
    peer.say(request).await;
    let mut head = peer.hear_head().await;
    while head.starts_with("HTTP/1.1 1") {
        head = peer.hear_head().await;
    }
    let (status_line, lines) = head.split_once("\r\n").unwrap();
    let framing = framing(request, &head);
    let (body, trailers) = match framing {
        Framing::Bodiless => (String::new(), Vec::new()),
        Framing::Length => {
            let length = field(&head, "content-length").unwrap().parse().unwrap();
            (peer.hear(length).await, Vec::new())
        }
        Framing::Chunked => chunked(&mut peer).await,
        Framing::Close => (peer.hear_all().await, Vec::new()),
    };
    Answer { status_line: status_line.to_owned(), fields: fields(lines), framing, body, trailers }
}

/// Asks both and says how the answers differ; `None` if they do not. Values of the `masked` fields do not count, nor of `date`.
pub(crate) async fn difference(
    request: impl AsRef<[u8]>,
    direct: SocketAddr,
    through: SocketAddr,
    masked: &[&str],
) -> Option<String> {
    let request = request.as_ref();
    let direct = mask(ask(direct, request).await, masked);
    let through = mask(ask(through, request).await, masked);
    (direct != through).then(|| {
        let request = String::from_utf8_lossy(&request[..request.len().min(400)]);
        format!("{request:?}\n direct:  {direct:?}\n through: {through:?}")
    })
}

fn mask(mut answer: Answer, masked: &[&str]) -> Answer {
    for (name, value) in answer.fields.iter_mut().chain(&mut answer.trailers) {
        if masked.iter().chain(&["date"]).any(|known| name.eq_ignore_ascii_case(known)) {
            "*".clone_into(value);
        }
    }
    answer
}

fn framing(request: &[u8], head: &str) -> Framing {
    let status = head.split(' ').nth(1).unwrap();
    if request.starts_with(b"HEAD ") || status == "204" || status == "304" {
        Framing::Bodiless
    } else if field(head, "transfer-encoding").is_some() {
        Framing::Chunked
    } else if field(head, "content-length").is_some() {
        Framing::Length
    } else {
        Framing::Close
    }
}

/// The body without its chunks' borders, which no hop promises to keep, and the trailers.
async fn chunked(peer: &mut Peer) -> (String, Vec<(String, String)>) {
    let mut body = String::new();
    loop {
        let line = peer.hear_until("\r\n").await;
        let size = line.trim_end().split(';').next().unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&peer.hear(size).await);
        peer.hear(2).await;
    }
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
        trailers.push_str(&peer.hear_until("\r\n").await);
    }
    (body, fields(&trailers))
}

fn fields(lines: &str) -> Vec<(String, String)> {
    lines
        .split("\r\n")
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// An upstream that gives each connection one of these answers, by the request's path.
async fn serve(upstream: Upstream) {
    loop {
        let mut up = upstream.accept().await;
        tokio::spawn(async move {
            let asked = up.hear_head().await;
            let path = asked.split(' ').nth(1).unwrap().to_owned();
            // An empty answer's length must keep its place too.
            let rest = match path.as_str() {
                "/length" => "X-A: 1\r\nx-a: 2\r\ncontent-length: 3\r\n\r\nabc",
                "/chunked" => "Vary: a\r\nvary: b\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                "/other" => "x-b: 1\r\nx-a: 2\r\ncontent-length: 3\r\n\r\nabc",
                _ => "Content-Length: 0\r\nx-last: 1\r\n\r\n",
            };
            up.say(format!("HTTP/1.1 200 OK\r\ndate: {path}\r\n{rest}")).await;
        });
    }
}

#[tokio::test]
async fn answers_through_the_proxy_are_the_direct_ones_and_a_difference_is_seen() {
    let upstream = Upstream::listen().await;
    let direct = upstream.address();
    tokio::spawn(serve(upstream));
    let front = Front::before(direct).await;
    for path in ["/length", "/chunked", "/none"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(difference(&request, direct, front.address, &[]).await, None);
    }
    let one = ask(direct, "GET /length HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let other = ask(direct, "GET /other HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_ne!(mask(one.clone(), &[]), mask(other.clone(), &[]));
    assert_eq!((one.body.as_str(), one.framing), (other.body.as_str(), Framing::Length));
}
