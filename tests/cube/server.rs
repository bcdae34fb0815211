//! The deeds: connections, the order in which a request's course is run, the sweeper.
//!
//! Decides nothing: what goes wrong is said by `faults`, what is answered by `model`. A request's work runs in a task of its own, so
//! a client that hangs up, or is told 408, does not undo it.
//! Must stay true: all waiting is on the simulator's clock; answers have no `content-length`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body as HttpBody;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cubewarden::time::{Chance, Clock, UnixMillis, within};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::answer::{Answer, Body};
use super::ask::{Ask, Asker};
use super::credentials::{Lock, RateLimit};
use super::faults::{Deed, Ending, Faults};
use super::latency::Latency;
use super::model::{Cube, Order};
use super::profile::Profile;
use super::wire::{RawHead, Tape, Wire};

/// A request as it was received.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Seen {
    /// Counts the requests.
    pub(crate) number: u64,
    /// Counts the connections.
    pub(crate) connection: u64,
    pub(crate) at_ms: u64,
    pub(crate) head: RawHead,
    #[serde(serialize_with = "as_text")]
    pub(crate) body: Bytes,
}

fn as_text<S: serde::Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(body))
}

/// All that connections, side door and handle share.
pub(crate) struct Shared {
    pub(crate) profile: Profile,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    pub(crate) lock: Lock,
    pub(crate) latency: Latency,
    /// How many requests are remembered.
    pub(crate) memory: usize,
    pub(crate) cube: Mutex<Cube>,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) rate: Option<Mutex<RateLimit>>,
    pub(crate) seen: Mutex<VecDeque<Seen>>,
    pub(crate) requests: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Changes when the sweeper must look again.
    pub(crate) stirred: Notify,
    pub(crate) idle_close: watch::Sender<Option<Duration>>,
    pub(crate) held: watch::Sender<usize>,
    pub(crate) releases: watch::Sender<u64>,
}

/// Marks a response that must not be sent.
#[derive(Clone, Copy)]
struct Unsent;

/// The connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection ends without an answer")]
struct HungUp;

impl Shared {
    /// The model, for one step.
    pub(crate) fn cube(&self) -> MutexGuard<'_, Cube> {
        self.cube.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules in force, for one step.
    pub(crate) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests seen, for one step.
    pub(crate) fn seen(&self) -> MutexGuard<'_, VecDeque<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everything happen whose time has come.
    pub(crate) fn settle(&self) {
        self.cube().settle(self.clock.now(), &self.chance);
    }

    /// Runs a request's course; the response may carry the order not to be sent.
    pub(crate) async fn carry(self: Arc<Self>, ask: Ask, asker: Asker, tape: Tape) -> Response {
        // The work outlives the one who asked.
        let work = tokio::spawn(async move { self.run(ask, asker, &tape).await });
        match work.await {
            Ok(Some(response)) => response,
            Ok(None) => std::future::pending().await,
            Err(_panicked) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }

    /// `None`: the client hangs until its time is up.
    async fn run(&self, ask: Ask, asker: Asker, tape: &Tape) -> Option<Response> {
        let course = self.faults().course(self.profile, ask.kind(), ask.sandbox());
        match course.deed {
            Deed::Instead(answer) => {
                self.clock.sleep(course.wait).await;
                return Some(response(answer));
            }
            Deed::Dropped => return Some(unsent(course.ending, tape)),
            Deed::Blocked(None) => return None,
            Deed::Blocked(Some(_)) | Deed::Done => {}
        }
        let token = self.cube().accept(&ask);
        let order = Order { ask, asker, bend: course.bend, token };
        if let Deed::Blocked(Some(late)) = course.deed {
            self.cube().perform_later(order, self.clock.now().plus(late));
            self.stirred.notify_one();
            return None;
        }
        self.clock.sleep(course.wait).await;
        self.hold(course.hold_before).await;
        if order.ask.kind().is_write() {
            let passage = self.cube().begin_write(self.clock.now(), &self.chance);
            self.clock.sleep(passage.takes).await;
            if !passage.done {
                self.cube().abandon(order.token);
                return None;
            }
        }
        let latency = self.latency.sample(order.ask.kind(), self.chance.below(1000));
        self.clock.sleep(latency).await;
        let answer = self.cube().perform(&order, self.clock.now(), &self.chance);
        self.stirred.notify_one();
        self.clock.sleep(answer.after).await;
        self.hold(course.hold_after).await;
        match course.ending {
            Ending::Answered => {}
            Ending::Twice => tape.answer_twice(),
            Ending::Closed | Ending::Reset => return Some(unsent(course.ending, tape)),
        }
        Some(response(answer))
    }

    async fn hold(&self, holds: bool) {
        if !holds {
            return;
        }
        let mut releases = self.releases.subscribe();
        let before = *releases.borrow_and_update();
        self.held.send_modify(|held| *held += 1);
        // The sender lives as long as the simulator.
        let _released = releases.wait_for(|released| *released > before).await;
        self.held.send_modify(|held| *held -= 1);
    }

    fn remember(&self, head: RawHead, body: &Bytes, connection: u64) {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.memory == 0 {
            return;
        }
        let mut seen = self.seen();
        if seen.len() == self.memory {
            seen.pop_front();
        }
        seen.push_back(Seen { number, connection, at_ms: self.clock.now().0, head, body: body.clone() });
    }

    fn budget(&self, method: &Method, path: &str) -> Duration {
        let path = path.strip_prefix("/cubeapi/v1").unwrap_or(path);
        let last = path.rsplit('/').next().unwrap_or_default();
        let seconds = match (method.as_str(), last) {
            ("POST", "pause" | "resume" | "connect") => self.profile.wake_budget_s(),
            ("POST", "snapshots" | "rollback") => 240,
            ("DELETE", _) if path.starts_with("/templates/") => 240,
            _ => 30,
        };
        Duration::from_secs(seconds)
    }
}

/// An answer as HTTP.
pub(super) fn response(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    let (content_type, text) = match answer.body {
        Body::None => (None, String::new()),
        Body::Json(text) => (Some("application/json"), text),
        Body::Text(text) => (Some("text/plain; charset=utf-8"), text),
    };
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        *response.body_mut() = HttpBody::from(text);
    }
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn unsent(ending: Ending, tape: &Tape) -> Response {
    if ending == Ending::Reset {
        tape.reset_at_end();
    }
    let mut response = Response::new(HttpBody::empty());
    response.extensions_mut().insert(Unsent);
    response
}

/// Accepts until dropped; connections end with it.
pub(super) async fn listen(shared: Arc<Shared>, router: Router, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((tcp, _peer)) = accepted else { continue };
                connections.spawn(serve(Arc::clone(&shared), router.clone(), tcp));
            }
            // Ended connections are collected as they end.
            Some(_ended) = connections.join_next() => {}
        }
    }
}

