//! A TCP connection that remembers what it read, byte for byte, and can be told to end badly.
//!
//! hyper lowers header names and forgets their places; what a client really sent stands only here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The head of a request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct RawHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version: String,
    /// In order, with their case, repeated ones too.
    pub(crate) headers: Vec<(String, String)>,
}

/// What is known and ordered about one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<Mutex<Reel>>);

#[derive(Debug, Default)]
struct Reel {
    read: Vec<u8>,
    written: Vec<u8>,
    twice: bool,
    reset: bool,
}

impl Tape {
    /// Takes the oldest request off the tape; call it once its body has been read.
    pub(crate) fn take_request(&self) -> RawHead {
        let mut reel = self.lock();
        let Some(end) = find(&reel.read, b"\r\n\r\n") else {
            return RawHead::default();
        };
        let head = parse_head(&String::from_utf8_lossy(&reel.read[..end]));
        let length = end + 4 + body_length(&head, &reel.read[end + 4..]);
        let length = length.min(reel.read.len());
        reel.read.drain(..length);
        head
    }

    /// The connection will end with a reset instead of a close.
    pub(crate) fn reset_at_end(&self) {
        self.lock().reset = true;
    }

    /// The answer that is about to be written will be written twice.
    pub(crate) fn answer_twice(&self) {
        let mut reel = self.lock();
        reel.twice = true;
        reel.written.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection itself.
#[derive(Debug)]
pub(crate) struct Wire {
    tcp: TcpStream,
    tape: Tape,
    echo: Vec<u8>,
}

impl Wire {
    /// A connection that plays onto `tape`.
    pub(crate) fn new(tcp: TcpStream, tape: Tape) -> Self {
        Self { tcp, tape, echo: Vec::new() }
    }

    /// Once an answer that is to be doubled has been written whole, its copy stands ready.
    fn prepare_echo(&mut self) {
        let mut reel = self.tape.lock();
        if reel.twice && answer_is_whole(&reel.written) {
            reel.twice = false;
            self.echo = std::mem::take(&mut reel.written);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        self.tape.lock().read.extend_from_slice(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.tcp).poll_write(cx, bytes))?;
        let mut reel = self.tape.lock();
        if reel.twice {
            reel.written.extend_from_slice(&bytes[..written]);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.prepare_echo();
        while !self.echo.is_empty() {
            let this = &mut *self;
            let written = ready!(Pin::new(&mut this.tcp).poll_write(cx, &this.echo))?;
            self.echo.drain(..written);
        }
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A shutdown would say goodbye; a reset must not.
        if self.tape.lock().reset {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.tape.lock().reset {
            // If the option cannot be set the peer sees a plain close, which every test of a reset notices.
            let _unset = self.tcp.set_zero_linger();
        }
    }
}

fn answer_is_whole(written: &[u8]) -> bool {
    let Some(end) = find(written, b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&written[..end]).to_lowercase();
    !head.contains("transfer-encoding: chunked") || written.ends_with(b"0\r\n\r\n")
}

fn parse_head(text: &str) -> RawHead {
    let mut lines = text.trim_start_matches("\r\n").split("\r\n");
    let mut first = lines.next().unwrap_or_default().splitn(3, ' ').map(str::to_owned);
    let mut word = || first.next().unwrap_or_default();
    let (method, target, version) = (word(), word(), word());
    let header =
        |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    RawHead { method, target, version, headers: lines.filter_map(header).collect() }
}

fn body_length(head: &RawHead, rest: &[u8]) -> usize {
    let value =
        |name: &str| head.headers.iter().find(|(held, _)| held.eq_ignore_ascii_case(name)).map(|(_, v)| v);
    if value("transfer-encoding").is_some() {
        return chunked_length(rest);
    }
    value("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Trailers are not expected; a body that has them ends at the tape's end.
fn chunked_length(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(line) = find(&rest[at..], b"\r\n") {
        let size = String::from_utf8_lossy(&rest[at..at + line]);
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16).unwrap_or(0);
        at = (at + line + 2 + size + 2).min(rest.len());
        if size == 0 {
            return at;
        }
    }
    rest.len()
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}
