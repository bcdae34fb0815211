//! The way to Redis: one connection that everybody shares, made again when it breaks, and what its answers mean.
//!
//! Must stay true: every command has a time limit; a connection that failed is not used again; one attempt to connect
//! serves all who wait for it; a command is sent a second time only if doing it twice does no harm, or if Redis said that it
//! has not done it. A commit whose reply is lost is not sent again: the caller finds out by reading.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::address::Address;
use crate::store::{Logged, StoreError};
use crate::time::{Clock as _, WallClock, within};

/// How long connecting may take, Sentinels and handshake included.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// How long a command may take.
pub(super) const RESPONSE: Duration = Duration::from_secs(2);
/// Waits before a command that Redis has not done is sent again: it moves, loads or elects.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(200)];

/// What is wrong with a key that holds something else.
pub(super) const FOREIGN: &str = "what lies in Redis under this name was not written by this program";

/// Whether a command may be sent again when nobody knows if it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It only reads, or doing it twice is doing it once.
    Safe,
    /// It commits.
    Unsafe,
}

/// See the head of the file.
pub(super) struct Link {
    address: Address,
    live: RwLock<Option<Live>>,
    connecting: Mutex<Option<RedisError>>,
    /// Attempts to connect that are over.
    attempts: AtomicU64,
}

#[derive(Clone)]
struct Live {
    /// Which attempt made it.
    number: u64,
    wire: Wire,
}

#[derive(Clone)]
enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// What a failed command tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Redis has not done it and may do it soon.
    NotDone,
    /// Nobody knows.
    Lost,
    /// Redis has refused it for good.
    Refused,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        let (live, connecting) = (RwLock::default(), Mutex::default());
        Self { address, live, connecting, attempts: AtomicU64::new(0) }
    }

    /// Sends a command, and again where that is safe.
    pub(super) async fn ask(&self, command: &Cmd, again: Again) -> RedisResult<Value> {
        let mut pauses = PAUSES.into_iter();
        let mut lost_before = false;
        loop {
            let live = self.live().await?;
            let error = match live.wire.ask(command).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let failure = failure(&error);
            // A master that has become a replica must be looked for anew, too.
            if failure != Failure::Refused {
                self.drop_live(live.number);
            }
            match failure {
                Failure::Lost if again == Again::Safe && !lost_before => lost_before = true,
                Failure::NotDone => match pauses.next() {
                    Some(pause) => WallClock.sleep(pause).await,
                    None => return Err(error),
                },
                Failure::Lost | Failure::Refused => return Err(error),
            }
        }
    }

    async fn live(&self) -> RedisResult<Live> {
        let attempts = self.attempts.load(Acquire);
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let mut failed = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        // Whoever waited for an attempt that failed is told so, instead of making one of its own after all others.
        if let Some(error) = failed.as_ref().filter(|_| self.attempts.load(Acquire) > attempts) {
            return Err(error.clone());
        }
        let wire = self.connect().await;
        let number = self.attempts.fetch_add(1, AcqRel) + 1;
        match wire {
            Ok(wire) => {
                let live = Live { number, wire };
                *self.live.write().unwrap_or_else(PoisonError::into_inner) = Some(live.clone());
                *failed = None;
                Ok(live)
            }
            Err(error) => {
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }

    fn current(&self) -> Option<Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets a connection that failed, unless another has taken its place.
    fn drop_live(&self, number: u64) {
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|live| live.number == number) {
            *live = None;
        }
    }

    async fn connect(&self) -> RedisResult<Wire> {
        let connected = async {
            if let Address::Cluster(nodes) = &self.address {
                return Ok(Wire::Cluster(Address::cluster(nodes)?.get_async_connection().await?));
            }
            let servers = self.address.servers().await?;
            let server = servers.first().ok_or((ErrorKind::InvalidClientConfig, "no server is named"))?;
            connection(server).await.map(Wire::One)
        };
        within(&WallClock, CONNECT, connected).await.map_err(|_| timed_out())?
    }
}

/// A connection whose commands have a time limit.
pub(super) async fn connection(server: &redis::Client) -> RedisResult<MultiplexedConnection> {
    let limits = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(Some(RESPONSE));
    server.get_multiplexed_async_connection_with_config(&limits).await
}

fn timed_out() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "it took too long to connect").into()
}

impl Wire {
    async fn ask(self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(mut connection) => connection.req_packed_command(command).await,
            Self::Cluster(mut connection) => connection.req_packed_command(command).await,
        }
        .and_then(Value::extract_error)
    }
}

fn failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::Server(
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
            | ServerErrorKind::BusyLoading,
        ) => Failure::NotDone,
        ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused,
        _ => Failure::Lost,
    }
}

/// What an error means to the ledger; `key`: what the command was about.
pub(super) fn meant(error: &RedisError, key: &str) -> StoreError {
    if error.code() == Some("WRONGTYPE") {
        return foreign(key);
    }
    StoreError::Unavailable(format!("Redis: {error}"))
}

/// A key holds something else.
pub(super) fn foreign(key: &str) -> StoreError {
    StoreError::Corrupt { key: key.to_owned(), what: FOREIGN.to_owned() }
}

/// A reply that nobody has thought of.
pub(super) fn strange(reply: &Value) -> StoreError {
    StoreError::Unavailable(format!("Redis gave an answer that means nothing here: {reply:?}"))
}

/// The reply is a list of members; one that is not text was not written by us.
pub(super) fn texts(reply: &Value, key: &str) -> Result<Vec<String>, StoreError> {
    let Value::Array(members) = reply else { return Err(strange(reply)) };
    let text = |member: &Value| match member {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| foreign(key)),
        other => Err(strange(other)),
    };
    members.iter().map(text).collect()
}

/// The reply is a piece of the log: `[["<sequence>-0", ["d", value]], ...]`.
pub(super) fn logged(reply: &Value, key: &str) -> Result<Vec<Logged>, StoreError> {
    let Value::Array(lines) = reply else { return Err(strange(reply)) };
    let line = |line: &Value| {
        let Value::Array(parts) = line else { return Err(strange(line)) };
        let [Value::BulkString(id), Value::Array(fields)] = parts.as_slice() else {
            return Err(strange(line));
        };
        let id = std::str::from_utf8(id).ok().and_then(|id| id.split('-').next()?.parse().ok());
        match (id, fields.as_slice()) {
            (Some(sequence), [_, Value::BulkString(value)]) => Ok(Logged { sequence, value: value.clone() }),
            _ => Err(foreign(key)),
        }
    };
    lines.iter().map(line).collect()
}
