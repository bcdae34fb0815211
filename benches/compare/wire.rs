//! As much HTTP/1.1 as both ends of a measurement need: one message after the other, framed by `Content-Length`.
//!
//! Must stay true: it costs a fraction of what is measured, so it parses nothing that nobody asks for. An answer without
//! a length has no body. Deliberately absent: chunks; nothing that is measured here sends any.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that carries one message at a time in each direction.
pub(super) struct Line {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// The message last read: where its head ends, and where it ends.
    frame: (usize, usize),
}

impl Line {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, buffer: Vec::with_capacity(4096), frame: (0, 0) }
    }

    pub(super) async fn connect(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self::new(socket))
    }

    /// Sends a request and reads its answer, which must have this status.
    pub(super) async fn ask(&mut self, request: &[u8], status: &str) -> Result<()> {
        self.send(request).await?;
        if !self.read().await? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let said = self.head().get(9..12).unwrap_or_default();
        if said == status.as_bytes() {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&self.buffer[..self.frame.1]).into_owned();
        let asked = String::from_utf8_lossy(request).lines().next().unwrap_or_default().to_owned();
        Err(Error::other(format!("wanted {status} to `{asked}`, got: {answer}")))
    }

    pub(super) async fn send(&mut self, message: &[u8]) -> Result<()> {
        self.socket.write_all(message).await
    }

    /// Reads the next message; false if the other side closed between two of them.
    pub(super) async fn read(&mut self) -> Result<bool> {
        self.buffer.drain(..self.frame.1);
        self.frame = (0, 0);
        loop {
            if let Some(frame) = frame(&self.buffer) {
                self.frame = frame;
                return Ok(true);
            }
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() { Ok(false) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// The head of the message last read, with the empty line.
    pub(super) fn head(&self) -> &[u8] {
        &self.buffer[..self.frame.0]
    }

    /// Its body.
    pub(super) fn body(&self) -> &[u8] {
        &self.buffer[self.frame.0..self.frame.1]
    }
}

/// Where the head of the first message ends and where the whole ends; `None` if it is not all there.
fn frame(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let end = head + content_length(&buffer[..head]);
    (buffer.len() >= end).then_some((head, end))
}

fn content_length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"content-length:";
    let lines = head.split(|byte| *byte == b'\n');
    let mut values = lines.filter_map(|line| {
        let (name, value) = line.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then_some(value)
    });
    let value = values.next().and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
