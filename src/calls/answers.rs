//! Verdicts and Cube's answers as HTTP, with the CORS headers that Cube itself sends with everything.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::context::{Ask, Governor};
use super::mends::{self, Mend};
use crate::ids::OTHER;
use crate::verdict::{Reason, Refusal, Retry};

/// An answer of our own.
#[must_use]
pub fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    if status != StatusCode::NO_CONTENT {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    headers.insert(
        header::VARY,
        HeaderValue::from_static("origin, access-control-request-method, access-control-request-headers"),
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    answer
}

/// A refusal.
#[must_use]
pub fn refusal(refusal: &Refusal) -> Response<Bytes> {
    let status = StatusCode::from_u16(refusal.reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = plain(status, refusal.body());
    if let Some(seconds) = refusal.retry_after {
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if refusal.retry == Retry::Never {
        answer.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
    }
    answer
}

/// No such sandbox for this caller: the same words whether it is somebody else's or nobody's, and without the word that
/// would make an SDK think of templates.
pub(super) fn no_such(name: &str) -> Refusal {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(80).collect();
    Refusal::new(Reason::NotFound, format!("sandbox {name} not found"))
}

/// No such snapshot or volume for this caller.
pub(super) fn no_such_object(kind: &str, name: &str) -> Refusal {
    let name: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.:".contains(*c)).take(160).collect();
    Refusal::new(Reason::NotFound, format!("{kind} {name} not found"))
}

/// Cube's own answer, its error body mended if it needs it. What described the body before is dropped.
pub(super) fn mended(governor: &Governor, ask: &Ask, answer: Response<Bytes>) -> Response<Bytes> {
    let (mut head, body) = answer.into_parts();
    let mended = mends::error_body(&ask.settings.compat, head.status.as_u16(), &body);
    let body = match mended {
        Some(text) => {
            governor.metrics.mended(Mend::ErrorBody.name());
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Bytes::from(text)
        }
        None => body,
    };
    head.headers.remove(header::TRANSFER_ENCODING);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, body)
}

/// A create that Cube refused, in Cube's own words; but "no more resource" becomes the retryable answer.
pub(super) fn refused_by_cube(governor: &Governor, ask: &Ask, answer: Response<Bytes>) -> Response<Bytes> {
    match mends::capacity(&ask.settings.compat, answer.status().as_u16(), answer.body()) {
        Some(full) => {
            governor.metrics.mended(Mend::CapacityAnswers.name());
            governor.metrics.refused(full.reason, OTHER);
            let after = 1 + u32::try_from(governor.ledger.jitter(20)).unwrap_or(0);
            refusal(&full.after(after))
        }
        None => mended(governor, ask, answer),
    }
}
