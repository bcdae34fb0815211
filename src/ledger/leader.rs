//! Who of several wardens does for one Cube what only one need do: the inventory, the collector.
//!
//! Must stay true: a lease of the ledger's clock, taken over only when it has lapsed; its term rises with each leader. Two
//! leaders at once (one that was stopped in the middle of its work) do no harm: whatever they do is decided entry by entry.

use std::time::Duration;

use super::{ATTEMPTS, Decision, Ledger, LedgerError, bytes_in, corrupt};
use crate::ids::InstanceId;
use crate::store::schema::{self, Key, Leader};
use crate::store::{Batch, Committed, Sharing, Snapshot, Version};
use crate::time::UnixMillis;

/// Whether this warden leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lead {
    /// It does, in this term: another term means that another has led in between.
    Leading(u64),
    /// This one does.
    Follows(InstanceId),
}

impl Ledger {
    /// Leads for `ttl` from now if nobody else does. Called again before that is over, it goes on leading.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn lead(&self, ttl: Duration) -> Result<Lead, LedgerError> {
        if self.store.sharing() == Sharing::OneProcess {
            return Ok(Lead::Leading(0));
        }
        let key = Key::Leader(self.upstream().clone());
        for _ in 0..ATTEMPTS {
            let (now, version, leader) = self.leader(&key).await?;
            let mine = leader.as_ref().is_some_and(|leader| leader.instance == self.instance.as_str());
            if let Some(other) = leader.as_ref().filter(|leader| !mine && leader.until > now.0) {
                let other = InstanceId::new(&other.instance);
                return other.map(Lead::Follows).map_err(|error| corrupt(&key, error.to_string()));
            }
            let last = leader.map_or(0, |leader| leader.term);
            // Never a term that was led before, not even where the ledger has lost its memory.
            let term = if mine { last } else { now.0.max(last + 1) };
            let next = Leader { instance: self.instance.to_string(), until: now.plus(ttl).0, term };
            let begins = Decision::new("leads", "nobody did")
                .with("upstream", self.upstream().as_str())
                .with("instance", self.instance.as_str());
            let batch = Batch {
                expect: vec![(key.clone(), version)],
                put: vec![(key.clone(), schema::encode(&next))],
                log: (!mine).then(|| begins.with("term", term).at(now).encode()).into_iter().collect(),
                ..Batch::default()
            };
            if matches!(self.write(batch).await?, Committed::Done(_)) {
                return Ok(Lead::Leading(term));
            }
        }
        Err(LedgerError::Contended(key.to_string()))
    }

    /// Leads no more, so that another can at once.
    pub(super) async fn step_down(&self) -> Result<(), LedgerError> {
        let key = Key::Leader(self.upstream().clone());
        let (_, version, leader) = self.leader(&key).await?;
        if let Some(leader) = leader.filter(|leader| leader.instance == self.instance.as_str()) {
            // The record stays: the next term follows from it.
            let over = schema::encode(&Leader { until: 0, ..leader });
            let batch =
                Batch { expect: vec![(key.clone(), version)], put: vec![(key, over)], ..Batch::default() };
            // Moved: it had lapsed, and another leads.
            self.write(batch).await?;
        }
        Ok(())
    }

    async fn leader(&self, key: &Key) -> Result<(UnixMillis, Version, Option<Leader>), LedgerError> {
        let Snapshot { now, records, .. } = self.read(std::slice::from_ref(key)).await?;
        let leader = bytes_in(key, &records[0])?.map(schema::decode).transpose();
        Ok((now, records[0].version, leader.map_err(|what| corrupt(key, what))?))
    }
}
