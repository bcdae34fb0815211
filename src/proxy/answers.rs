//! What the skin itself answers when there is no answer to pass on: the one list of refusals, in the one form. PURE.

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use crate::calls::answers;
use crate::verdict::{Reason, Refusal};

/// Why the skin answers for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
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

impl Cause {
    /// What is told, and what to do next.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::UpstreamUnreachable => Refusal::new(
                Reason::UpstreamUnreachable,
                "the Cube API cannot be reached; nothing was sent to it, try again soon",
            )
            .after(2),
            Self::UpstreamLost => Refusal::new(
                Reason::UpstreamTimeout,
                "the connection to the Cube API broke before it answered; the request may have been carried out",
            ),
            Self::UpstreamSilent => Refusal::new(
                Reason::UpstreamTimeout,
                "the Cube API did not answer in time; the request may have been carried out",
            ),
            Self::UpstreamSwitched => Refusal::new(
                Reason::UpstreamTimeout,
                "the Cube API switched protocols although nobody asked for it, instead of an answer",
            ),
            Self::BodyTooLarge => Refusal::new(
                Reason::BodyTooLarge,
                "the request body is larger than this call allows; nothing was done",
            ),
            Self::BodyStalled => Refusal::new(
                Reason::RequestTimeout,
                "the request body did not arrive in time; nothing was done",
            ),
            Self::BodyMalformed => {
                Refusal::new(Reason::BadRequest, "the request body ended early or its framing is broken")
            }
            Self::Panicked => {
                Refusal::new(Reason::Internal, "the call failed inside cubewarden; its outcome is unknown")
            }
            Self::ConnectMethod => Refusal::new(
                Reason::BadRequest,
                "CONNECT is not served here; use the address as the API's URL, not as a proxy",
            ),
        }
    }

    /// A body that was not read to its end leaves the connection at an unknown place: it cannot be used again.
    fn ends_connection(self) -> bool {
        matches!(self, Self::BodyTooLarge | Self::BodyStalled | Self::BodyMalformed | Self::ConnectMethod)
    }

    /// The answer as it goes out.
    pub(super) fn answer(self) -> Response<Bytes> {
        let mut answer = answers::refusal(&self.refusal());
        if self.ends_connection() {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}
