//! The scripts of `lua/`: how each is called, and what its replies mean.
//!
//! Must stay true: a script that Redis does not know (it was restarted, flushed, or another took over) is sent whole in the
//! same call, wherever the call comes from; a reply that a script's head does not name is an error.

use redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind, Value};

use super::link::{Again, Link, foreign, meant, strange};
use super::names::Names;
use super::{foreign_record, record};
use crate::store::schema::Set;
use crate::store::{Batch, Committed, Log, Reached, Snapshot, StoreError, Version};
use crate::time::UnixMillis;

const OK: i64 = 0;
const MOVED: i64 = 1;
const FULL: i64 = 2;
const FOREIGN: i64 = 3;
const BEHIND: i64 = 4;

/// Prelude and script are one text to Redis.
macro_rules! script {
    ($file:literal) => {
        Text::new(concat!(
            include_str!("../../../lua/prelude.lua"),
            include_str!(concat!("../../../lua/", $file))
        ))
    };
}

/// All scripts.
pub(super) struct Scripts {
    commit: Text,
    read: Text,
    scan: Text,
    sizes: Text,
}

struct Text {
    code: &'static str,
    hash: String,
}

/// One call of a script: its keys and arguments as they go out.
struct Call<'a> {
    script: &'a Text,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
    again: Again,
}

impl Text {
    fn new(code: &'static str) -> Self {
        Self { code, hash: Script::new(code).get_hash().to_owned() }
    }
}

impl Call<'_> {
    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len());
        for key in &self.keys {
            command.arg(key);
        }
        for argument in &self.arguments {
            command.arg(argument);
        }
        command
    }

    async fn send(&self, link: &Link) -> RedisResult<Vec<Value>> {
        let known = link.ask(&self.command("EVALSHA", &self.script.hash), self.again).await;
        let reply = match known {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                link.ask(&self.command("EVAL", self.script.code), self.again).await?
            }
            other => other?,
        };
        match reply {
            Value::Array(reply) => Ok(reply),
            other => Ok(vec![other]),
        }
    }

    /// The reply if it is not about a key that is not ours.
    async fn ask(&self, link: &Link) -> Result<Vec<Value>, StoreError> {
        let reply = self.send(link).await.map_err(|error| meant(&error, "script"))?;
        match reply.as_slice() {
            [Value::Int(FOREIGN), Value::BulkString(key)] => Err(foreign(&String::from_utf8_lossy(key))),
            _ => Ok(reply),
        }
    }
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            commit: script!("commit.lua"),
            read: script!("read.lua"),
            scan: script!("scan.lua"),
            sizes: script!("sizes.lua"),
        }
    }

    /// `lua/read.lua`.
    pub(super) fn read(&self, head: &str, keys: &[String], given: &str, who: &str) -> Read<'_> {
        let keys = [&[head.to_owned()], keys].concat();
        let arguments = vec![given.into(), who.into()];
        Read(Call { script: &self.read, keys, arguments, again: Again::Safe })
    }

    /// `lua/scan.lua`.
    pub(super) fn scan(&self, head: &str, from: &str, pattern: &str, most: usize) -> Scan<'_> {
        let arguments = vec![from.into(), pattern.into(), most.to_string().into_bytes()];
        Scan(Call { script: &self.scan, keys: vec![head.to_owned()], arguments, again: Again::Safe })
    }

    /// `lua/sizes.lua`.
    pub(super) fn sizes(&self, sets: &[String]) -> Sizes<'_> {
        Sizes(Call { script: &self.sizes, keys: sets.to_vec(), arguments: Vec::new(), again: Again::Safe })
    }

    /// `lua/commit.lua`.
    pub(super) fn commit<'a>(
        &'a self,
        names: &Names,
        batch: &'a Batch,
        given: &str,
        who: &str,
    ) -> Commit<'a> {
        let keys = vec![names.head(), names.due(), names.log(Log::Calls), names.log(Log::Ends)];
        let floor = [batch.floor.sequence, batch.floor.own].map(|floor| floor.to_string().into_bytes());
        let [sequence, own] = floor;
        let until = batch.until.map_or(String::new(), |until| until.0.to_string());
        let channel = names.channel().into_bytes();
        let arguments = vec![given.into(), who.into(), channel, sequence, own, until.into()];
        let call = Call { script: &self.commit, keys, arguments, again: Again::Unsafe };
        Commit { call: call.with(names, batch), batch }
    }
}

