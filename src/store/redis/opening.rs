//! Whether a ledger can be trusted to this Redis, and what to do if not.
//!
//! Must stay true: nothing is written here; the key space is looked through once, and no further than [`LOOK`].

use redis::{RedisError, RedisResult, Value};

use super::address::{Address, BadAddress};
use super::link::{self, CONNECT};
use crate::store::settings;
use crate::time::{WallClock, within};

/// So many keys are looked at, at most, for Cube's own.
const LOOK: usize = 200_000;
/// So many at a time.
const PAGE: usize = 1000;

/// Why the ledger cannot be kept there; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The setting is no address.
    #[error(transparent)]
    Address(#[from] BadAddress),
    /// Nobody answers, or not to us.
    #[error(
        "Redis cannot be reached ({0}): start it, or set store.url to where it listens, with its password"
    )]
    Unreachable(RedisError),
    /// It took too long.
    #[error("Redis does not answer: look at the server, and whether store.url names it")]
    Silent,
    /// Too old.
    #[error("this is Redis {0}: the ledger needs Redis 7 or newer, or Valkey")]
    TooOld(String),
    /// It may forget what it was told.
    #[error(
        "this Redis drops keys when its memory is full (maxmemory-policy is {0}), so it cannot keep a ledger: \
         set `maxmemory-policy noeviction` in its configuration, or give the ledger a Redis of its own"
    )]
    Evicts(String),
    /// It is Cube's.
    #[error(
        "this database holds the key {0:?}, so it is Cube's own: give the ledger another database or another Redis, \
         or set store.share_redis = true if both shall live in this one"
    )]
    Cubes(String),
}

/// Looks at each server that is named.
pub(super) async fn check(address: &Address, settings: &settings::Redis) -> Result<(), OpenError> {
    let servers = within(&WallClock, CONNECT, address.servers()).await.map_err(|_| OpenError::Silent)?;
    for server in servers.map_err(OpenError::Unreachable)? {
        check_server(&server, settings).await?;
    }
    Ok(())
}

async fn check_server(server: &redis::Client, settings: &settings::Redis) -> Result<(), OpenError> {
    let connected =
        within(&WallClock, CONNECT, link::connection(server)).await.map_err(|_| OpenError::Silent)?;
    let mut connection = connected.map_err(OpenError::Unreachable)?;
    let info: RedisResult<String> = redis::cmd("INFO").query_async(&mut connection).await;
    check_info(&info.map_err(OpenError::Unreachable)?)?;
    if settings.share {
        return Ok(());
    }
    match cubes_own(&mut connection).await.map_err(OpenError::Unreachable)? {
        Some(key) => Err(OpenError::Cubes(key)),
        None => Ok(()),
    }
}

/// What the server says about itself.
fn check_info(info: &str) -> Result<(), OpenError> {
    let field = |name: &str| {
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value.trim())
    };
    // Valkey goes on from Redis 7.2 and says so here.
    let version = field("redis_version").unwrap_or("of an unknown version");
    let major: Option<u32> = version.split('.').next().and_then(|major| major.parse().ok());
    if major.is_none_or(|major| major < 7) {
        return Err(OpenError::TooOld(version.to_owned()));
    }
    let policy = field("maxmemory_policy").unwrap_or("unknown");
    if policy != "noeviction" {
        return Err(OpenError::Evicts(policy.to_owned()));
    }
    if field("aof_enabled") == Some("0") {
        tracing::warn!(
            "this Redis keeps no append-only file: what it was told since its last dump is lost when it ends; \
             set `appendonly yes` (and `appendfsync always` where no commit may be lost)"
        );
    }
    Ok(())
}

/// A key of Cube's, if one is found among the first.
async fn cubes_own(connection: &mut redis::aio::MultiplexedConnection) -> RedisResult<Option<String>> {
    let mut cursor = 0_u64;
    for _ in 0..LOOK / PAGE {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg("cube:*").arg("COUNT").arg(PAGE);
        let (next, found): (u64, Vec<Value>) = scan.query_async(connection).await?;
        if let Some(key) = found.first() {
            return Ok(Some(redis::from_redis_value_ref(key)?));
        }
        if next == 0 {
            return Ok(None);
        }
        cursor = next;
    }
    tracing::warn!(looked_at = LOOK, "not every key could be looked at: is this database Cube's own?");
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn says(info: &str) -> String {
        check_info(info).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_server_that_is_too_old_or_forgets_is_refused_with_what_to_do() {
        let info =
            |version, policy| format!("# Server\r\nredis_version:{version}\r\nmaxmemory_policy:{policy}\r\n");
        assert_eq!(says(&info("7.0.15", "noeviction")), "fine");
        assert_eq!(says(&info("7.2.4", "noeviction")), "fine");
        assert_eq!(says(&info("10.1.0", "noeviction")), "fine");
        assert!(says(&info("6.2.14", "noeviction")).contains("needs Redis 7"));
        assert!(says("").contains("needs Redis 7"));
        assert!(says(&info("8.0.0", "allkeys-lru")).contains("`maxmemory-policy noeviction`"));
        let error = check_info(&info("7.0.0", "volatile-ttl")).unwrap_err();
        assert!(matches!(error, OpenError::Evicts(policy) if policy == "volatile-ttl"));
    }
}
