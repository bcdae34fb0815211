//! What the collector of one Cube knows, kept where another can go on with it.
//!
//! Must stay true: what two collectors know is never mixed: whoever writes upon something that has moved writes nothing and
//! reads again. A memory that cannot be read is none: everything is judged anew.

use std::collections::HashMap;

use super::{Ledger, LedgerError, bytes_in, corrupt};
use crate::ids::Marker;
use crate::rules::collector::mark::Mark;
use crate::rules::collector::memory::{Memory, State};
use crate::rules::entry::Entry;
use crate::store::schema::{self, Key, Part, Set};
use crate::store::{Batch, Committed, Record, Snapshot, UNREADABLE, Version};

/// What was remembered, and upon what it may be written anew.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// What is known.
    pub memory: Memory,
    version: Version,
    parts: HashMap<Part, Vec<u8>>,
}

/// Whether a memory was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable.
    Yes,
    /// Another collector has written meanwhile: what is known here is out of date.
    Overtaken,
}

impl Ledger {
    /// What this Cube's collector knew last.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn collector_memory(&self) -> Result<Remembered, LedgerError> {
        let mut keys = vec![self.part(Part::State)];
        keys.extend(Part::MARKS.map(|part| self.part(part)));
        let Snapshot { records, .. } = self.store.read(&keys).await?;
        let (state, marks) = (&records[0], &records[1..]);
        let mut remembered =
            Remembered { memory: Memory::default(), version: state.version, parts: HashMap::new() };
        match read_memory(&keys, state, marks) {
            Ok(memory) => {
                let parts = Part::MARKS.into_iter().zip(marks.iter().map(|record| record.value.clone()));
                (remembered.memory, remembered.parts) = (memory, parts.collect());
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "what the collector knew cannot be read: it begins anew"
                );
            }
        }
        Ok(remembered)
    }

    /// Writes down what this Cube's collector knows now, upon what it knew before. Only the parts that changed are written.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn remember_collector(&self, remembered: &mut Remembered) -> Result<Written, LedgerError> {
        let mut by_part: HashMap<Part, Vec<(&Marker, &Mark)>> =
            Part::MARKS.iter().map(|part| (*part, Vec::new())).collect();
        for (marker, mark) in &remembered.memory.marks {
            by_part.entry(Part::of(marker)).or_default().push((marker, mark));
        }
        let key = self.part(Part::State);
        // What cannot be read must not stay for ever.
        let expect = (remembered.version != UNREADABLE).then(|| (key.clone(), remembered.version));
        let mut batch = Batch {
            expect: expect.into_iter().collect(),
            put: vec![(key, schema::encode_state(&remembered.memory.state))],
            ..Batch::default()
        };
        let mut changed = Vec::new();
        for (part, mut marks) in by_part {
            marks.sort_unstable_by_key(|(marker, _)| *marker);
            let value = if marks.is_empty() { Vec::new() } else { schema::encode_marks(&marks) };
            if remembered.parts.get(&part).is_none_or(|before| *before != value) {
                changed.push((part, value));
            }
        }
        for (part, value) in &changed {
            if value.is_empty() {
                batch.remove.push(self.part(*part));
            } else {
                batch.put.push((self.part(*part), value.clone()));
            }
        }
        match self.write(batch).await? {
            Committed::Done(version) => {
                remembered.version = version;
                remembered.parts.extend(changed);
                Ok(Written::Yes)
            }
            Committed::Moved | Committed::Full { .. } => Ok(Written::Overtaken),
        }
    }

    /// What the collector says of itself, for those who only look.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record cannot be read.
    pub async fn collector_state(&self) -> Result<State, LedgerError> {
        let key = self.part(Part::State);
        let Snapshot { records, .. } = self.store.read(std::slice::from_ref(&key)).await?;
        read_state(&key, &records[0])
    }

    /// Reads every entry of this warden's Cube that holds a slot, a page at a time, and hands each to `see`. Returns what
    /// could not be read.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn each_charged_here(
        &self,
        mut see: impl FnMut(Entry),
    ) -> Result<Vec<LedgerError>, LedgerError> {
        let markers = self.markers(&Set::AllSlots).await?;
        let mut corrupt = Vec::new();
        for page in markers.chunks(super::settle::PAGE) {
            let (entries, unreadable) = self.entries(page).await?;
            corrupt.extend(unreadable);
            for entry in entries.into_iter().filter(|entry| self.is_here(entry)) {
                self.memory.name(&entry);
                see(entry);
            }
        }
        Ok(corrupt)
    }

    fn part(&self, part: Part) -> Key {
        Key::Collector(self.settings.upstream.clone(), part)
    }
}

fn read_memory(keys: &[Key], state: &Record, marks: &[Record]) -> Result<Memory, LedgerError> {
    let mut memory = Memory { state: read_state(&keys[0], state)?, marks: HashMap::new() };
    for (key, record) in keys[1..].iter().zip(marks) {
        if let Some(bytes) = bytes_in(key, record)? {
            memory.marks.extend(schema::decode_marks(bytes).map_err(|what| corrupt(key, what))?);
        }
    }
    Ok(memory)
}

fn read_state(key: &Key, record: &Record) -> Result<State, LedgerError> {
    let state = bytes_in(key, record)?.map(schema::decode_state).transpose();
    Ok(state.map_err(|what| corrupt(key, what))?.unwrap_or_default())
}