impl Call<'_> {
    /// The sections of `lua/commit.lua`, in its order.
    fn with(mut self, names: &Names, batch: &Batch) -> Self {
        self.section(batch.expect.iter().map(|(key, version)| (names.of(key), version.to_string().into())));
        self.section(batch.room.iter().map(|(set, fewer)| (names.of(set), fewer.to_string().into())));
        self.count(batch.remove.len());
        self.keys.extend(batch.remove.iter().map(|key| names.of(key)));
        self.section(batch.put.iter().map(|(key, value)| (names.of(key), value.clone())));
        self.section(batch.leave.iter().map(|(set, member)| (names.of(set), member.clone().into())));
        self.section(batch.join.iter().map(|(set, member)| (names.of(set), member.clone().into())));
        self.count(batch.appointments.len());
        for appointment in &batch.appointments {
            let at = appointment.is.map_or(String::new(), |at| at.0.to_string());
            self.arguments.extend([appointment.member.clone().into_bytes(), at.into_bytes()]);
        }
        for log in [&batch.log, &batch.ends] {
            self.count(log.len());
            self.arguments.extend(log.iter().cloned());
        }
        self
    }

    fn count(&mut self, operations: usize) {
        self.arguments.push(operations.to_string().into_bytes());
    }

    fn section(&mut self, operations: impl ExactSizeIterator<Item = (String, Vec<u8>)>) {
        self.count(operations.len());
        for (key, argument) in operations {
            self.keys.push(key);
            self.arguments.push(argument);
        }
    }
}

/// A call of `lua/read.lua`.
pub(super) struct Read<'a>(Call<'a>);

impl Read<'_> {
    /// The records in the order asked for, the time, and how far the ledger has come.
    pub(super) async fn ask(&self, link: &Link) -> Result<Snapshot, StoreError> {
        let reply = self.0.ask(link).await?;
        let asked = self.0.keys.len() - 1;
        let [Value::Int(OK), Value::Int(now), Value::Int(sequence), Value::Int(own), records @ ..] =
            reply.as_slice()
        else {
            return Err(strange(&Value::Array(reply)));
        };
        let number = |value: &i64| u64::try_from(*value).ok();
        let head = number(now).zip(number(sequence)).zip(number(own));
        let records = self.0.keys[1..].iter().zip(records).map(|(name, stored)| match stored {
            Value::BulkString(stored) => Ok(record(stored, name)),
            Value::Int(FOREIGN) => Ok(foreign_record(name)),
            other => Err(strange(other)),
        });
        let records = records.collect::<Result<Vec<_>, _>>()?;
        match head {
            Some(((now, sequence), own)) if records.len() == asked => {
                Ok(Snapshot { now: UnixMillis(now), reached: Reached { sequence, own }, records })
            }
            _ => Err(strange(&Value::Array(reply))),
        }
    }
}

/// A call of `lua/scan.lua`.
pub(super) struct Scan<'a>(Call<'a>);

impl Scan<'_> {
    /// Where the next page begins, and each name with the kind of what lies there.
    pub(super) async fn ask(&self, link: &Link) -> Result<(String, Vec<(String, String)>), StoreError> {
        let reply = self.0.ask(link).await?;
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let read = match reply.as_slice() {
            [Value::Int(OK), next, found @ ..] => {
                let pairs = found.chunks_exact(2).map(|pair| Some((text(&pair[0])?, text(&pair[1])?)));
                text(next).zip(pairs.collect::<Option<Vec<_>>>())
            }
            _ => None,
        };
        read.ok_or_else(|| strange(&Value::Array(reply)))
    }
}

/// A call of `lua/sizes.lua`.
pub(super) struct Sizes<'a>(Call<'a>);

impl Sizes<'_> {
    /// How many members each set has.
    pub(super) async fn ask(&self, link: &Link) -> Result<Vec<u64>, StoreError> {
        let reply = self.0.ask(link).await?;
        let [Value::Int(OK), sizes @ ..] = reply.as_slice() else {
            return Err(strange(&Value::Array(reply)));
        };
        let sizes = sizes.iter().map(|size| match size {
            Value::Int(size) => u64::try_from(*size).ok(),
            _ => None,
        });
        let sizes: Option<Vec<u64>> = sizes.collect();
        sizes.filter(|sizes| sizes.len() == self.0.keys.len()).ok_or_else(|| strange(&Value::Array(reply)))
    }
}

/// A call of `lua/commit.lua`.
pub(super) struct Commit<'a> {
    call: Call<'a>,
    batch: &'a Batch,
}

impl Commit<'_> {
    /// What became of the batch, and the time if it was done.
    pub(super) async fn ask(&self, link: &Link) -> Result<(Committed, Option<u64>), StoreError> {
        let reply = self.call.ask(link).await?;
        let number = |value: &i64| u64::try_from(*value).ok();
        let committed = match reply.as_slice() {
            [Value::Int(OK), Value::Int(sequence), Value::Int(now)] => {
                number(sequence).map(|sequence: Version| (Committed::Done(sequence), number(now)))
            }
            [Value::Int(BEHIND)] => return Err(StoreError::Behind),
            [Value::Int(MOVED)] => Some((Committed::Moved, None)),
            [Value::Int(FULL), Value::Int(position), Value::Int(held)] => {
                let full = self.room(*position).zip(number(held));
                full.map(|(set, held)| (Committed::Full { set, held }, None))
            }
            _ => None,
        };
        committed.ok_or_else(|| strange(&Value::Array(reply)))
    }

    fn room(&self, position: i64) -> Option<Set> {
        self.batch.room.get(usize::try_from(position).ok()?).map(|(set, _)| set.clone())
    }
}
