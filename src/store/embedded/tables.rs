//! What lies in the file: six tables, how a batch is written into them and how they are read.
//!
//! | table | key → value |
//! |---|---|
//! | `head` | `layout`, `sequence`, `logged`, `seen` → number |
//! | `records` | key → version, bytes |
//! | `members` | set, member → nothing |
//! | `appointments` | time, member → nothing |
//! | `log`, `ends` | sequence → bytes |
//!
//! Must stay true: everything here works inside a transaction that somebody else begins and ends; nothing is kept.

use std::collections::HashMap;
use std::ops::Bound;

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, Table, TableDefinition, WriteTransaction};

use crate::store::{Appointment, Log, Logged, Page, Piece, Record, Version};
use crate::time::UnixMillis;

/// The arrangement of tables that this program writes. A greater one is refused.
pub(super) const LAYOUT: u64 = 1;

type Result<T> = std::result::Result<T, redb::Error>;
type Nothing = ();

const HEAD: TableDefinition<&str, u64> = TableDefinition::new("head");
const RECORDS: TableDefinition<&str, (Version, &[u8])> = TableDefinition::new("records");
const MEMBERS: TableDefinition<(&str, &str), Nothing> = TableDefinition::new("members");
const APPOINTMENTS: TableDefinition<(u64, &str), Nothing> = TableDefinition::new("appointments");
const CALLS: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
const ENDS: TableDefinition<u64, &[u8]> = TableDefinition::new("ends");

/// The numbers that go on from commit to commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// Of the last commit.
    pub(super) sequence: Version,
    /// Of the last decision record; kept apart from the log, so that trimming it all does not begin anew.
    pub(super) logged: u64,
    /// The greatest time ever confirmed.
    pub(super) seen: u64,
}

/// Whether the file is one of ours.
pub(super) enum Kind {
    /// It holds no table at all: it was made just now.
    Empty,
    /// It holds tables, but not ours.
    Foreign,
    /// Ours, of this layout.
    Ledger(u64),
}

pub(super) fn kind(read: &ReadTransaction) -> Result<Kind> {
    let mut tables = read.list_tables()?;
    if tables.next().is_none() {
        return Ok(Kind::Empty);
    }
    let layout = read.open_table(HEAD).ok().map(|head| number(&head, "layout")).transpose()?;
    Ok(match layout {
        None | Some(0) => Kind::Foreign,
        Some(layout) => Kind::Ledger(layout),
    })
}

/// Makes the tables of an empty file.
pub(super) fn lay_out(write: &WriteTransaction) -> Result<()> {
    let mut tables = Tables::open(write)?;
    tables.head.insert("layout", LAYOUT)?;
    Ok(())
}

pub(super) fn head(read: &ReadTransaction) -> Result<Head> {
    let head = read.open_table(HEAD)?;
    Ok(Head {
        sequence: number(&head, "sequence")?,
        logged: number(&head, "logged")?,
        seen: number(&head, "seen")?,
    })
}

