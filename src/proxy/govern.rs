//! A governed call: its body read whole, then run to its end in a task of its own.
//!
//! Must stay true: a call begins only with its whole body in hand; once begun it is never cut short by the client's leaving;
//! a panic in it is an answer, not a torn connection.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{Response, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::answers::Cause;
use super::headers::{clean_answer, remove, set_length};
use super::{Outcome, Proxy, pass};
use crate::calls::seam::{Caller, Reply};
use crate::time::within;

/// A body over its limit is still taken in (and thrown away) up to this many bytes: a client that is cut off in the middle of
/// sending sees a reset instead of the answer.
const DISCARD_LIMIT: usize = 16 * 1024 * 1024;

/// Reads the body, runs the call, answers.
pub(super) async fn run(proxy: &Proxy, mut head: Parts, body: Incoming, limit: usize) -> Outcome {
    // The expectation ends here: whoever calls the upstream has the body at hand.
    let asks_first = head.headers.contains_key(header::EXPECT);
    remove(&mut head.headers, |name| name == header::EXPECT);
    let unread_limit = if asks_first { limit } else { limit + DISCARD_LIMIT };
    if body.size_hint().lower() > unread_limit as u64 {
        return Outcome::refused(Cause::BodyTooLarge);
    }
    let reading = read(body, limit);
    let bytes = match within(&*proxy.wiring.clock, proxy.settings.body_patience, reading).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(cause)) => return Outcome::refused(cause),
        Err(_elapsed) => return Outcome::refused(Cause::BodyStalled),
    };
    let calls = Arc::clone(&proxy.wiring.calls);
    let (waiting, caller) = Caller::pair();
    let call = tokio::spawn(async move { calls.call(head, bytes, caller).await });
    let reply = call.await;
    drop(waiting);
    match reply {
        Ok(Reply::Answer(answer)) => Outcome::whole(exact(answer)),
        Ok(Reply::Forward(head, body)) => pass::whole(proxy, head, body).await,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a governed call panicked");
            Outcome::refused(Cause::Panicked)
        }
    }
}

/// The whole body, or why not.
async fn read(mut body: Incoming, limit: usize) -> Result<Bytes, Cause> {
    let mut whole = BytesMut::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_broken| Cause::BodyMalformed)?;
        let data = frame.into_data().unwrap_or_default();
        seen += data.len();
        if seen <= limit {
            whole.extend_from_slice(&data);
        } else if seen > limit + DISCARD_LIMIT {
            break;
        }
    }
    if seen > limit { Err(Cause::BodyTooLarge) } else { Ok(whole.freeze()) }
}

/// An answer as it goes out: nothing hop-by-hop in it, the length that it has.
fn exact(answer: Response<Bytes>) -> Response<Bytes> {
    let (mut head, body) = answer.into_parts();
    clean_answer(head.status, &mut head.headers);
    set_length(head.status, &mut head.headers, body.len());
    Response::from_parts(head, body)
}
