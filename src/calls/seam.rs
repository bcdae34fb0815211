//! The seam between the skin and the calls: what a request becomes, how a governed call ends, who waits for it.

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tokio::sync::watch;

/// The seam to governance.
#[async_trait]
pub trait Calls: Send + Sync + 'static {
    /// Looks only at the head, and may swap the credential on it. Quick: it waits for nothing.
    fn route(&self, head: &mut Parts) -> Route;
    /// A governed call, run to its end in a task of its own. `caller` tells when nobody awaits the answer any more.
    async fn call(&self, head: Parts, body: Bytes, caller: Caller) -> Reply;
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Route {
    /// It is answered at once.
    Answer(Response<Bytes>),
    /// Straight through.
    Pass,
    /// To [`Calls::call`], with its body read up to the limit.
    Govern {
        /// Most bytes a body may have.
        body_limit: usize,
    },
}

/// How a governed call ends.
#[derive(Debug)]
pub enum Reply {
    /// The answer.
    Answer(Response<Bytes>),
    /// Allowed: pass this head and body on and stream the answer back.
    Forward(Parts, Bytes),
}

/// Whoever waits for the answer of a governed call.
#[derive(Clone, Debug)]
pub struct Caller(watch::Receiver<()>);

/// As long as this lives, its [`Caller`] is there.
#[derive(Debug)]
pub struct Waiting(#[expect(dead_code, reason = "held for its drop")] watch::Sender<()>);

impl Caller {
    /// A caller, and what keeps it from being gone.
    #[must_use]
    pub fn pair() -> (Waiting, Self) {
        let (sender, receiver) = watch::channel(());
        (Waiting(sender), Self(receiver))
    }

    /// Whether nobody awaits the answer any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Ready once nobody awaits the answer any more.
    pub async fn gone(&self) {
        let mut receiver = self.0.clone();
        // Nothing is ever sent: the only change is the sender's end.
        while receiver.changed().await.is_ok() {}
    }
}
