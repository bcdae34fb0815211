//! The listener of the operator's view.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Admin;

/// So many connections at once; an operator and a scraper need two.
const CONNECTIONS: usize = 64;

/// Serves until it is dropped.
pub async fn listen(listener: TcpListener, admin: Arc<Admin>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((io, _)) => {
                let admin = Arc::clone(&admin);
                tokio::spawn(async move {
                    serve(io, admin).await;
                    drop(place);
                });
            }
            // A connection that broke before it stood, or no descriptor to spare: the next may do better.
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "accept an operator's connection");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn serve(io: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move {
            let (head, _body) = request.into_parts();
            Ok::<_, Infallible>(admin.answer(&head).await.map(Full::<Bytes>::new))
        }
    });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(io), service);
    if let Err(error) = connection.await {
        tracing::debug!(error = &error as &dyn std::error::Error, "an operator's connection broke off");
    }
}
