//! The upstream client: two pooled HTTP/1.1 clients (reads, writes) under a tower layer that measures them.
//!
//! Must stay true: nothing is sent twice. The one resend is the library's own, of a request that it hands back whole
//! because a kept connection closed before it took the request up; not one byte of it was written then.
//! Both pools drop idle connections sooner than Cube does, writes much sooner: a POST on a connection that the upstream is
//! just closing is lost with its outcome unknown.
//! Deliberately absent: redirects, cookies, decompression, retries by status. Header names keep their case, the path its bytes.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, Uri, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use crate::time::{Clock, Sleep, Stopwatch, WallClock, within};

/// The largest answer that a governed call takes in.
const ANSWER_LIMIT: usize = 64 * 1024 * 1024;

/// What lies under an error, for the log.
pub type Source = Box<dyn Error + Send + Sync>;

/// Told of each exchange: method, status (`None` if there was no answer), time until the answer's head.
pub type Observe = Arc<dyn Fn(&Method, Option<u16>, Duration) + Send + Sync>;

/// Where the upstream is and how long connections to it are kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `http://host:port[/prefix]`
    pub base: Uri,
    /// Idle connections for reads are dropped after this; keep it below the upstream's own keep-alive.
    pub idle: Duration,
    /// The same for writes.
    pub write_idle: Duration,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
}

