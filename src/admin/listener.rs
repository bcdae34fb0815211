//! The listener of the operator's view.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Admin;
use crate::time::Clock;

/// So many connections at once; an operator and a scraper need two.
const CONNECTIONS: usize = 64;

/// The longest order.
const ORDER_LIMIT: usize = 16 * 1024;

/// After an accept that failed. Without a descriptor to spare the next one fails at once, too.
const BREATH: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub async fn listen(listener: TcpListener, admin: Arc<Admin>, clock: Arc<dyn Clock>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (io, _) = accepted(|| listener.accept(), clock.as_ref()).await;
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            serve(io, admin).await;
            drop(place);
        });
    }
}

/// The next connection, however many tries it takes: one may break before it stands, or there is no descriptor to spare.
async fn accepted<T, F>(mut accept: impl FnMut() -> F, clock: &dyn Clock) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(connection) => return connection,
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "accept an operator's connection");
                clock.sleep(BREATH).await;
            }
        }
    }
}

async fn serve(io: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move {
            let (head, body) = request.into_parts();
            // An order is a few words; what is larger, or breaks off, is none.
            let body = match Limited::new(body, ORDER_LIMIT).collect().await {
                Ok(body) => body.to_bytes(),
                Err(_) => Bytes::from_static(b"?"),
            };
            Ok::<_, Infallible>(admin.answer_to(&head, &body).await.map(Full::<Bytes>::new))
        }
    });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(io), service);
    if let Err(error) = connection.await {
        tracing::debug!(error = &error as &dyn std::error::Error, "an operator's connection broke off");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::time::{ManualClock, UnixMillis};

    #[tokio::test]
    async fn an_accept_that_fails_is_tried_again_after_a_breath_and_not_before() {
        let (clock, tries) = (ManualClock::at(UnixMillis(1)), Cell::new(0));
        let accept = || {
            tries.set(tries.get() + 1);
            std::future::ready(if tries.get() < 3 { Err(io::ErrorKind::Other.into()) } else { Ok(()) })
        };
        let mut accepted = Box::pin(accepted(accept, &clock));
        for tried in 1..3 {
            for _ in 0..9 {
                assert!(futures_util::poll!(accepted.as_mut()).is_pending());
                assert_eq!(tries.get(), tried);
            }
            clock.advance(BREATH);
        }
        accepted.await;
        assert_eq!(tries.get(), 3);
    }
}
