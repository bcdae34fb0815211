//! A tiny TCP balancer: each connection goes to a warden that accepts it.
//!
//! Must stay true: it knows nothing of HTTP and asks nobody how he is; one that refuses the connection is passed over, and
//! what breaks later breaks for the client, too.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// See the head of the file.
pub(super) struct Balancer {
    url: String,
    accept: JoinHandle<()>,
}

impl Balancer {
    /// Before the wardens at these addresses (`http://host:port`), as they are when a connection comes.
    pub(super) async fn before(addresses: watch::Receiver<Vec<String>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let accept = tokio::spawn(async move {
            let turn = AtomicUsize::new(0);
            while let Ok((mut client, _)) = listener.accept().await {
                let (addresses, first) = (addresses.borrow().clone(), turn.fetch_add(1, Relaxed));
                tokio::spawn(async move {
                    if let Some(mut warden) = reached(&addresses, first).await {
                        // Whoever breaks off first has ended it for both.
                        let _over = tokio::io::copy_bidirectional(&mut client, &mut warden).await;
                    }
                });
            }
        });
        Self { url, accept }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accept.abort();
    }
}

/// The first warden that accepts, beginning with another each time.
async fn reached(addresses: &[String], first: usize) -> Option<TcpStream> {
    for step in 0..addresses.len() {
        let address = &addresses[(first + step) % addresses.len()];
        if let Ok(stream) = TcpStream::connect(address.trim_start_matches("http://")).await {
            return Some(stream);
        }
    }
    None
}