impl Settings {
    /// The usual times for the upstream at `base`.
    #[must_use]
    pub fn to(base: Uri) -> Self {
        Self {
            base,
            idle: Duration::from_secs(4),
            write_idle: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// The upstream's address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the upstream address must look like http://host:port, not `{0}`")]
pub struct BadBase(Uri);

/// No answer came; whether anything can have been done is what a caller must know.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// No connection: the upstream has seen nothing.
    #[error("connect to the upstream")]
    NotSent(#[source] Source),
    /// Something may have been sent; the outcome is unknown.
    #[error("exchange with the upstream")]
    Lost(#[source] Source),
}

impl TransportError {
    fn lost(source: impl Into<Source>) -> Self {
        Self::Lost(source.into())
    }
}

impl From<hyper_util::client::legacy::Error> for TransportError {
    /// Only a failed connect proves that nothing was sent; all else is taken for lost.
    fn from(error: hyper_util::client::legacy::Error) -> Self {
        if error.is_connect() { Self::NotSent(error.into()) } else { Self::Lost(error.into()) }
    }
}

/// Any body. A type of its own, because with the bare box no caller's future is provably `Send` (its error type hides a lifetime).
struct UpBody(UnsyncBoxBody<Bytes, Source>);

impl Body for UpBody {
    type Data = Bytes;
    type Error = Source;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Source>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

type Lane = Measure<Client<HttpConnector, UpBody>>;

/// The upstream client. Cheap to share by reference; pools live as long as it does.
#[derive(Clone)]
pub struct Transport {
    target: Target,
    reads: Lane,
    writes: Lane,
}

impl Transport {
    /// A client for the upstream of `settings` that tells nobody how long exchanges took.
    ///
    /// # Errors
    /// [`BadBase`] if the address is not plain `http://` with a host.
    pub fn build(settings: &Settings) -> Result<Self, BadBase> {
        let nobody: Observe = Arc::new(|_, _, _| ());
        Self::build_on(settings, &nobody, &ClockTimer(Arc::new(WallClock)))
    }

    /// The same with a listener, and with a timer by which idle connections age.
    ///
    /// # Errors
    /// [`BadBase`] if the address is not plain `http://` with a host.
    pub fn build_on<T>(settings: &Settings, observe: &Observe, timer: &T) -> Result<Self, BadBase>
    where
        T: hyper::rt::Timer + Clone + Send + Sync + 'static,
    {
        let target = Target::of(&settings.base)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(settings.connect_timeout));
        let lane = |idle| {
            let client = Client::builder(TokioExecutor::new())
                .pool_idle_timeout(idle)
                .pool_timer(timer.clone())
                .http1_preserve_header_case(true)
                // Resends a request only if the library gives it back untouched from a reused connection.
                .retry_canceled_requests(true)
                .build(connector.clone());
            ServiceBuilder::new().layer(MeasureLayer(Arc::clone(observe))).service(client)
        };
        Ok(Self { target, reads: lane(settings.idle), writes: lane(settings.write_idle) })
    }

    /// Sends the request on and gives back the answer as soon as its head is there; both bodies stream.
    /// The request's target is rewritten to the upstream, its `Host` stays.
    ///
    /// # Errors
    /// [`TransportError`], which says whether anything can have been sent.
    pub async fn forward<B>(&self, request: Request<B>) -> Result<Response<Incoming>, TransportError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Source>,
    {
        let mut request = request.map(|body| UpBody(body.map_err(Into::into).boxed_unsync()));
        *request.uri_mut() = self.target.aim(request.uri()).map_err(|e| TransportError::NotSent(e.into()))?;
        *request.version_mut() = Version::HTTP_11;
        let lane = if request.method().is_safe() { &self.reads } else { &self.writes };
        Ok(lane.clone().oneshot(request).await?)
    }

    /// A whole exchange within `budget` of the clock's time: exact length up, the answer collected (to 64 MiB).
    ///
    /// # Errors
    /// [`TransportError`]; a budget that ran out and an answer that broke off or is too large are `Lost`.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        budget: Duration,
        clock: &dyn Clock,
    ) -> Result<Response<Bytes>, TransportError> {
        // Boxed: the state of an exchange is large, and callers hold several futures of this kind.
        let exchange = Box::pin(async {
            let (head, body) = self.forward(sized(request)).await?.into_parts();
            let whole = Limited::new(body, ANSWER_LIMIT).collect().await;
            let bytes = whole.map_err(TransportError::lost)?.to_bytes();
            Ok(Response::from_parts(head, bytes))
        });
        let outcome = within(clock, budget, exchange).await;
        outcome.unwrap_or_else(|late| Err(TransportError::lost(late)))
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Gives a request the framing of its body: `Content-Length`, never `Transfer-Encoding`.
/// A request that neither had nor needs a length (GET without a body) gets none.
pub fn sized(request: Request<Bytes>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let chunked = head.headers.remove(header::TRANSFER_ENCODING).is_some();
    let framed = chunked || head.headers.contains_key(header::CONTENT_LENGTH);
    let usual = matches!(head.method, Method::POST | Method::PUT | Method::PATCH);
    if framed || usual || !body.is_empty() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Request::from_parts(head, Full::new(body))
}

/// The upstream's address, ready to be put before a path.
#[derive(Clone, Debug)]
struct Target {
    authority: Authority,
    prefix: String,
}

impl Target {
    fn of(base: &Uri) -> Result<Self, BadBase> {
        match (base.scheme_str(), base.authority(), base.query()) {
            (Some("http"), Some(authority), None) => Ok(Self {
                authority: authority.clone(),
                prefix: base.path().trim_end_matches('/').to_owned(),
            }),
            _ => Err(BadBase(base.clone())),
        }
    }

    /// The upstream's form of `asked`; path and query keep their bytes. `OPTIONS *` concerns the server, so no prefix there.
    fn aim(&self, asked: &Uri) -> Result<Uri, http::Error> {
        let asked = asked.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let path = if self.prefix.is_empty() || asked == "*" {
            asked
        } else {
            PathAndQuery::try_from(format!("{}{asked}", self.prefix))?
        };
        Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone()).path_and_query(path).build()
    }
}

#[derive(Clone)]
struct MeasureLayer(Observe);

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Measure<S> {
        Measure { inner, observe: Arc::clone(&self.0) }
    }
}

/// Tells `observe` of each exchange, also of those that were given up.
#[derive(Clone)]
struct Measure<S> {
    inner: S,
    observe: Observe,
}

impl<S, B, A> Service<Request<B>> for Measure<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Unpin,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Measured<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let report = Report {
            observe: Arc::clone(&self.observe),
            method: request.method().clone(),
            since: Stopwatch::start(),
            status: None,
        };
        Measured { inner: self.inner.call(request), report: Some(report) }
    }
}

struct Measured<F> {
    inner: F,
    report: Option<Report>,
}

impl<F, A, E> Future for Measured<F>
where
    F: Future<Output = Result<Response<A>, E>> + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let done = std::task::ready!(Pin::new(&mut self.inner).poll(cx));
        if let Some(mut report) = self.report.take() {
            report.status = done.as_ref().ok().map(|answer| answer.status().as_u16());
        }
        Poll::Ready(done)
    }
}

/// Speaks when dropped, so that an exchange somebody stopped waiting for is heard of too.
struct Report {
    observe: Observe,
    method: Method,
    since: Stopwatch,
    status: Option<u16>,
}

impl Drop for Report {
    fn drop(&mut self) {
        (self.observe)(&self.method, self.status, self.since.elapsed());
    }
}

/// hyper's timer on our clock: sleeps on it, reckons idle times by the monotonic clock that hyper itself reads.
#[derive(Clone)]
pub struct ClockTimer(pub Arc<dyn Clock>);

impl hyper::rt::Timer for ClockTimer {
    fn sleep(&self, length: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(ClockSleep(Mutex::new(self.0.sleep(length))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }
}

/// hyper wants its sleeps `Sync`; the mutex is never contended, it only says so to the compiler.
struct ClockSleep(Mutex<Sleep>);

impl hyper::rt::Sleep for ClockSleep {}

impl Future for ClockSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        sleep.as_mut().poll(cx)
    }
}
