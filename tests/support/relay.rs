//! A TCP relay before a redis-server's unix socket: it can be cut, lose a reply, and be deaf to subscriptions.
//!
//! Must stay true: without faults every byte passes; what a fault cuts, the server has received or not as the name says.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Open,
    /// Connections are closed, the old and the new.
    Cut,
    /// Those that subscribe are.
    Deaf,
}

/// See the head of the file.
pub(crate) struct Relay {
    port: u16,
    mode: watch::Sender<Mode>,
    /// How many commits will be carried out without a reply.
    replies_to_lose: Arc<AtomicU64>,
    accept: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn before(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, replies_to_lose) = (watch::Sender::new(Mode::Open), Arc::new(AtomicU64::new(0)));
        let (modes, lose) = (mode.clone(), replies_to_lose.clone());
        let accept = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                tokio::spawn(pass(client, server, modes.subscribe(), lose.clone()));
            }
        });
        Self { port, mode, replies_to_lose, accept }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    pub(crate) fn deafen(&self) {
        self.mode.send_replace(Mode::Deaf);
    }

    pub(crate) fn heal(&self) {
        self.mode.send_replace(Mode::Open);
    }

    /// The next commit reaches Redis and is done; then the connection breaks instead of its reply.
    pub(crate) fn lose_reply_to_commit(&self) {
        self.replies_to_lose.store(1, SeqCst);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accept.abort();
        self.cut();
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: UnixStream,
    mut mode: watch::Receiver<Mode>,
    lose: Arc<AtomicU64>,
) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut subscribes, mut mute) = (false, false);
    loop {
        let allowed = match *mode.borrow_and_update() {
            Mode::Open => true,
            Mode::Cut => false,
            Mode::Deaf => !subscribes,
        };
        if !allowed {
            return;
        }
        tokio::select! {
            // An error means that the relay is gone.
            changed = mode.changed() => if changed.is_err() { return },
            read = client.read(&mut up) => {
                let Ok(read @ 1..) = read else { return };
                subscribes |= contains(&up[..read], b"SUBSCRIBE");
                // The channel of hints is named by commits and by those who subscribe to it.
                let commits = !subscribes && contains(&up[..read], b":changes");
                mute |= commits && lose.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                if server.write_all(&up[..read]).await.is_err() { return }
            }
            read = server.read(&mut down) => {
                let Ok(read @ 1..) = read else { return };
                if mute || client.write_all(&down[..read]).await.is_err() { return }
            }
        }
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}
