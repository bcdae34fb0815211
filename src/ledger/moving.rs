//! A ledger out of a store, and into another: for the command line, beside no running warden.
//!
//! Must stay true: records move byte by byte, with the sets and appointments that follow from them; a ledger is never put
//! on top of another; an import that was broken off leaves no ledger, and goes on where the same text is brought again.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::lease::SEALED_FOR;
use super::trust::meta_in;
use super::{LedgerError, corrupt, decisions};
use crate::store::schema::lines::Text;
use crate::store::schema::{self, Key, Set};
use crate::store::{Appointment, Batch, Committed, Log, Piece, Record, Store, UNREADABLE, Version};
use crate::time::UnixMillis;

/// While an import goes on: which text.
pub(super) const IMPORT: &str = "import";
/// So many records are written in one commit.
const AT_ONCE: usize = 100;
/// So many decisions are read at once.
const PAGE: usize = 1000;

/// Everything that a store holds, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Records by key.
    pub records: BTreeMap<String, Vec<u8>>,
    /// Members by set.
    pub sets: BTreeMap<String, Vec<String>>,
    /// Appointments by member.
    pub appointments: BTreeMap<String, UnixMillis>,
    /// What is not ours, and what that is.
    pub foreign: BTreeMap<String, String>,
}

/// Why a ledger cannot be put into a store.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A ledger is there already.
    #[error(
        "the store holds a ledger already ({0}): import into an empty one, and move the other away first if it is not needed"
    )]
    NotEmpty(String),
    /// Another text was begun.
    #[error(
        "the import of another file was begun here and not finished: finish that one, or empty the store"
    )]
    Another,
    /// The text lacks a ledger.
    #[error("the file has no record `meta`, so it is no whole ledger")]
    NoMeta,
    /// A record cannot be read.
    #[error("the record {key}: {what}")]
    Bad {
        /// Which.
        key: String,
        /// What is wrong.
        what: String,
    },
}

