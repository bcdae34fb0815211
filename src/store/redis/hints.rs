//! Hints that room came free or an entry moved, from every warden of the ledger, by publish and subscribe.
//!
//! Must stay true: a hint may come late, twice or never, and nothing but the speed of waiting rests on it. After each gap
//! there is one hint more: something may have been missed. A connection that has gone silent is noticed by asking it.

use std::time::Duration;

use futures_util::StreamExt as _;
use redis::RedisResult;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::address::Address;
use super::link::{CONNECT, RESPONSE};
use crate::time::{Chance, Clock as _, WallClock, within};

/// From one attempt to subscribe to the next.
const PAUSE: Duration = Duration::from_millis(250);
/// A subscription that was silent for so long is asked whether it still stands.
const SILENCE: Duration = Duration::from_secs(10);

/// See the head of the file.
pub(super) struct Hints {
    changes: watch::Sender<u64>,
    /// Under which this process commits: it needs no hint about its own commits.
    own_name: String,
    listener: JoinHandle<()>,
}

impl Hints {
    /// Listens until dropped.
    pub(super) fn listen(address: Address, channel: String) -> Self {
        let changes = watch::Sender::new(0);
        let own_name = Chance::from_os().hex(8);
        let ear = Ear { address, channel, own_name: own_name.clone(), changes: changes.clone() };
        Self { changes, own_name, listener: tokio::spawn(ear.listen()) }
    }

    pub(super) fn own_name(&self) -> &str {
        &self.own_name
    }

    pub(super) fn tell(&self) {
        tell(&self.changes);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn tell(changes: &watch::Sender<u64>) {
    changes.send_modify(|changes| *changes = changes.wrapping_add(1));
}

struct Ear {
    address: Address,
    channel: String,
    own_name: String,
    changes: watch::Sender<u64>,
}

impl Ear {
    async fn listen(self) {
        loop {
            if let Err(error) = self.until_it_breaks().await {
                tracing::debug!(error = &error as &dyn std::error::Error, "hints from Redis are interrupted");
            }
            WallClock.sleep(PAUSE).await;
        }
    }

    async fn until_it_breaks(&self) -> RedisResult<()> {
        let subscribed = async {
            // Any node of a Cluster passes on what is published at another.
            let servers = self.address.servers().await?;
            let mut last = Ok(None);
            for server in &servers {
                match server.get_async_pubsub().await {
                    Ok(mut subscription) => {
                        subscription.subscribe(&self.channel).await?;
                        return Ok(Some(subscription));
                    }
                    Err(error) => last = Err(error),
                }
            }
            last
        };
        let Ok(subscribed) = within(&WallClock, CONNECT, subscribed).await else { return Ok(()) };
        let Some(subscription) = subscribed? else { return Ok(()) };
        let (mut asking, mut messages) = subscription.split();
        tell(&self.changes);
        loop {
            match within(&WallClock, SILENCE, messages.next()).await {
                Ok(Some(hint)) if hint.get_payload_bytes() == self.own_name.as_bytes() => {}
                Ok(Some(_)) => tell(&self.changes),
                Ok(None) => return Ok(()),
                Err(_silent) => match within(&WallClock, RESPONSE, asking.ping::<redis::Value>()).await {
                    Ok(answer) => drop(answer?),
                    Err(_elapsed) => return Ok(()),
                },
            }
        }
    }
}
