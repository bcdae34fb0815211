//! What Cube lists that the ledger does not know: taken into the records, callable as before, charged without refusing
//! the living; never judged by a collector until an operator says so, unless it carries our marks.

use super::settle::PAGE;
use super::{Decision, Ledger, LedgerError, Step, bytes_in, entry_in, erase, found, lease, marker_in};
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::rules::entry::{Activity, Entry, Origin, Shape, State};
use crate::store::schema::{self, Key, Meta, Set};
use crate::store::{Batch, Committed, Snapshot};
use crate::time::UnixMillis;

/// A sandbox that Cube lists and the ledger does not know.
#[derive(Clone, Debug)]
pub struct Import {
    /// Cube's id.
    pub sandbox: SandboxId,
    /// Its marker, if it carries ours.
    pub marker: Option<Marker>,
    /// Where it is counted from now on.
    pub bucket: Bucket,
    /// Whose it is.
    pub owner: OwnerId,
    /// Its template.
    pub template: String,
    /// CPU and memory.
    pub shape: Shape,
    /// Running or paused, as listed.
    pub activity: Activity,
    /// Imported, or made round the warden.
    pub origin: Origin,
    /// Its end, as Cube says.
    pub deadline: Option<UnixMillis>,
}

/// What became of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// It has an entry now.
    Yes,
    /// It had one, or the tombstone of one.
    Known,
}

