//! A ledger's store in its simplest form: maps behind one lock. A real one, and fast enough for days and for ten thousand rounds.
//!
//! Must stay true: a commit gives way once before and once after it is done, so that whoever waits for it can be overtaken or cut
//! off there, as with a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{
    Batch, Committed, Log, Logged, Page, Piece, Reached, Record, Sharing, Snapshot, Store, StoreError,
    Version,
};
use cubewarden::time::{Clock as _, ManualClock, UnixMillis};
use tokio::sync::watch;

#[derive(Default)]
struct Content {
    sequence: Version,
    seen: u64,
    records: BTreeMap<String, Record>,
    sets: BTreeMap<String, BTreeSet<String>>,
    due: BTreeSet<(UnixMillis, String)>,
    /// The same by member.
    appointed: BTreeMap<String, UnixMillis>,
    logged: u64,
    log: BTreeMap<u64, Vec<u8>>,
    ends: BTreeMap<u64, Vec<u8>>,
}

/// See the head of the file.
pub(crate) struct Plain {
    clock: ManualClock,
    content: Mutex<Content>,
    changes: watch::Sender<u64>,
    sharing: Sharing,
}

impl Plain {
    pub(crate) fn new(clock: ManualClock) -> Self {
        let (content, changes, sharing) = (Mutex::default(), watch::Sender::new(0), Sharing::OneProcess);
        Self { clock, content, changes, sharing }
    }

    /// One that several wardens may share.
    pub(crate) fn shared(clock: ManualClock) -> Self {
        Self { sharing: Sharing::SeveralProcesses, ..Self::new(clock) }
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plain")
    }
}

impl Content {
    fn record(&self, key: &Key) -> Record {
        self.records.get(&key.to_string()).cloned().unwrap_or_default()
    }

    fn commit(&mut self, batch: Batch) -> Committed {
        if batch.until.is_some_and(|until| until.0 < self.seen) {
            return Committed::Moved;
        }
        if batch.expect.iter().any(|(key, version)| self.record(key).version != *version) {
            return Committed::Moved;
        }
        for (set, room) in batch.room {
            let held = self.sets.get(&set.to_string()).map_or(0, BTreeSet::len) as u64;
            if held >= room {
                return Committed::Full { set, held };
            }
        }
        self.sequence += 1;
        for key in batch.remove {
            self.records.remove(&key.to_string());
        }
        for (key, value) in batch.put {
            self.records.insert(key.to_string(), Record { version: self.sequence, value });
        }
        for (set, member) in batch.leave {
            self.sets.entry(set.to_string()).or_default().remove(&member);
        }
        for (set, member) in batch.join {
            self.sets.entry(set.to_string()).or_default().insert(member);
        }
        for moved in batch.appointments {
            if let Some(was) = self.appointed.remove(&moved.member) {
                self.due.remove(&(was, moved.member.clone()));
            }
            if let Some(is) = moved.is {
                self.appointed.insert(moved.member.clone(), is);
                self.due.insert((is, moved.member));
            }
        }
        for (half, lines) in [(&mut self.log, batch.log), (&mut self.ends, batch.ends)] {
            for line in lines {
                self.logged += 1;
                half.insert(self.logged, line);
            }
        }
        Committed::Done(self.sequence)
    }
}

#[async_trait]
impl Store for Plain {
    async fn read(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let mut content = self.content.lock().unwrap();
        content.seen = content.seen.max(self.clock.now().0);
        let records = keys.iter().map(|key| content.record(key)).collect();
        let reached = Reached { sequence: content.sequence, own: content.sequence };
        Ok(Snapshot { now: UnixMillis(content.seen), reached, records })
    }

    fn clock(&self) -> Option<UnixMillis> {
        let mut content = self.content.lock().unwrap();
        content.seen = content.seen.max(self.clock.now().0);
        Some(UnixMillis(content.seen))
    }

    async fn members(&self, set: &Set, after: Option<&str>, most: usize) -> Result<Vec<String>, StoreError> {
        let content = self.content.lock().unwrap();
        let members = content.sets.get(&set.to_string()).into_iter().flatten();
        let later = members.filter(|member| after.is_none_or(|after| member.as_str() > after));
        Ok(later.take(most).cloned().collect())
    }

    async fn sizes(&self, sets: &[Set]) -> Result<Vec<u64>, StoreError> {
        let content = self.content.lock().unwrap();
        let size = |set: &Set| content.sets.get(&set.to_string()).map_or(0, BTreeSet::len) as u64;
        Ok(sets.iter().map(size).collect())
    }

    async fn due(&self, until: UnixMillis, most: usize) -> Result<Vec<String>, StoreError> {
        let content = self.content.lock().unwrap();
        let due = content.due.iter().take_while(|(at, _)| *at <= until);
        Ok(due.take(most).map(|(_, member)| member.clone()).collect())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        tokio::task::yield_now().await;
        let now = self.clock.now().0;
        let committed = {
            let mut content = self.content.lock().unwrap();
            content.seen = content.seen.max(now);
            content.commit(batch)
        };
        // Only what was written is told: a waiter's own vain try would wake it again, without end.
        if matches!(committed, Committed::Done(_)) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        tokio::task::yield_now().await;
        Ok(committed)
    }

    async fn log(&self, log: Log, after: u64, most: usize) -> Result<Vec<Logged>, StoreError> {
        let content = self.content.lock().unwrap();
        let lines =
            (if log == Log::Calls { &content.log } else { &content.ends }).range(after + 1..).take(most);
        Ok(lines.map(|(sequence, value)| Logged { sequence: *sequence, value: value.clone() }).collect())
    }

    async fn trim_log(&self, log: Log, keep: u64, through: u64) -> Result<(), StoreError> {
        let mut content = self.content.lock().unwrap();
        let half = if log == Log::Calls { &mut content.log } else { &mut content.ends };
        half.retain(|sequence, _| *sequence > through);
        while half.len() as u64 > keep {
            half.pop_first();
        }
        Ok(())
    }

    async fn scan(&self, _from: Option<&str>) -> Result<Page, StoreError> {
        let content = self.content.lock().unwrap();
        let records = content
            .records
            .iter()
            .map(|(key, record)| Piece::Record { key: key.clone(), record: record.clone() });
        let members = content.sets.iter().flat_map(|(set, members)| {
            members.iter().map(|member| Piece::Member { set: set.clone(), member: member.clone() })
        });
        let due =
            content.due.iter().map(|(at, member)| Piece::Appointment { member: member.clone(), at: *at });
        Ok(Page { pieces: records.chain(members).chain(due).collect(), next: None })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn sharing(&self) -> Sharing {
        self.sharing
    }
}
