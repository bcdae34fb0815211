//! The store that several wardens share: Redis 7 and newer, or Valkey; alone, behind Sentinel, or a Cluster.
//!
//! One commit is one script (`lua/commit.lua`), so it happens whole or not at all; a read is another, with the clock in the
//! same round trip. All keys of a ledger share one hash tag (`names`), so that a Cluster keeps them together.
//!
//! Must stay true: a lost reply is [`StoreError::Unavailable`] and the commit is not sent again from here, because the
//! store cannot know whether it happened; the caller asks again with the same expectations. What is not ours in Redis is
//! named and left as it is, and the others go on. The clock is Redis's own, and never shows less than it has shown.
//! Durable is what Redis makes durable: `appendonly yes`, and `appendfsync always` where not one commit may be lost.
//! Deliberately absent: a scan of the key space (but once, bounded, when it is opened), and time limits on keys.

mod address;
mod clock;
mod hints;
mod link;
mod names;
mod opening;
mod scan;
mod scripts;

use async_trait::async_trait;
use std::fmt;
use tokio::sync::watch;

pub use self::address::{Address, BadAddress};
pub use self::clock::Time;
pub use self::opening::OpenError;

use self::clock::LedgerClock;
use self::hints::Hints;
use self::link::{Again, Link};
use self::names::Names;
use self::scripts::Scripts;
use super::schema::{Key, Set};
use super::settings;
use super::{Batch, Committed, Log, Logged, Page, Record, Sharing, Snapshot, Store, StoreError, UNREADABLE};
use crate::time::UnixMillis;

/// The shared store.
pub struct Redis {
    link: Link,
    scripts: Scripts,
    names: Names,
    clock: LedgerClock,
    hints: Hints,
}

impl Redis {
    /// Connects, and looks whether a ledger can be trusted to this Redis.
    ///
    /// # Errors
    /// [`OpenError`], whose text says what to do.
    pub async fn open(settings: &settings::Redis, time: Time) -> Result<Self, OpenError> {
        let address = Address::parse(&settings.url)?;
        opening::check(&address, settings).await?;
        let names = Names::new(&settings.ledger);
        let hints = Hints::listen(address.clone(), names.channel());
        let link = Link::new(address);
        Ok(Self { link, scripts: Scripts::new(), names, clock: LedgerClock::new(time), hints })
    }

    /// Whether it keeps an append-only file, as far as it tells.
    pub async fn append_only(&self) -> Option<bool> {
        let mut ask = redis::cmd("INFO");
        ask.arg("persistence");
        let reply = self.link.ask(&ask, Again::Safe).await.ok()?;
        let info: String = redis::from_redis_value_ref(&reply).ok()?;
        let enabled = info.lines().find_map(|line| line.strip_prefix("aof_enabled:"))?;
        Some(enabled.trim() == "1")
    }

    fn names_of(&self, keys: &[Key]) -> Vec<String> {
        names_in(&self.names, keys)
    }
}

#[async_trait]
impl Store for Redis {
    async fn read(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let who = self.hints.own_name();
        let names = self.names_of(keys);
        let read = self.scripts.read(&self.names.head(), &names, &self.clock.given(), who);
        let snapshot = read.ask(&self.link).await?;
        Ok(Snapshot { now: self.clock.answered(snapshot.now.0), ..snapshot })
    }

    fn clock(&self) -> Option<UnixMillis> {
        self.clock.unasked()
    }

    async fn members(&self, set: &Set, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let set = self.names.of(set);
        let from = after.map_or(b"-".to_vec(), |after| [b"(", after.as_bytes()].concat());
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(&set).arg(from).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(count(most));
        link::texts(&self.link.ask(&ask, Again::Safe).await.map_err(|error| link::meant(&error, &set))?, &set)
    }

    async fn sizes(&self, sets: &[Set]) -> Result<Vec<u64>, StoreError> {
        if sets.is_empty() {
            return Ok(Vec::new());
        }
        let sets: Vec<String> = sets.iter().map(|set| self.names.of(set)).collect();
        self.scripts.sizes(&sets).ask(&self.link).await
    }

    async fn due(&self, until: UnixMillis, most: usize) -> Result<Vec<String>, StoreError> {
        let due = self.names.due();
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(&due).arg("-inf").arg(until.0).arg("BYSCORE").arg("LIMIT").arg(0).arg(count(most));
        link::texts(&self.link.ask(&ask, Again::Safe).await.map_err(|error| link::meant(&error, &due))?, &due)
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let commit = self.scripts.commit(&self.names, &batch, &self.clock.given(), self.hints.own_name());
        let (committed, now) = commit.ask(&self.link).await?;
        now.map(|now| self.clock.answered(now));
        if matches!(committed, Committed::Done(_)) && !batch.leave.is_empty() {
            // Those who wait here need not wait for the hint to come round.
            self.hints.tell();
        }
        Ok(committed)
    }

    async fn log(&self, log: Log, after: u64, most: usize) -> Result<Vec<Logged>, StoreError> {
        let log = self.names.log(log);
        let mut ask = redis::cmd("XRANGE");
        ask.arg(&log).arg(format!("({after}")).arg("+").arg("COUNT").arg(count(most));
        link::logged(
            &self.link.ask(&ask, Again::Safe).await.map_err(|error| link::meant(&error, &log))?,
            &log,
        )
    }

    async fn trim_log(&self, log: Log, keep: u64, through: u64) -> Result<(), StoreError> {
        let log = self.names.log(log);
        let first = through.saturating_add(1);
        for (by, threshold) in [("MINID", first), ("MAXLEN", keep)] {
            let mut ask = redis::cmd("XTRIM");
            ask.arg(&log).arg(by).arg("=").arg(threshold);
            self.link.ask(&ask, Again::Safe).await.map_err(|error| link::meant(&error, &log))?;
        }
        Ok(())
    }

    async fn scan(&self, from: Option<&str>) -> Result<Page, StoreError> {
        self.page(from).await
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    fn sharing(&self) -> Sharing {
        Sharing::SeveralProcesses
    }
}

fn names_in(names: &Names, keys: &[impl fmt::Display]) -> Vec<String> {
    keys.iter().map(|key| names.of(key)).collect()
}

/// As Redis takes it: -1 would mean all, and more than a signed number holds is an error there.
fn count(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// A record as it lies in Redis: `<version> <value>`, nothing if there is none.
fn record(stored: &[u8], name: &str) -> Record {
    if stored.is_empty() {
        return Record::default();
    }
    let parts = stored.iter().position(|byte| *byte == b' ').map(|space| stored.split_at(space));
    let version = parts.and_then(|(version, _)| std::str::from_utf8(version).ok()?.parse().ok());
    match (parts, version) {
        (Some((_, value)), Some(version)) => Record { version, value: value[1..].to_vec() },
        _ => foreign_record(name),
    }
}

/// A record that is not ours.
fn foreign_record(name: &str) -> Record {
    Record { version: UNREADABLE, value: format!("{name}: {}", link::FOREIGN).into_bytes() }
}

impl fmt::Debug for Redis {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("names", &self.names).finish_non_exhaustive()
    }
}
