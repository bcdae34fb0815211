//! The one writer: takes all that waits, checks and writes it in one transaction, makes it durable once, answers all.
//!
//! ```text
//! commit ─┐
//! commit ─┼─► queue ─► group ─► check, write, check, write, ... ─► one sync ─► answers
//! commit ─┘
//! ```
//!
//! Must stay true: a batch sees what the earlier ones of its group wrote; a batch that moved or is full writes nothing;
//! nobody is answered, and no mirror moves, before the sync is over; a group that wrote no record and no set wakes nobody
//! (whoever waits for a slot would otherwise wake itself with each try that finds none). If the sync fails, nobody knows what the disk holds:
//! the file is opened anew and everything that is kept in memory is read from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use redb::{Database, Durability, ReadableDatabase};
use tokio::sync::{mpsc, oneshot};

use super::disk::Opener;
use super::tables::{self, Head, Tables};
use super::{Shared, write_lock};
use crate::store::schema::Set;
use crate::store::{Batch, Committed, Log, Reached, StoreError};

/// Bounds what one transaction holds, and how long the first of a group waits for the rest to be written.
pub(super) const LARGEST_GROUP: usize = 512;

/// Something for the writer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What became of a job.
pub(super) type Answer = Result<Committed, StoreError>;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Work {
    /// All of it or nothing.
    Commit(Box<Batch>),
    /// Drop old decision records.
    Trim { log: Log, keep: u64, through: u64 },
    /// Nothing but to find out whether the file must be opened anew: a reader could not read.
    Probe,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    opener: Opener,
    head: Head,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, opener: Opener, head: Head) -> Self {
        Self { shared, opener, head }
    }

    /// Works until nobody can send any more and the queue is empty.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut group = vec![first];
            while group.len() < LARGEST_GROUP
                && let Ok(next) = queue.try_recv()
            {
                group.push(next);
            }
            self.handle(group);
        }
    }

    fn handle(&mut self, group: Vec<Job>) {
        let (works, waiting): (Vec<Work>, Vec<_>) =
            group.into_iter().map(|job| (job.work, job.answer)).unzip();
        let (answers, news): (Vec<Answer>, News) = match self.ready().and_then(|()| self.write(&works)) {
            Ok(done) => done,
            Err(error) => {
                let text = error.to_string();
                tracing::error!(
                    error = text,
                    batches = works.len(),
                    "The ledger's file could not be written."
                );
                self.reopen_or_stay_closed();
                let failed = works.iter().map(|_| Err(StoreError::Unavailable(text.clone())));
                // Nobody knows what the disk holds: whoever waits had better look.
                (failed.collect(), News::Some)
            }
        };
        for (answer, waiting) in answers.into_iter().zip(waiting) {
            // Whoever went away meanwhile finds out by reading.
            let _gone = waiting.send(answer);
        }
        if news == News::Some {
            self.shared.tell();
        }
    }

    /// Opens the file if an earlier failure left it closed.
    fn ready(&mut self) -> Result<(), redb::Error> {
        if self.shared.database.read().is_ok_and(|database| database.is_some()) {
            Ok(())
        } else {
            self.reopen()
        }
    }

    fn write(&mut self, works: &[Work]) -> Result<(Vec<Answer>, News), redb::Error> {
        let shared = self.shared.clone();
        let database = shared.database.read().map_err(|_| redb::Error::DatabaseClosed)?;
        let database = database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        let mut write = database.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        let mut group = Group::begin(&shared, self.head, Tables::open(&write)?);
        let done = works.iter().map(|work| group.apply(work)).collect::<Result<Vec<_>, _>>()?;
        let news = group.news;
        let Some(changed) = group.finish()? else {
            write.abort()?;
            return Ok((done, news));
        };
        write.commit()?;
        self.head = changed.head;
        shared.confirm(changed.sizes, works.len() as u64);
        Ok((done, news))
    }

    fn reopen_or_stay_closed(&mut self) {
        if let Err(error) = self.reopen() {
            tracing::error!(%error, "The ledger's file could not be opened again; the next call tries.");
        }
    }

    /// Closes the file before it is opened: the database refuses to be open twice, and to go on after a failed write.
    fn reopen(&mut self) -> Result<(), redb::Error> {
        let shared = self.shared.clone();
        let mut place = write_lock(&shared.database);
        drop(place.take());
        let database = (self.opener)()?;
        let (head, sizes) = load(&database)?;
        self.head = head;
        shared.seen.fetch_max(head.seen, AcqRel);
        *write_lock(&shared.sizes) = sizes;
        *place = Some(database);
        drop(place);
        shared.tell();
        Ok(())
    }
}

/// What is kept in memory, as the file has it.
pub(super) fn load(database: &Database) -> Result<(Head, HashMap<String, u64>), redb::Error> {
    let read = database.begin_read()?;
    Ok((tables::head(&read)?, tables::count_members(&read)?))
}