fn number(head: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64> {
    Ok(head.get(name)?.map_or(0, |found| found.value()))
}

/// How many members each set has, counted one by one.
pub(super) fn count_members(read: &ReadTransaction) -> Result<HashMap<String, u64>> {
    let mut sizes: HashMap<String, u64> = HashMap::new();
    for found in read.open_table(MEMBERS)?.iter()? {
        let (key, _) = found?;
        let (set, _) = key.value();
        *sizes.entry(set.to_owned()).or_default() += 1;
    }
    Ok(sizes)
}

pub(super) fn records(read: &ReadTransaction, keys: &[String]) -> Result<Vec<Record>> {
    let table = read.open_table(RECORDS)?;
    let record = |key: &String| {
        let Some(found) = table.get(key.as_str())? else { return Ok(Record::default()) };
        let (version, value) = found.value();
        Ok(Record { version, value: value.to_vec() })
    };
    keys.iter().map(record).collect()
}

pub(super) fn members(
    read: &ReadTransaction,
    set: &str,
    after: Option<&str>,
    most: usize,
) -> Result<Vec<String>> {
    let start = after.map_or(Bound::Included((set, "")), |after| Bound::Excluded((set, after)));
    let table = read.open_table(MEMBERS)?;
    let mut members = Vec::new();
    for found in table.range((start, Bound::Unbounded))?.take(most) {
        let (key, _) = found?;
        let (of, member) = key.value();
        if of != set {
            break;
        }
        members.push(member.to_owned());
    }
    Ok(members)
}

/// So many pieces a page, of one table.
const PAGE: usize = 1000;

/// A page of what the tables hold but the log. Where it ended: a letter for the table, then the last piece.
pub(super) fn page(read: &ReadTransaction, from: Option<&str>) -> Result<Page> {
    let (table, last) = from.map_or(("r", ""), |from| from.split_at(1));
    let mut pieces = Vec::new();
    let mut next = None;
    match table {
        "r" => {
            let start = if last.is_empty() { Bound::Unbounded } else { Bound::Excluded(last) };
            for found in read.open_table(RECORDS)?.range::<&str>((start, Bound::Unbounded))?.take(PAGE) {
                let (key, record) = found?;
                let (version, value) = record.value();
                let (key, record) = (key.value().to_owned(), Record { version, value: value.to_vec() });
                next = Some(format!("r{key}"));
                pieces.push(Piece::Record { key, record });
            }
        }
        "m" => {
            let (set, member) = last.split_once('\0').unwrap_or((last, ""));
            let start = if last.is_empty() { Bound::Unbounded } else { Bound::Excluded((set, member)) };
            for found in
                read.open_table(MEMBERS)?.range::<(&str, &str)>((start, Bound::Unbounded))?.take(PAGE)
            {
                let (key, _) = found?;
                let (set, member) = key.value();
                next = Some(format!("m{set}\0{member}"));
                pieces.push(Piece::Member { set: set.to_owned(), member: member.to_owned() });
            }
        }
        _ => {
            for found in read.open_table(APPOINTMENTS)?.iter()? {
                let (key, _) = found?;
                let (at, member) = key.value();
                pieces.push(Piece::Appointment { member: member.to_owned(), at: UnixMillis(at) });
            }
        }
    }
    let full = pieces.len() == PAGE;
    let after = match table {
        "r" => Some("m".to_owned()),
        "m" => Some("a".to_owned()),
        _ => None,
    };
    Ok(Page { pieces, next: next.filter(|_| full).or(after) })
}

pub(super) fn due(read: &ReadTransaction, until: UnixMillis, most: usize) -> Result<Vec<String>> {
    let mut due = Vec::new();
    for found in read.open_table(APPOINTMENTS)?.iter()?.take(most) {
        let (key, _) = found?;
        let (at, member) = key.value();
        if at > until.0 {
            break;
        }
        due.push(member.to_owned());
    }
    Ok(due)
}

pub(super) fn log(read: &ReadTransaction, log: Log, after: u64, most: usize) -> Result<Vec<Logged>> {
    let table = read.open_table(match log {
        Log::Calls => CALLS,
        Log::Ends => ENDS,
    })?;
    let range = table.range((Bound::Excluded(after), Bound::Unbounded))?;
    range
        .take(most)
        .map(|found| {
            let (sequence, value) = found?;
            Ok(Logged { sequence: sequence.value(), value: value.value().to_vec() })
        })
        .collect()
}

/// The tables, open for writing inside one transaction.
pub(super) struct Tables<'txn> {
    head: Table<'txn, &'static str, u64>,
    records: Table<'txn, &'static str, (Version, &'static [u8])>,
    members: Table<'txn, (&'static str, &'static str), Nothing>,
    appointments: Table<'txn, (u64, &'static str), Nothing>,
    calls: Table<'txn, u64, &'static [u8]>,
    ends: Table<'txn, u64, &'static [u8]>,
}

impl<'txn> Tables<'txn> {
    pub(super) fn open(write: &'txn WriteTransaction) -> Result<Self> {
        Ok(Self {
            head: write.open_table(HEAD)?,
            records: write.open_table(RECORDS)?,
            members: write.open_table(MEMBERS)?,
            appointments: write.open_table(APPOINTMENTS)?,
            calls: write.open_table(CALLS)?,
            ends: write.open_table(ENDS)?,
        })
    }

    pub(super) fn version(&self, key: &str) -> Result<Version> {
        Ok(self.records.get(key)?.map_or(0, |found| found.value().0))
    }

    pub(super) fn put(&mut self, key: &str, version: Version, value: &[u8]) -> Result<()> {
        self.records.insert(key, (version, value))?;
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &str) -> Result<()> {
        self.records.remove(key)?;
        Ok(())
    }

    /// Whether the member is new to the set.
    pub(super) fn join(&mut self, set: &str, member: &str) -> Result<bool> {
        Ok(self.members.insert((set, member), ())?.is_none())
    }

    /// Whether the member was in the set.
    pub(super) fn leave(&mut self, set: &str, member: &str) -> Result<bool> {
        Ok(self.members.remove((set, member))?.is_some())
    }

    pub(super) fn appoint(&mut self, appointment: &Appointment) -> Result<()> {
        let member = appointment.member.as_str();
        if let Some(was) = appointment.was {
            self.appointments.remove((was.0, member))?;
        }
        if let Some(is) = appointment.is {
            self.appointments.insert((is.0, member), ())?;
        }
        Ok(())
    }

    fn half(&mut self, log: Log) -> &mut Table<'txn, u64, &'static [u8]> {
        match log {
            Log::Calls => &mut self.calls,
            Log::Ends => &mut self.ends,
        }
    }

    pub(super) fn append(&mut self, log: Log, sequence: u64, value: &[u8]) -> Result<()> {
        self.half(log).insert(sequence, value)?;
        Ok(())
    }

    /// Drops what has a sequence up to `through`, then the oldest until `keep` remain.
    pub(super) fn trim(&mut self, log: Log, keep: u64, through: u64) -> Result<()> {
        let half = self.half(log);
        half.retain_in(..=through, |_, _| false)?;
        for _ in keep..half.len()? {
            half.pop_first()?;
        }
        Ok(())
    }

    pub(super) fn set_head(&mut self, head: Head) -> Result<()> {
        self.head.insert("sequence", head.sequence)?;
        self.head.insert("logged", head.logged)?;
        self.head.insert("seen", head.seen)?;
        Ok(())
    }
}
