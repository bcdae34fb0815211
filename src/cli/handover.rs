//! A new process takes the listening sockets over from the one that serves, so that nobody is refused in between.
//!
//! The old one keeps a Unix socket (`listen.upgrade_socket`); the new one connects, is given copies of the listening sockets,
//! and says when the old one may go: at once if the ledger is shared and it serves already, or (one process at a time on an
//! embedded ledger) before it opens the ledger, which it then waits for. Connections that come meanwhile wait in the sockets.
//!
//! pingora-core has a transfer of its own; it is not used, for it makes the socket writable for everybody, takes the process
//! down on a surprise and lets the old process decide before the new one has come up.
//!
//! Must stay true: until a successor has said its word, the old process serves as if nobody had asked; only the user that
//! runs it (or root) is given anything.

use std::fs::Permissions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

/// How many sockets there are: the clients', the operator's.
const SOCKETS: usize = 2;
/// What comes with the sockets: the version of this talk.
const VERSION: u8 = 1;
const SHARED: u8 = b'S';
const WAITS: u8 = b'W';

/// What the old process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The new one serves already.
    Serves,
    /// The new one waits for the ledger.
    Waits,
}

/// How long the old process keeps idle connections of clients while the new one serves already: that costs nothing, and
/// SDKs close theirs after 4 or 5 s, so no request crosses a close.
const LINGER: Duration = Duration::from_secs(10);

impl Word {
    /// How long clients are given to come over; where the new process waits for us, everybody else does, too.
    pub(super) fn linger(self, drain: Duration) -> Option<Duration> {
        (self == Self::Serves).then(|| LINGER.min(drain / 2))
    }
}

/// Where a successor asks.
pub(super) struct Post {
    listener: UnixListener,
    /// The user that runs us.
    user: u32,
    copies: [OwnedFd; SOCKETS],
}

/// The line to a successor; open for as long as we live, for its end tells that we are gone.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) word: Word,
    _line: UnixStream,
}

impl Post {
    /// Opens the post at `path`, in the place of a predecessor's.
    pub(super) fn open(path: &Path, sockets: [&dyn AsFd; SOCKETS]) -> anyhow::Result<Self> {
        let opened = || {
            let [proxy, admin] = sockets;
            let copies = [proxy.as_fd().try_clone_to_owned()?, admin.as_fd().try_clone_to_owned()?];
            // Under another name first, so that nobody ever finds one that is half made, or none.
            let mut beside = path.as_os_str().to_owned();
            beside.push(".new");
            match std::fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(&beside)?;
            std::fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
            let user = std::fs::metadata(&beside)?.uid();
            std::fs::rename(&beside, path)?;
            Ok(Self { listener, user, copies })
        };
        opened().with_context(|| format!("open {} (listen.upgrade_socket)", path.display()))
    }

    /// Ready when a successor has said its word. One that leaves without a word changes nothing.
    pub(super) async fn successor(self) -> Leaving {
        loop {
            match self.attend().await {
                Ok(leaving) => return leaving,
                Err(error) => {
                    tracing::warn!(%error, "a successor asked for the sockets and left again; serving on");
                }
            }
        }
    }

    async fn attend(&self) -> io::Result<Leaving> {
        let (line, _) = self.listener.accept().await?;
        let asks = line.peer_cred()?.uid();
        if asks != self.user && asks != 0 {
            return Err(io::Error::other(format!("it is another user's process ({asks})")));
        }
        give(&line, &self.copies).await?;
        tracing::info!("a successor has been given the sockets");
        let word = match hear(&line).await? {
            Some(SHARED) => Word::Serves,
            Some(WAITS) => Word::Waits,
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        Ok(Leaving { word, _line: line })
    }
}

/// The process that served before us.
#[derive(Debug)]
pub(super) struct Predecessor(UnixStream);

impl Predecessor {
    /// Asks at `path` for the sockets; `None` if nobody is there.
    pub(super) async fn find(path: &Path) -> anyhow::Result<Option<(Self, [TcpListener; SOCKETS])>> {
        let line = match UnixStream::connect(path).await {
            Ok(line) => line,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("ask at {} for the sockets", path.display()));
            }
        };
        let sockets = take(&line).await.context("take the sockets over")?;
        let sockets = <[OwnedFd; SOCKETS]>::try_from(sockets).map_err(|sockets| {
            anyhow::anyhow!("the process that serves gave {} sockets, not {SOCKETS}", sockets.len())
        })?;
        Ok(Some((Self(line), sockets.map(TcpListener::from))))
    }

    /// Tells it that it may go. One that is gone meanwhile needs no word.
    pub(super) async fn tell(&self, word: Word) {
        let byte = match word {
            Word::Serves => SHARED,
            Word::Waits => WAITS,
        };
        if let Err(error) = self.0.async_io(Interest::WRITABLE, || self.0.try_write(&[byte])).await {
            tracing::warn!(%error, "the process that served is gone already");
        }
    }

    /// Ready when it is gone.
    pub(super) async fn gone(&self) {
        // A line that breaks is as good as one that ends.
        let _end = hear(&self.0).await;
    }
}

/// One byte, or the end.
async fn hear(line: &UnixStream) -> io::Result<Option<u8>> {
    loop {
        line.readable().await?;
        let mut byte = [0];
        match line.try_read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(byte[0])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn give(line: &UnixStream, sockets: &[OwnedFd; SOCKETS]) -> io::Result<()> {
    let sent = || {
        let sockets = sockets.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&sockets));
        Ok(sendmsg(line, &[IoSlice::new(&[VERSION])], &mut rights, SendFlags::NOSIGNAL)?)
    };
    line.async_io(Interest::WRITABLE, sent).await.map(|_| ())
}

async fn take(line: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let received = || {
        let mut version = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut content = [IoSliceMut::new(&mut version)];
        let heard = recvmsg(line, &mut content, &mut rights, RecvFlags::CMSG_CLOEXEC)?;
        let sockets = rights.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
            _ => None,
        });
        let sockets: Vec<OwnedFd> = sockets.flatten().collect();
        match (heard.bytes, version) {
            (0, _) => Err(io::Error::other("the process that serves is leaving already")),
            (_, [VERSION]) => Ok(sockets),
            _ => Err(io::Error::other("the process that serves speaks another version of this")),
        }
    };
    line.async_io(Interest::READABLE, received).await
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[tokio::test]
    async fn whoever_asks_gets_the_same_sockets_and_who_is_gone_needs_no_word() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("upgrade");
        assert!(Predecessor::find(&path).await.unwrap().is_none());
        let [proxy, admin] = [(); SOCKETS].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = [proxy.local_addr().unwrap(), admin.local_addr().unwrap()];
        let waiting = tokio::spawn(Post::open(&path, [&proxy, &admin]).unwrap().successor());
        drop((proxy, admin));
        // The first leaves without a word.
        drop(Predecessor::find(&path).await.unwrap().unwrap());
        let (predecessor, sockets) = Predecessor::find(&path).await.unwrap().unwrap();
        assert_eq!(sockets.map(|socket| socket.local_addr().unwrap()), addresses);
        assert!(!waiting.is_finished());
        predecessor.tell(Word::Waits).await;
        let leaving = waiting.await.unwrap();
        assert_eq!(leaving.word, Word::Waits);
        drop(leaving);
        predecessor.gone().await;
        predecessor.tell(Word::Serves).await;
        // The socket is still there, and nobody behind it.
        assert!(path.exists() && Predecessor::find(&path).await.unwrap().is_none());
    }
}