impl Shared {
    /// Wakes whoever waits for a change.
    fn tell(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Moves what is kept in memory to where the file is now.
    fn confirm(&self, changed: HashMap<String, u64>, batches: u64) {
        let mut sizes = write_lock(&self.sizes);
        for (set, size) in changed {
            // An empty set is no set: names of buckets come and go.
            match size {
                0 => sizes.remove(&set),
                _ => sizes.insert(set, size),
            };
        }
        self.groups.groups.fetch_add(1, Relaxed);
        self.groups.batches.fetch_add(batches, Relaxed);
        self.groups.largest.fetch_max(batches, Relaxed);
    }
}

/// One group on its way: the open tables, and what will be true once it is durable.
struct Group<'a> {
    shared: &'a Shared,
    tables: Tables<'a>,
    head: Head,
    sizes: HashMap<String, u64>,
    outcome: Outcome,
    news: News,
}

/// Whether somebody may wait for what happened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// Nothing was written, or nothing but the log.
    None,
    /// A record or a set has changed.
    Some,
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Untouched,
    Written,
}

/// What a group changes in memory once it is durable.
struct Changed {
    head: Head,
    sizes: HashMap<String, u64>,
}

impl<'a> Group<'a> {
    fn begin(shared: &'a Shared, head: Head, tables: Tables<'a>) -> Self {
        let head = Head { seen: shared.now().0, ..head };
        Self { shared, tables, head, sizes: HashMap::new(), outcome: Outcome::Untouched, news: News::None }
    }

    fn apply(&mut self, work: &Work) -> Result<Answer, redb::Error> {
        let sequence = self.head.sequence;
        let committed = match work {
            Work::Probe => Committed::Done(sequence),
            Work::Trim { log, keep, through } => {
                self.outcome = Outcome::Written;
                self.tables.trim(*log, *keep, *through)?;
                Committed::Done(sequence)
            }
            // The file was put back to an earlier state while it was closed after a failure.
            Work::Commit(batch) if Reached { sequence, own: sequence }.behind(batch.floor) => {
                return Ok(Err(StoreError::Behind));
            }
            Work::Commit(batch) => match self.refusal(batch)? {
                Some(refusal) => refusal,
                None => self.perform(batch)?,
            },
        };
        Ok(Ok(committed))
    }

    /// Why the batch may not be written. A record that moved comes first: who reads again may not need room at all.
    fn refusal(&self, batch: &Batch) -> Result<Option<Committed>, redb::Error> {
        if batch.until.is_some_and(|until| until.0 < self.head.seen) {
            return Ok(Some(Committed::Moved));
        }
        for (key, version) in &batch.expect {
            if self.tables.version(&key.to_string())? != *version {
                return Ok(Some(Committed::Moved));
            }
        }
        let full = |(set, fewer): &(Set, u64)| {
            let held = self.size(&set.to_string());
            (held >= *fewer).then(|| Committed::Full { set: set.clone(), held })
        };
        Ok(batch.room.iter().find_map(full))
    }

    /// Removals come before additions, so that a batch which names the same thing in both leaves it there.
    fn perform(&mut self, batch: &Batch) -> Result<Committed, redb::Error> {
        self.outcome = Outcome::Written;
        let Batch { put, remove, join, leave, .. } = batch;
        if !(put.is_empty() && remove.is_empty() && join.is_empty() && leave.is_empty()) {
            self.news = News::Some;
        }
        self.head.sequence += 1;
        for key in &batch.remove {
            self.tables.remove(&key.to_string())?;
        }
        for (key, value) in &batch.put {
            self.tables.put(&key.to_string(), self.head.sequence, value)?;
        }
        for (set, member) in &batch.leave {
            let set = set.to_string();
            if self.tables.leave(&set, member)? {
                let size = self.size(&set).saturating_sub(1);
                self.sizes.insert(set, size);
            }
        }
        for (set, member) in &batch.join {
            let set = set.to_string();
            if self.tables.join(&set, member)? {
                let size = self.size(&set) + 1;
                self.sizes.insert(set, size);
            }
        }
        for appointment in &batch.appointments {
            self.tables.appoint(appointment)?;
        }
        for (log, values) in [(Log::Calls, &batch.log), (Log::Ends, &batch.ends)] {
            for value in values {
                self.head.logged += 1;
                self.tables.append(log, self.head.logged, value)?;
            }
        }
        Ok(Committed::Done(self.head.sequence))
    }

    /// How many members the set has after what the group has done so far.
    fn size(&self, set: &str) -> u64 {
        self.sizes.get(set).copied().unwrap_or_else(|| self.shared.size(set))
    }

    /// `None` if nothing was written, so that nothing needs to be durable.
    fn finish(mut self) -> Result<Option<Changed>, redb::Error> {
        if self.outcome == Outcome::Untouched {
            return Ok(None);
        }
        self.tables.set_head(self.head)?;
        Ok(Some(Changed { head: self.head, sizes: self.sizes }))
    }
}
