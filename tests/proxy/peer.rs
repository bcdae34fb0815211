//! A raw TCP peer, upstream or client. Waits are bounded by the machine's clock, so that a broken proxy fails a test
//! instead of hanging it; no test depends on how long anything takes.

use std::net::SocketAddr;
use std::time::Duration;

use cubewarden::time::{WallClock, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = within(&WallClock, PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// An upstream that does what the test tells it.
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn listen() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = soon("a connection", self.0.accept()).await.unwrap();
        Peer { stream, ahead: Vec::new() }
    }
}

pub(crate) struct Peer {
    stream: TcpStream,
    ahead: Vec<u8>,
}

impl Peer {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, ahead: Vec::new() }
    }

    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
    }

    /// Reads up to and including the first `end`.
    pub(crate) async fn hear_until(&mut self, end: &str) -> String {
        loop {
            let found = self.ahead.windows(end.len()).position(|window| window == end.as_bytes());
            if let Some(at) = found {
                return self.take(at + end.len());
            }
            let heard = self.more().await;
            let said = String::from_utf8_lossy(&self.ahead);
            assert!(heard, "the peer closed before {end:?}, having said {said:?}");
        }
    }

    /// Reads a head, to its empty line.
    pub(crate) async fn hear_head(&mut self) -> String {
        self.hear_until("\r\n\r\n").await
    }

    /// Reads exactly so many bytes.
    pub(crate) async fn hear(&mut self, length: usize) -> String {
        while self.ahead.len() < length {
            let heard = self.more().await;
            let said = String::from_utf8_lossy(&self.ahead);
            assert!(heard, "the peer closed after {said:?}");
        }
        self.take(length)
    }

    /// Reads to the end; an end by reset counts as one.
    pub(crate) async fn hear_all(&mut self) -> String {
        while self.more().await {}
        self.take(self.ahead.len())
    }

    /// Closes the sending side only.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Whether the other side has neither said anything nor closed; looks once and does not wait.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let looked = self.stream.try_read(&mut byte);
        self.ahead.is_empty() && looked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// One char for each byte, so that nothing is lost that is not text.
    fn take(&mut self, length: usize) -> String {
        self.ahead.drain(..length).map(char::from).collect()
    }

    async fn more(&mut self) -> bool {
        let read = soon("bytes", self.stream.read_buf(&mut self.ahead)).await;
        read.is_ok_and(|length| length > 0)
    }
}

/// The value of a header line, by its name in any case.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (there, value) = line.split_once(": ")?;
        there.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The answer, with word that its connection will close.
pub(crate) fn closing(answer: &str) -> String {
    answer.replacen("\r\n", "\r\nConnection: close\r\n", 1)
}
