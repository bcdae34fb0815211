//! A request's body on its way up.
//!
//! A client that says `Expect: 100-continue` is asked for its body (by the server side, at the first poll of it) only once
//! the upstream has said 100 itself, or has kept silent for a while. An upstream that answers at once never sees the body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, StatusCode, Version, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::watch;

use crate::cube::transport::Source;

/// How far the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Sending,
    Broken,
}

/// Tells when the upload is over. An upload that ended well or was dropped just goes away.
pub(super) struct Watch(watch::Receiver<Progress>);

impl Watch {
    /// Ready once no more of the body is to come.
    pub(super) async fn over(&self) {
        // Either a break or the sender's end; both mean the same here.
        let _end = self.0.clone().changed().await;
    }

    /// Whether the client's part broke off.
    pub(super) fn broken(&self) -> bool {
        *self.0.borrow() == Progress::Broken
    }
}

/// Lets a held-back body go. If all holders drop it unopened, the body is given up, and with it the upstream connection.
pub(super) struct Willing(watch::Sender<bool>);

impl Willing {
    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }
}

type Gate = Pin<Box<dyn Future<Output = Result<(), Source>> + Send>>;

/// The body, watched, and held back if the client expects a 100.
pub(super) struct Upload {
    body: Incoming,
    gate: Option<Gate>,
    progress: watch::Sender<Progress>,
}

impl Upload {
    pub(super) fn over(request: Request<Incoming>) -> (Request<Self>, Watch, Option<Arc<Willing>>) {
        let (progress, watch) = watch::channel(Progress::Sending);
        let expects = expects_continue(&request);
        let mut request = request.map(|body| Self { body, gate: None, progress });
        let willing = expects.then(|| {
            let (willing, mut opened) = watch::channel(false);
            request.body_mut().gate = Some(Box::pin(async move {
                opened.wait_for(|open| *open).await.map_err(Source::from)?;
                Ok(())
            }));
            let willing = Arc::new(Willing(willing));
            let heard = Arc::clone(&willing);
            hyper::ext::on_informational(&mut request, move |answer| {
                if answer.status() == StatusCode::CONTINUE {
                    heard.open();
                }
            });
            willing
        });
        (request, Watch(watch), willing)
    }
}

fn expects_continue(request: &Request<Incoming>) -> bool {
    let expect = request.headers().get(header::EXPECT);
    request.version() == Version::HTTP_11
        && expect.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Source;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Source>>> {
        if let Some(gate) = &mut self.gate {
            let opened = ready!(gate.as_mut().poll(cx));
            self.gate = None;
            if let Err(given_up) = opened {
                return Poll::Ready(Some(Err(given_up)));
            }
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Err(_)) = &frame {
            self.progress.send_replace(Progress::Broken);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Source::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
