//! Pass-through: one exchange with the upstream, streaming both ways. Knows no governance.
//!
//! Must stay true: nothing is buffered, nothing added; an answer that the upstream broke off is broken off towards the client
//! too, never ended as if it were whole. Interim answers (1xx) are not passed on, except that the upstream's 100 is what asks
//! the client for an expected body. Trailers pass where HTTP/1.1 lets them: announced by `Trailer`, and asked for by `TE`
//! (their names come out in lower case). A 304 loses its `Content-Length`, which the HTTP library does not let through.

use std::error::Error;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::account::Ending;
use super::answers::Cause;
use super::headers::clean_answer;
use super::upload::{Upload, Watch, Willing};
use super::{Outcome, Proxy};
use crate::cube::transport::{TransportError, sized};
use crate::time::within;

/// Passes a request on and its answer back. `switch` is there if the client wants another protocol.
pub(super) async fn through(
    proxy: &Proxy,
    head: Parts,
    body: Incoming,
    switch: Option<OnUpgrade>,
) -> Outcome {
    let (request, watch, willing) = Upload::over(Request::from_parts(head, body));
    let answer = tokio::select! {
        biased;
        answer = proxy.wiring.upstream.forward(request) => answer,
        () = silence(proxy, &watch, willing.as_deref()) => return Outcome::refused(Cause::UpstreamSilent),
    };
    match answer {
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => switched(answer, switch),
        Ok(answer) => Outcome { willing, ..back(answer) },
        Err(_) if watch.broken() => Outcome::refused(Cause::BodyMalformed),
        Err(error) => failed(&error),
    }
}

/// Passes on what a governed call let through, with its body whole.
pub(super) async fn whole(proxy: &Proxy, head: Parts, body: Bytes) -> Outcome {
    let request = sized(Request::from_parts(head, body));
    let answer = proxy.wiring.upstream.forward(request);
    match within(&*proxy.wiring.clock, proxy.settings.answer_limit, answer).await {
        Ok(Ok(answer)) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => switched(answer, None),
        Ok(Ok(answer)) => back(answer),
        Ok(Err(error)) => failed(&error),
        Err(_elapsed) => Outcome::refused(Cause::UpstreamSilent),
    }
}

/// Ready once the upstream has been silent for too long, reckoned from the end of the request.
async fn silence(proxy: &Proxy, upload: &Watch, willing: Option<&Willing>) {
    if let Some(willing) = willing {
        proxy.wiring.clock.sleep(proxy.settings.continue_wait).await;
        willing.open();
    }
    upload.over().await;
    proxy.wiring.clock.sleep(proxy.settings.answer_limit).await;
}

fn back(answer: Response<Incoming>) -> Outcome {
    let (mut head, body) = answer.into_parts();
    clean_answer(head.status, &mut head.headers);
    let answer = Response::from_parts(head, Either::Right(body));
    Outcome { answer, ending: Ending::Complete, refused: None, willing: None }
}

fn failed(error: &TransportError) -> Outcome {
    tracing::warn!(error = error as &dyn Error, "the upstream gave no answer");
    Outcome::refused(match error {
        TransportError::NotSent(_) => Cause::UpstreamUnreachable,
        TransportError::Lost(_) => Cause::UpstreamLost,
    })
}

/// The upstream speaks another protocol from here on: both sides are joined until both have ended.
fn switched(mut answer: Response<Incoming>, switch: Option<OnUpgrade>) -> Outcome {
    let Some(down) = switch else {
        return Outcome::refused(Cause::UpstreamSwitched);
    };
    let up = hyper::upgrade::on(&mut answer);
    // Lives as long as its two sockets; the client's side comes free once the 101 is out.
    tokio::spawn(async move {
        if let Err(error) = tunnel(down, up).await {
            tracing::debug!(error = &*error as &dyn Error, "a tunnel broke off");
        }
    });
    back(answer)
}

async fn tunnel(down: OnUpgrade, up: OnUpgrade) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (down, up) = tokio::try_join!(down, up)?;
    let (mut down, mut up) = (TokioIo::new(down), TokioIo::new(up));
    tokio::io::copy_bidirectional(&mut down, &mut up).await?;
    Ok(())
}