/// Reads everything.
///
/// # Errors
/// [`LedgerError`] if the store fails.
pub async fn content(store: &dyn Store) -> Result<Content, LedgerError> {
    let mut content = Content::default();
    let mut from = None;
    loop {
        let page = store.scan(from.as_deref()).await?;
        for piece in page.pieces {
            match piece {
                Piece::Record { key, record } => {
                    content.records.insert(key, record.value);
                }
                Piece::Member { set, member } => content.sets.entry(set).or_default().push(member),
                Piece::Appointment { member, at } => {
                    content.appointments.insert(member, at);
                }
                Piece::Foreign { key, what } => {
                    content.foreign.insert(key, what);
                }
            }
        }
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    for members in content.sets.values_mut() {
        // A page may show one twice.
        members.sort_unstable();
        members.dedup();
    }
    Ok(content)
}

/// The whole ledger: `meta` first, then the other records in the order of their keys, then the log.
///
/// # Errors
/// [`LedgerError`] if the store fails, or holds under the ledger's name what is not ours.
pub async fn export(store: &dyn Store) -> Result<Text, LedgerError> {
    let content = content(store).await?;
    if let Some((key, what)) = content.foreign.first_key_value() {
        return Err(corrupt(&Key::Named(key.clone()), what.clone()));
    }
    let mut records: Vec<(String, Vec<u8>)> = content.records.into_iter().collect();
    records.sort_by_key(|(key, _)| key != "meta");
    let mut decisions = Vec::new();
    let mut after = 0;
    loop {
        let page = decisions::page(store, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        decisions.extend(page.into_iter().map(|logged| logged.value));
    }
    Ok(Text { records, decisions })
}

/// What follows from a record: the sets that it puts its own in, and its appointment.
#[derive(Debug, Default)]
pub(super) struct Follows {
    pub(super) sets: Vec<(Set, String)>,
    pub(super) appointment: Option<(String, UnixMillis)>,
}

/// What follows from a record.
///
/// # Errors
/// A text that says what is wrong with it.
pub(super) fn follows(key: &str, value: &[u8]) -> Result<Follows, String> {
    let (kind, id) = key.split_once(':').unwrap_or((key, ""));
    let member = |set: String| Follows { sets: vec![(Set::Named(set), id.to_owned())], appointment: None };
    Ok(match kind {
        "e" => {
            let entry = schema::decode_entry(value)?;
            if entry.marker.as_str() != id {
                return Err(format!("it holds the entry of the marker {}", entry.marker));
            }
            let member = entry.marker.to_string();
            Follows {
                sets: schema::sets_of(&entry).into_iter().map(|set| (set, member.clone())).collect(),
                appointment: entry.due.map(|due| (member, due)),
            }
        }
        "o" => {
            let (kind, id) = id.split_once(':').ok_or("its key names no kind of object")?;
            let set = Set::Named(format!("objects:{kind}"));
            Follows { sets: vec![(set, id.to_owned())], appointment: None }
        }
        "n" => member(Set::Instances.to_string()),
        "z" => {
            let sealed: schema::Sealed = schema::decode(value)?;
            let forgotten = UnixMillis(sealed.since).plus(SEALED_FOR);
            Follows { sets: Vec::new(), appointment: Some((key.to_owned(), forgotten)) }
        }
        _ => Follows::default(),
    })
}

/// Puts a ledger into an empty store.
///
/// # Errors
/// [`ImportError`], whose text says what to do.
pub async fn import(store: &dyn Store, text: &Text) -> Result<(), ImportError> {
    let (meta, others): (Vec<_>, Vec<_>) = text.records.iter().partition(|(key, _)| key == "meta");
    let [(_, meta)] = meta.as_slice() else { return Err(ImportError::NoMeta) };
    readable(meta)?;
    let mark = Key::Named(IMPORT.to_owned());
    let begun = begin(store, &mark, &digest(text)).await?;
    for some in others.chunks(AT_ONCE) {
        let mut batch = Batch { expect: vec![(mark.clone(), begun)], ..Batch::default() };
        for (key, value) in some {
            let bad = |what| ImportError::Bad { key: key.clone(), what };
            let follows = follows(key, value).map_err(bad)?;
            batch.put.push((Key::Named(key.clone()), value.clone()));
            batch.join.extend(follows.sets);
            batch.appointments.extend(follows.appointment.map(|(member, is)| Appointment {
                member,
                was: None,
                is: Some(is),
            }));
        }
        committed(store, batch).await?;
    }
    let written = usize::try_from(logged(store).await?).unwrap_or(usize::MAX).min(text.decisions.len());
    for some in text.decisions[written..].chunks(PAGE) {
        let expect = vec![(mark.clone(), begun)];
        let (ends, log) = some.iter().cloned().partition(|line| decisions::half_of(line) == Log::Ends);
        committed(store, Batch { expect, log, ends, ..Batch::default() }).await?;
    }
    // From here on it is a ledger.
    let batch = Batch {
        expect: vec![(mark.clone(), begun), (Key::Meta, 0)],
        put: vec![(Key::Meta, meta.clone())],
        remove: vec![mark],
        ..Batch::default()
    };
    committed(store, batch).await
}

fn readable(meta: &[u8]) -> Result<(), ImportError> {
    meta_in(&Record { version: 1, value: meta.to_vec() })?;
    Ok(())
}

/// Which text this is.
fn digest(text: &Text) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in &text.records {
        hasher.update(key);
        hasher.update([0]);
        hasher.update(Sha256::digest(value));
    }
    for decision in &text.decisions {
        hasher.update(Sha256::digest(decision));
    }
    hex::encode(hasher.finalize())
}

/// Marks the store as one that is being filled, or finds that it is so by the same text.
async fn begin(store: &dyn Store, mark: &Key, digest: &str) -> Result<Version, ImportError> {
    let records = store.read(std::slice::from_ref(mark)).await.map_err(LedgerError::from)?.records;
    match records[0].version {
        0 => {}
        UNREADABLE => return Err(ImportError::NotEmpty(mark.to_string())),
        version if records[0].value == digest.as_bytes() => return Ok(version),
        _ => return Err(ImportError::Another),
    }
    let there = content(store).await?;
    let first = there.records.keys().chain(there.sets.keys()).chain(there.foreign.keys()).next();
    if let Some(first) = first.or(there.appointments.keys().next()) {
        return Err(ImportError::NotEmpty(format!("it has {first}")));
    }
    if logged(store).await? > 0 {
        return Err(ImportError::NotEmpty("it has decisions".to_owned()));
    }
    let batch = Batch {
        expect: vec![(mark.clone(), 0), (Key::Meta, 0)],
        put: vec![(mark.clone(), digest.into())],
        ..Batch::default()
    };
    match store.commit(batch).await.map_err(LedgerError::from)? {
        Committed::Done(version) => Ok(version),
        Committed::Moved | Committed::Full { .. } => Err(ImportError::Another),
    }
}

async fn logged(store: &dyn Store) -> Result<u64, LedgerError> {
    let (mut count, mut after) = (0, 0);
    loop {
        let page = decisions::page(store, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = last.sequence;
        count += u64::try_from(page.len()).unwrap_or(u64::MAX);
    }
}

async fn committed(store: &dyn Store, batch: Batch) -> Result<(), ImportError> {
    match store.commit(batch).await.map_err(LedgerError::from)? {
        Committed::Done(_) => Ok(()),
        Committed::Moved | Committed::Full { .. } => Err(ImportError::Another),
    }
}