impl Ledger {
    /// Gives an entry to a sandbox that has none.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn import(&self, import: &Import) -> Result<Imported, LedgerError> {
        let now = self.now().await?;
        let entry = self.entry_of(import, now);
        let mut batch = found(&entry);
        let key = Key::Sandbox(import.sandbox.clone());
        batch.expect.push((key.clone(), 0));
        batch.put.push((key, entry.marker.as_str().into()));
        let decision = Decision::about(&entry, "imported", "found at Cube without a record");
        self.record(&mut batch, decision, now);
        Ok(if self.commit(batch, &entry).await? { Imported::Yes } else { Imported::Known })
    }

    /// The entry of what Cube lists.
    pub(super) fn entry_of(&self, import: &Import, now: UnixMillis) -> Entry {
        Entry {
            marker: import.marker.clone().unwrap_or_else(|| self.new_marker()),
            upstream: self.settings.upstream.clone(),
            bucket: import.bucket.clone(),
            owner: import.owner.clone(),
            tenant: None,
            origin: import.origin,
            instance: self.instance.clone(),
            generation: self.next_generation(None, now),
            holders: 1,
            claims: 1,
            lease: None,
            asked_for: None,
            incarnation: 0,
            hold: None,
            // What carries our marks is ours, and is judged as if its record had never been missing.
            released: import.marker.is_some().then_some(now),
            sandbox: Some(import.sandbox.clone()),
            template: import.template.clone(),
            shape: import.shape,
            metadata: None,
            claim: None,
            answer: None,
            asked: now,
            dispatched: None,
            first_seen: Some(now),
            last_sign: now,
            deadline: import.deadline,
            claim_until: None,
            operations: Vec::new(),
            state: State::Live(import.activity),
            due: import.deadline.map(|deadline| deadline.max(now).plus(self.settings.timing.deadline_grace)),
        }
    }

    /// Whether the first inventory of Cube has been taken into the records.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn first_import_done(&self) -> Result<bool, LedgerError> {
        let snapshot = self.read(&[Key::Meta]).await?;
        let meta: Meta =
            schema::decode(&snapshot.records[0].value).map_err(|what| super::corrupt(&Key::Meta, what))?;
        Ok(meta.imported)
    }

    /// From now on, what appears without our marks was made round the warden.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn finish_first_import(&self) -> Result<(), LedgerError> {
        for _ in 0..super::ATTEMPTS {
            let Snapshot { records, .. } = self.read(&[Key::Meta]).await?;
            let mut meta: Meta =
                schema::decode(&records[0].value).map_err(|what| super::corrupt(&Key::Meta, what))?;
            meta.imported = true;
            let batch = Batch {
                expect: vec![(Key::Meta, records[0].version)],
                put: vec![(Key::Meta, schema::encode(&meta))],
                ..Batch::default()
            };
            if matches!(self.write(batch).await?, Committed::Done(_)) {
                return Ok(());
            }
        }
        Err(LedgerError::Contended(Key::Meta.to_string()))
    }

    /// Cube was asked at `began` and showed a live entry running or paused: the entry follows, unless it knows better.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn observed(
        &self,
        marker: &Marker,
        activity: Activity,
        began: UnixMillis,
    ) -> Result<(), LedgerError> {
        self.change(marker, |entry, now| changed(&entry, entry.clone().seen(activity, began, now))).await?;
        Ok(())
    }

    /// A live entry was asked about at `began`, alone: what was seen (nothing, if that is unclear), and when it is looked
    /// at next.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn asked(
        &self,
        marker: &Marker,
        seen: Option<Activity>,
        began: UnixMillis,
    ) -> Result<(), LedgerError> {
        let timing = self.settings.timing;
        self.change(marker, |entry, now| {
            let next = entry.clone();
            let next = match seen {
                Some(activity) => next.seen(activity, began, now).outlived(now, &timing),
                None => next.unanswered(now, &timing),
            };
            match lease::deferred(next, now, &timing) {
                (next, None) => changed(&entry, next),
                (next, decision) => Step::Write(Box::new(next), decision, ()),
            }
        })
        .await?;
        Ok(())
    }

    /// Takes an entry out of the records once its tombstone is over.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn purge(&self, marker: &Marker) -> Result<(), LedgerError> {
        let key = Key::Entry(marker.clone());
        let Snapshot { now, records, .. } = self.read(std::slice::from_ref(&key)).await?;
        let Some((entry, version)) = entry_in(&key, &records[0])? else { return Ok(()) };
        if entry.charged() || entry.due.is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut batch = erase(&entry, version);
        self.purge_indexes(&entry, &mut batch).await?;
        // Moved: it rose again, or another warden purged it. Either way there is nothing left to do here.
        self.write(batch).await?;
        Ok(())
    }

    async fn purge_indexes(&self, entry: &Entry, batch: &mut Batch) -> Result<(), LedgerError> {
        if let Some(sandbox) = &entry.sandbox {
            let key = Key::Sandbox(sandbox.clone());
            let record = self.read(std::slice::from_ref(&key)).await?.records.remove(0);
            if marker_in(&key, &record)?.is_some_and(|marker| marker == entry.marker) {
                batch.expect.push((key.clone(), record.version));
                batch.remove.push(key);
            }
        }
        if entry.lease.is_some() {
            let key = Key::Owner(entry.bucket.clone(), entry.owner.clone());
            let record = self.read(std::slice::from_ref(&key)).await?.records.remove(0);
            let held: Option<schema::Holding> =
                bytes_in(&key, &record)?.and_then(|bytes| schema::decode(bytes).ok());
            if held.is_some_and(|held| held.marker == entry.marker.as_str()) {
                batch.expect.push((key.clone(), record.version));
                batch.remove.push(key);
            }
        }
        if let Some(claim) = &entry.claim {
            let key = Key::Idempotency(claim.clone());
            let record = self.read(std::slice::from_ref(&key)).await?.records.remove(0);
            let held: Option<schema::Idempotency> = schema::decode(&record.value).ok();
            if held.is_some_and(|held| held.marker == entry.marker.as_str()) {
                batch.expect.push((key.clone(), record.version));
                batch.remove.push(key);
            }
        }
        Ok(())
    }

    pub(super) async fn markers(&self, set: &Set) -> Result<Vec<Marker>, LedgerError> {
        let mut markers: Vec<Marker> = Vec::new();
        loop {
            let after = markers.last().map(Marker::as_str);
            let page = self.store.members(set, after, PAGE).await?;
            let full = page.len() == PAGE;
            for member in page {
                markers.push(Marker::new(&member).map_err(|error| {
                    super::LedgerError::Store(crate::store::StoreError::Corrupt {
                        key: set.to_string(),
                        what: error.to_string(),
                    })
                })?);
            }
            if !full {
                return Ok(markers);
            }
        }
    }
}

fn changed(was: &Entry, is: Entry) -> Step<()> {
    if is == *was { Step::Keep(()) } else { Step::Write(Box::new(is), None, ()) }
}
