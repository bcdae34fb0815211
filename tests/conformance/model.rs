//! What a store is, in the simplest words: maps in memory.

use std::collections::{BTreeMap, BTreeSet};

use cubewarden::store::{Batch, Version};

/// The whole content of a store, as it can be seen from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) records: BTreeMap<String, (Version, Vec<u8>)>,
    pub(super) sets: BTreeMap<String, BTreeSet<String>>,
    pub(super) appointments: BTreeSet<(u64, String)>,
    pub(super) log: Vec<Vec<u8>>,
}

/// What must become of a commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Done,
    Moved,
    Full { set: String, held: u64 },
}

impl Model {
    pub(super) fn version(&self, key: &str) -> Version {
        self.records.get(key).map_or(0, |(version, _)| *version)
    }

    pub(super) fn size(&self, set: &str) -> u64 {
        self.sets.get(set).map_or(0, |members| members.len() as u64)
    }

    pub(super) fn expected(&self, batch: &Batch) -> Expected {
        if batch.expect.iter().any(|(key, version)| self.version(&key.to_string()) != *version) {
            return Expected::Moved;
        }
        let full =
            batch.room.iter().map(|(set, fewer)| (set.to_string(), *fewer)).find_map(|(set, fewer)| {
                let held = self.size(&set);
                (held >= fewer).then_some(Expected::Full { set, held })
            });
        full.unwrap_or(Expected::Done)
    }

    pub(super) fn perform(&mut self, batch: &Batch, version: Version) {
        for key in &batch.remove {
            self.records.remove(&key.to_string());
        }
        for (key, value) in &batch.put {
            self.records.insert(key.to_string(), (version, value.clone()));
        }
        for (set, member) in &batch.leave {
            self.sets.entry(set.to_string()).or_default().remove(member);
        }
        for (set, member) in &batch.join {
            self.sets.entry(set.to_string()).or_default().insert(member.clone());
        }
        for appointment in &batch.appointments {
            self.appointments.retain(|(_, member)| *member != appointment.member);
            self.appointments.extend(appointment.is.map(|is| (is.0, appointment.member.clone())));
        }
        self.log.extend(batch.log.iter().cloned());
    }

    pub(super) fn trim(&mut self, keep: usize) {
        self.log.drain(..self.log.len().saturating_sub(keep));
    }
}
