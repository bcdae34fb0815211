//! Before and after a process: whose sockets and ledger it takes over, and who takes over its own.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinHandle;

use super::handover::{Leaving, Post, Predecessor, Word};
use super::warden::open_store;
use crate::config::Settings;
use crate::store::Store;
use crate::store::embedded::OpenError;
use crate::store::settings::Settings as StoreSettings;
use crate::time::Clock;

/// The process that serves already, if we are to take its place, and its sockets.
pub(super) async fn inherit(
    settings: &Settings,
    upgrade: bool,
) -> anyhow::Result<(Option<Predecessor>, Option<[TcpListener; 2]>)> {
    if !upgrade {
        return Ok((None, None));
    }
    let path = settings.proxy.upgrade_socket.as_deref();
    let path =
        path.context("--upgrade needs listen.upgrade_socket, in the old process's configuration too")?;
    if let Some((predecessor, sockets)) = Predecessor::find(path).await? {
        return Ok((Some(predecessor), Some(sockets)));
    }
    tracing::warn!(path = %path.display(), "nobody serves there: starting as always");
    Ok((None, None))
}

/// Whether several processes may have the ledger open.
pub(super) fn is_shared(store: &StoreSettings) -> bool {
    matches!(store, StoreSettings::Redis(_))
}

/// How often an embedded ledger is tried again whose process has just ended, and after how long.
const TRIES: u32 = 200;
const BREATH: Duration = Duration::from_millis(25);

/// The opened store. One that only one process can have is waited for until the predecessor is gone.
pub(super) async fn ledger_of(
    settings: &StoreSettings,
    predecessor: Option<&Predecessor>,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Store>> {
    let Some(predecessor) = predecessor.filter(|_| !is_shared(settings)) else {
        return open_store(settings, clock).await.context("open the ledger");
    };
    predecessor.tell(Word::Waits).await;
    tracing::info!("waiting for the process that served to let go of the ledger; clients wait with us");
    predecessor.gone().await;
    // A process that ends closes its line and its files in no order that we could rely on.
    for _ in 1..TRIES {
        match open_store(settings, clock).await {
            Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse(_))) => {
                clock.sleep(BREATH).await;
            }
            opened => return opened.context("open the ledger"),
        }
    }
    open_store(settings, clock).await.context("open the ledger")
}

/// A post that a task keeps, so that a signal that comes meanwhile interrupts nothing.
pub(super) struct Handing(Option<JoinHandle<Leaving>>);

impl Handing {
    /// Opens the post, if there is to be one, for the clients' socket and the operator's.
    pub(super) fn open(settings: &Settings, sockets: [&dyn AsFd; 2]) -> anyhow::Result<Self> {
        let path = settings.proxy.upgrade_socket.as_deref();
        let post = path.map(|path| Post::open(path, sockets)).transpose()?;
        Ok(Self(post.map(|post| tokio::spawn(post.successor()))))
    }

    /// Ready when a successor has said its word; never if none can.
    pub(super) async fn taken_over(&mut self) -> Leaving {
        if let Some(task) = &mut self.0
            && let Ok(leaving) = task.await
        {
            self.0 = None;
            return leaving;
        }
        std::future::pending().await
    }

    /// Its copies of the sockets would keep them open.
    pub(super) async fn close(self) {
        if let Some(task) = self.0 {
            task.abort();
            let _closed = task.await;
        }
    }
}
