//! A proxy on a free port, before an upstream of the test's, with a clock of the test's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cubewarden::calls::seam::{Caller, Calls, Reply, Route};
use cubewarden::cube::transport::{self, Transport};
use cubewarden::proxy::{Finished, Observer, Proxy, Settings, Wiring, serve_connection};
use cubewarden::time::{Chance, Clock, ManualClock, UnixMillis};
use http::request::Parts;
use http::{Response, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::peer::{Peer, soon};

/// How many bytes a governed call's body may have in these tests.
pub(crate) const BODY_LIMIT: usize = 64;

/// A small governance: what is under `/governed/` is its, and its last segment says how it ends.
struct Governance(mpsc::UnboundedSender<String>);

#[async_trait]
impl Calls for Governance {
    fn route(&self, head: &mut Parts) -> Route {
        if head.uri.path().starts_with("/governed/") {
            Route::Govern { body_limit: BODY_LIMIT }
        } else {
            Route::Pass
        }
    }

    async fn call(&self, head: Parts, body: Bytes, caller: Caller) -> Reply {
        let path = head.uri.path().to_owned();
        self.0.send(format!("began {path}")).unwrap();
        match path.as_str() {
            "/governed/forward" => return Reply::Forward(head, body),
            "/governed/panic" => panic!("this call panics on purpose"),
            "/governed/patient" => {
                caller.gone().await;
                assert!(caller.is_gone());
            }
            "/governed/empty" => {
                let mut answer = Response::new(Bytes::new());
                *answer.status_mut() = StatusCode::NO_CONTENT;
                return Reply::Answer(answer);
            }
            _ => {}
        }
        self.0.send(format!("ended {path}")).unwrap();
        let answer = Response::builder()
            .header("Connection", "close, X-Inner")
            .header("X-Inner", "hop")
            .header("Transfer-Encoding", "chunked")
            .header("X-Outer", "end");
        Reply::Answer(answer.body(body).unwrap())
    }
}

struct Recorder(mpsc::UnboundedSender<Finished>);

impl Observer for Recorder {
    fn finished(&self, finished: &Finished) {
        // A test that is over does not listen any more.
        let _gone = self.0.send(finished.clone());
    }
}

/// The proxy under test.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) drain: watch::Sender<bool>,
    calls: mpsc::UnboundedReceiver<String>,
    finished: mpsc::UnboundedReceiver<Finished>,
}

impl Front {
    /// Before `upstream`, adding nothing of its own.
    pub(crate) async fn before(upstream: SocketAddr) -> Self {
        Self::with(upstream, "", false).await
    }

    pub(crate) async fn with(upstream: SocketAddr, prefix: &str, request_ids: bool) -> Self {
        let (proxy, clock, calls, finished) = wire(upstream, prefix, request_ids);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (drain, draining) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve_connection(stream, Arc::clone(&proxy), draining.clone()));
            }
        });
        Self { address, clock, drain, calls, finished }
    }

    pub(crate) async fn client(&self) -> Peer {
        Peer::connect(self.address).await
    }

    /// What the governed calls did, in order.
    pub(crate) async fn call(&mut self) -> String {
        soon("a governed call", self.calls.recv()).await.unwrap()
    }

    /// Whether no governed call did anything that was not heard yet.
    pub(crate) fn is_unasked(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }

    pub(crate) async fn finished(&mut self) -> Finished {
        soon("a request's end", self.finished.recv()).await.unwrap()
    }

    /// Moves the clock on by `by` once somebody waits for just that long or less.
    pub(crate) async fn pass(&self, by: Duration) {
        pass(&self.clock, by).await;
    }
}

pub(crate) async fn pass(clock: &ManualClock, by: Duration) {
    let waits = async {
        while clock.next_due().is_none_or(|due| due > clock.now().plus(by)) {
            tokio::task::yield_now().await;
        }
    };
    soon("somebody to wait on the clock", waits).await;
    clock.advance(by);
}

/// A wired proxy, and what a test holds of it.
pub(crate) fn wire(
    upstream: SocketAddr,
    prefix: &str,
    request_ids: bool,
) -> (Arc<Proxy>, ManualClock, mpsc::UnboundedReceiver<String>, mpsc::UnboundedReceiver<Finished>) {
    let clock = ManualClock::at(UnixMillis(1_000_000));
    let (called, calls) = mpsc::unbounded_channel();
    let (closed, finished) = mpsc::unbounded_channel();
    let base = format!("http://{upstream}{prefix}").parse().unwrap();
    let wiring = Wiring {
        calls: Arc::new(Governance(called)),
        upstream: Transport::build(&transport::Settings::to(base)).unwrap(),
        observer: Arc::new(Recorder(closed)),
        clock: Arc::new(clock.clone()),
        chance: Arc::new(Chance::seeded(7)),
    };
    let settings = Settings { request_ids, ..Settings::default() };
    (Proxy::build(settings, wiring), clock, calls, finished)
}