/// Lets happen what happens by itself, when its time has come.
pub(super) async fn sweep(shared: Arc<Shared>) {
    loop {
        shared.settle();
        let due = shared.cube().next_due();
        let now = shared.clock.now();
        match due {
            None => shared.stirred.notified().await,
            Some(due) => tokio::select! {
                () = shared.clock.sleep(due.since(now)) => {}
                () = shared.stirred.notified() => {}
            },
        }
    }
}

async fn serve(shared: Arc<Shared>, router: Router, tcp: TcpStream) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    // Small answers must not wait for the peer's acknowledgement.
    let _unset = tcp.set_nodelay(true);
    let tape = Tape::default();
    let (busy, idle_since) = watch::channel(Some(shared.clock.now()));
    let service = hyper::service::service_fn(|request| {
        let (shared, router, tape) = (Arc::clone(&shared), router.clone(), tape.clone());
        let busy = &busy;
        async move {
            busy.send_replace(None);
            let answered = answer(&shared, router, request, tape, number).await;
            busy.send_replace(Some(shared.clock.now()));
            answered
        }
    });
    let wire = TokioIo::new(Wire::new(tcp, tape.clone()));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(wire, service);
    let mut connection = pin!(connection);
    tokio::select! {
        // Errors are the client's, or ordered by a fault.
        _ended = connection.as_mut() => return,
        () = idle_too_long(&shared, idle_since) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ended = connection.await;
}

/// Ready once the connection has been idle for as long as the fault in force says.
async fn idle_too_long(shared: &Shared, mut idle_since: watch::Receiver<Option<UnixMillis>>) {
    let mut rule = shared.idle_close.subscribe();
    loop {
        let (since, limit) = (*idle_since.borrow_and_update(), *rule.borrow_and_update());
        let left = since.zip(limit).map(|(since, limit)| since.plus(limit).since(shared.clock.now()));
        if left == Some(Duration::ZERO) {
            return;
        }
        let wait = async {
            match left {
                Some(left) => shared.clock.sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => {}
            _changed = idle_since.changed() => {}
            _changed = rule.changed() => {}
        }
    }
}

async fn answer(
    shared: &Arc<Shared>,
    router: Router,
    request: Request<Incoming>,
    tape: Tape,
    connection: u64,
) -> Result<Response, HungUp> {
    let limit = shared.budget(request.method(), request.uri().path());
    let work = async {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_broken| HungUp)?.to_bytes();
        shared.remember(tape.take_request(), &body, connection);
        parts.extensions.insert(tape);
        let request = Request::from_parts(parts, HttpBody::from(body));
        let answered: Result<Response, Infallible> = router.oneshot(request).await;
        answered.map_err(|never| match never {})
    };
    let response = match within(shared.clock.as_ref(), limit, work).await {
        Ok(response) => response?,
        Err(_elapsed) => StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    if response.extensions().get::<Unsent>().is_some() {
        return Err(HungUp);
    }
    Ok(unsized_body(response))
}

/// Cube never knows how long its bodies are: all but those of 204 go out in chunks.
fn unsized_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    if parts.status == StatusCode::NO_CONTENT {
        return Response::from_parts(parts, HttpBody::empty());
    }
    parts.headers.remove(TRANSFER_ENCODING);
    let frames = futures_util::stream::unfold(body, |mut body| async move {
        let frame: Frame<Bytes> = body.frame().await?.ok()?;
        Some((Ok::<_, Infallible>(frame), body))
    });
    Response::from_parts(parts, HttpBody::new(StreamBody::new(frames)))
}
