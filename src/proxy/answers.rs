//! What the skin itself answers when there is no answer to pass on. PURE.
//!
//! Must stay true: JSON with an integer `code` equal to the status and a `message`, never empty; SDKs read nothing else.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// Why the skin answers for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No connection to the upstream; nothing was sent.
    UpstreamUnreachable,
    /// The connection broke before an answer came; what was sent may have been carried out.
    UpstreamLost,
    /// The upstream kept silent for longer than it may.
    UpstreamSilent,
    /// The upstream switched protocols unasked.
    UpstreamSwitched,
    /// The body of a governed call is larger than it may be.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyStalled,
    /// The body's framing is broken.
    BodyMalformed,
    /// A governed call panicked.
    Panicked,
    /// CONNECT is for forward proxies.
    ConnectMethod,
}

impl Refusal {
    /// Status, code, and what to do next.
    fn row(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::UpstreamUnreachable => (
                StatusCode::BAD_GATEWAY,
                "UPSTREAM_UNREACHABLE",
                "The Cube API cannot be reached; nothing was sent to it. Try again later.",
            ),
            Self::UpstreamLost => (
                StatusCode::BAD_GATEWAY,
                "UPSTREAM_LOST",
                "The connection to the Cube API broke before it answered; the request may have been carried out.",
            ),
            Self::UpstreamSilent => (
                StatusCode::GATEWAY_TIMEOUT,
                "UPSTREAM_TIMEOUT",
                "The Cube API did not answer in time; the request may have been carried out.",
            ),
            Self::UpstreamSwitched => (
                StatusCode::BAD_GATEWAY,
                "UPSTREAM_PROTOCOL",
                "The Cube API switched protocols although nobody asked for it.",
            ),
            Self::BodyTooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "BODY_TOO_LARGE",
                "The request body is larger than this call allows; nothing was done.",
            ),
            Self::BodyStalled => (
                StatusCode::REQUEST_TIMEOUT,
                "BODY_TIMEOUT",
                "The request body did not arrive in time; nothing was done.",
            ),
            Self::BodyMalformed => (
                StatusCode::BAD_REQUEST,
                "BODY_MALFORMED",
                "The request body ended early or its framing is broken.",
            ),
            Self::Panicked => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "INTERNAL",
                "The call failed inside cubewarden; its outcome is unknown.",
            ),
            Self::ConnectMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                "CONNECT is not served here; use the address as the API's URL, not as a proxy.",
            ),
        }
    }

    /// A body that was not read to its end leaves the connection at an unknown place: it cannot be used again.
    fn ends_connection(self) -> bool {
        matches!(self, Self::BodyTooLarge | Self::BodyStalled | Self::BodyMalformed | Self::ConnectMethod)
    }

    /// The answer as it goes out.
    pub(super) fn answer(self) -> Response<Bytes> {
        let (status, error_code, message) = self.row();
        let code = status.as_u16();
        let body = format!(r#"{{"code":{code},"message":"{message}","error_code":"{error_code}"}}"#);
        let mut answer = Response::new(Bytes::from(body));
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.ends_connection() {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}
