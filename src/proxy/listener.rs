//! The skin on pingora-core's listeners, which bring graceful drain and the handing over of sockets.

use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::apps::ServerApp;
use pingora_core::protocols::Stream;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::listening::Service;

use super::{Proxy, serve_connection};

/// The application behind the listening sockets.
#[derive(Debug)]
pub struct Listener(Arc<Proxy>);

#[async_trait]
impl ServerApp for Listener {
    async fn process_new(self: &Arc<Self>, io: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        serve_connection(io, Arc::clone(&self.0), shutdown.clone()).await;
        None
    }
}

/// A pingora service that serves `proxy` on `addr` (`host:port`).
#[must_use]
pub fn service(name: &str, proxy: Arc<Proxy>, addr: &str) -> Service<Listener> {
    let mut service = Service::new(name.to_owned(), Listener(proxy));
    service.add_tcp(addr);
    service
}
