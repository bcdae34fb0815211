//! The one account of each request: opened with its head, closed when the last byte of the answer is out or nobody wants it.
//!
//! Must stay true: exactly one access log line and one [`Observer::finished`] per request, whatever becomes of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response};
use hyper::body::{Body, Frame, SizeHint};

use super::upload::Willing;
use super::{Content, Outcome};
use crate::cube::transport::Source;
use crate::time::{Stopwatch, millis};
use crate::verdict::Reason;

/// Told of each request when it is over.
pub trait Observer: Send + Sync + 'static {
    /// Quick, and never blocks.
    fn finished(&self, finished: &Finished);
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The answer went out whole.
    Complete,
    /// The client left before the answer was out.
    CallerLeft,
    /// The upstream broke off in the middle of its answer.
    UpstreamLost,
    /// A governed call panicked; the client got a 500.
    Panicked,
}

impl Ending {
    /// For logs and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CallerLeft => "caller_left",
            Self::UpstreamLost => "upstream_lost",
            Self::Panicked => "panicked",
        }
    }
}

/// A request that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// As the client sent it.
    pub method: Method,
    /// The raw path without its query, which may hold what no log should.
    pub path: String,
    /// `pass` or `govern`.
    pub route: &'static str,
    /// `None` if the client left before there was an answer.
    pub status: Option<u16>,
    /// From the request's head to the end of the answer.
    pub duration: Duration,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// How it ended.
    pub ending: Ending,
    /// Why the skin itself refused it, if it did.
    pub refused: Option<Reason>,
    /// The request's id, if it has one.
    pub request_id: Option<String>,
}

/// A request that is not over yet. Dropping it closes the account.
pub(super) struct Account {
    finished: Finished,
    since: Stopwatch,
    observer: Arc<dyn Observer>,
}

impl Account {
    pub(super) fn open<B>(
        request: &Request<B>,
        id: Option<&HeaderValue>,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let finished = Finished {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            route: "pass",
            status: None,
            duration: Duration::ZERO,
            bytes: 0,
            ending: Ending::CallerLeft,
            refused: None,
            request_id: id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
        };
        Self { finished, since: Stopwatch::start(), observer }
    }

    pub(super) fn governed(&mut self) {
        self.finished.route = "govern";
    }

    /// Notes the answer and goes along with its body.
    pub(super) fn answered(mut self, outcome: Outcome) -> Response<AnswerBody> {
        let Outcome { answer, ending, refused, willing } = outcome;
        self.finished.refused = refused;
        self.finished.status = Some(answer.status().as_u16());
        let says_empty = answer.headers().get(CONTENT_LENGTH).is_some_and(|length| length == "0");
        answer.map(|content| AnswerBody { says_empty, content, account: self, ending, _willing: willing })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.finished.duration = self.since.elapsed();
        let over = &self.finished;
        tracing::info!(
            target: "access",
            method = %over.method,
            path = over.path,
            route = over.route,
            status = over.status,
            duration_ms = millis(over.duration),
            bytes = over.bytes,
            ending = over.ending.label(),
            request_id = over.request_id,
            "request"
        );
        self.observer.finished(over);
    }
}

/// The answer's body, counted as it passes.
pub(super) struct AnswerBody {
    content: Content,
    account: Account,
    /// What the ending is if the whole body gets out.
    ending: Ending,
    /// Its head says `Content-Length: 0`.
    says_empty: bool,
    _willing: Option<Arc<Willing>>,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Source;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Source>>> {
        let frame = std::task::ready!(Pin::new(&mut self.content).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                self.account.finished.bytes += length as u64;
                if frame.is_trailers() {
                    self.account.finished.ending = self.ending;
                }
            }
            Some(Err(_)) => self.account.finished.ending = Ending::UpstreamLost,
            None => self.account.finished.ending = self.ending,
        }
        Poll::Ready(frame)
    }

    /// Where there is no body at all the server moves `Content-Length: 0` to the end of the head; for an empty one it does not.
    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream() && !self.says_empty
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

impl Drop for AnswerBody {
    /// The server does not ask for an end that it can foresee (nor after trailers), and for no body at all where there is none.
    fn drop(&mut self) {
        let bodiless = self.account.finished.method == Method::HEAD;
        let over = &mut self.account.finished;
        if over.ending == Ending::CallerLeft && (bodiless || self.content.is_end_stream()) {
            over.ending = self.ending;
        }
    }
}
