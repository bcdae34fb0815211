//! The skin: client connections in, governed calls to [`Calls`], everything else straight through.
//!
//! Must stay true: what is not governed goes both ways unchanged (no `Via`, no `X-Forwarded-*`), streaming, never buffered;
//! a governed call runs to its end whether or not its caller waits; every request is logged and observed exactly once.
//! Deliberately absent: any rule about who may do what. The skin knows no tenants, no sandboxes and no paths.

mod account;
mod answers;
mod govern;
mod headers;
mod listener;
mod pass;
pub mod settings;
mod upload;

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::cube::transport::{ClockTimer, Transport};
use crate::time::{Chance, Clock};
use crate::verdict::Reason;

pub use account::{Ending, Finished, Observer};
pub use listener::{Listener, service};

use crate::calls::seam::{Calls, Route};
use account::{Account, AnswerBody};
use answers::Cause;
use headers::Wish;
use upload::Willing;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How the skin behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether a request without `x-request-id` gets one, up and back.
    pub request_ids: bool,
    /// Longest wait for an answer's head, from the end of the request.
    pub answer_limit: Duration,
    /// Most bytes of a governed call's body; a call may ask for less.
    pub body_limit: usize,
    /// Longest time the body of a governed call may take to arrive.
    pub body_patience: Duration,
    /// Longest wait for the upstream's `100 Continue` before the body is sent anyway.
    pub continue_wait: Duration,
    /// Idle client connections are kept for this long: longer than clients keep theirs, so that they close first. The
    /// HTTP library has one clock for waiting between requests and for reading a head, so a client that dribbles its head
    /// is cut off only after this time too; until then it holds a connection and nothing else.
    pub idle: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_ids: true,
            answer_limit: Duration::from_mins(5),
            body_limit: 2 * 1024 * 1024,
            body_patience: Duration::from_secs(30),
            continue_wait: Duration::from_secs(1),
            idle: Duration::from_secs(620),
        }
    }
}

/// What the skin works with.
pub struct Wiring {
    /// Governance.
    pub calls: Arc<dyn Calls>,
    /// The way to the Cube API.
    pub upstream: Transport,
    /// Told of each finished request.
    pub observer: Arc<dyn Observer>,
    /// For its patience.
    pub clock: Arc<dyn Clock>,
    /// For request ids.
    pub chance: Arc<Chance>,
}

impl fmt::Debug for Wiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wiring").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

/// The proxy: shared by all client connections.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    wiring: Wiring,
    /// How long idle connections are kept once the end has been told, if not for [`LINGER`].
    linger: OnceLock<Duration>,
}

/// What an answer consists of: our own bytes, or the upstream's stream.
type Content = Either<Full<Bytes>, Incoming>;

/// An answer on its way out of the skin's parts.
struct Outcome {
    answer: Response<Content>,
    ending: Ending,
    /// The skin's own refusal; those of governance are counted there.
    refused: Option<Reason>,
    /// Held until the answer's end: see [`Willing`].
    willing: Option<Arc<Willing>>,
}

impl Outcome {
    fn whole(answer: Response<Bytes>) -> Self {
        let answer = answer.map(|bytes| Either::Left(Full::new(bytes)));
        Self { answer, ending: Ending::Complete, refused: None, willing: None }
    }

    fn refused(cause: Cause) -> Self {
        let ending = if cause == Cause::Panicked { Ending::Panicked } else { Ending::Complete };
        Self { ending, refused: Some(cause.refusal().reason), ..Self::whole(cause.answer()) }
    }
}

impl Proxy {
    /// Puts the skin together.
    #[must_use]
    pub fn build(settings: Settings, wiring: Wiring) -> Arc<Self> {
        Arc::new(Self { settings, wiring, linger: OnceLock::new() })
    }

    /// Says, before the end is told, for how long idle connections are kept then. What counts is what is said first.
    pub fn linger(&self, length: Duration) {
        let _first = self.linger.set(length);
    }

    /// One request, from its head to the head of its answer. The wrapper that logs and counts; no decision is made here.
    async fn handle(&self, mut request: Request<Incoming>) -> Response<AnswerBody> {
        let id = self.request_id(&mut request);
        let mut account = Account::open(&request, id.as_ref(), Arc::clone(&self.wiring.observer));
        let mut outcome = self.exchange(request, &mut account).await;
        if let Some(id) = id {
            outcome.answer.headers_mut().entry(REQUEST_ID).or_insert(id);
        }
        account.answered(outcome)
    }

    async fn exchange(&self, mut request: Request<Incoming>, account: &mut Account) -> Outcome {
        if request.method() == Method::CONNECT {
            return Outcome::refused(Cause::ConnectMethod);
        }
        let switch = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        let wish = headers::clean_request(&mut head);
        match self.wiring.calls.route(&mut head) {
            Route::Answer(answer) => Outcome::whole(answer),
            Route::Pass => {
                let switch = (wish == Wish::Upgrade).then_some(switch);
                pass::through(self, head, body, switch).await
            }
            Route::Govern { body_limit } => {
                account.governed();
                headers::without_upgrade(&mut head.headers);
                govern::run(self, head, body, body_limit.min(self.settings.body_limit)).await
            }
        }
    }

    /// The request's id: the client's own, else (if switched on) one that we make and send up.
    fn request_id(&self, request: &mut Request<Incoming>) -> Option<HeaderValue> {
        if !self.settings.request_ids {
            return None;
        }
        let there = request.headers().get(REQUEST_ID).cloned();
        there.or_else(|| {
            let made = HeaderValue::from_str(&self.wiring.chance.hex(16)).ok()?;
            request.headers_mut().insert(REQUEST_ID, made.clone());
            Some(made)
        })
    }
}

/// How long a client that keeps its connection may still use it once the end has been told. Closed at once, it would be
/// closed in the face of whoever is just sending; in this time everybody who is busy is told so with an answer.
pub const LINGER: Duration = Duration::from_secs(1);

/// Serves one client connection to its end. Once `drain` is true, what is in flight or still comes is answered with
/// `Connection: close`; a connection that stays idle is closed after [`LINGER`], or [as long as was said](Proxy::linger).
///
/// A client that closes its sending side is gone (as for Cube itself): only so can a hang-up be told from patience.
pub async fn serve_connection<S>(io: S, proxy: Arc<Proxy>, drain: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (shared, draining) = (Arc::clone(&proxy), drain.clone());
    let service = service_fn(move |request| {
        let (proxy, draining) = (Arc::clone(&shared), draining.clone());
        async move {
            let mut answer = proxy.handle(request).await;
            if *draining.borrow() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .preserve_header_case(true)
        .timer(ClockTimer(Arc::clone(&proxy.wiring.clock)))
        .header_read_timeout(proxy.settings.idle)
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let over = async {
        told(drain).await;
        proxy.wiring.clock.sleep(*proxy.linger.get().unwrap_or(&LINGER)).await;
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = over => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "a client connection broke off");
    }
}

/// Ready once `drain` is true; never if its sender goes away without having said so.
async fn told(mut drain: watch::Receiver<bool>) {
    while !*drain.borrow_and_update() {
        if drain.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
