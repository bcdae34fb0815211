//! A ledger that lost what it had confirmed is put together again: from what its wardens remember, and from Cube's list.
//!
//! The record `meta` gets a new epoch and says that it is being rebuilt: no warden admits anything until it says no more.
//! Each warden gives what it remembers and what its Cube lists, and says so with its beat; whoever sees that all have, ends
//! the rebuild. Any of them can die at any point: each step may be done twice, and another goes on.
//!
//! Must stay true: of several that begin at once one wins and the others join; the ledger keeps its id, so that ours stay
//! ours; nothing is freed here; who holds a rebuilt entry is unproven (`rules::rebuild`).

use std::time::Duration;

use super::recollection::Seal;
use super::trust::{Known, Standing, meta_in};
use super::{
    ATTEMPTS, Decision, Import, Ledger, LedgerError, Step, corrupt, entry_in, found, marker_in, rewrite,
};
use super::{instances::SILENT, lease::SEALED_FOR, settle};
use crate::ids::{Generation, Marker};
use crate::rules::entry::{Activity, Entry, Origin, State};
use crate::rules::rebuild::{self, UNPROVEN};
use crate::store::schema::{self, Key, Meta, Set};
use crate::store::{Appointment, Batch, Committed, Reached, Sharing, Snapshot, StoreError, Version};
use crate::time::{UnixMillis, millis};

/// So many entries are marked in one commit.
const AT_ONCE: usize = 64;

/// Whether this warden has yet to give what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has.
    Given,
    /// It has not.
    Owed,
}

/// What the record `meta` is to become.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Another warden began: join it.
    Join(Meta),
    /// Nobody has yet.
    Begin(Meta),
}

/// Must stay pure: of all wardens that see the same records, one may begin, and the others come to the same end.
fn next(known: &Known, stored: Option<Meta>, now: UnixMillis) -> Next {
    let begun = stored.as_ref().is_some_and(|stored| {
        let same = stored.ledger == known.meta.ledger;
        let older = stored.founded() <= known.meta.founded();
        let newer_epoch = stored.epoch > known.meta.epoch;
        let at_it = stored.epoch == known.meta.epoch && known.standing == Standing::Rebuilding;
        if same { newer_epoch || at_it } else { older }
    });
    match stored {
        Some(stored) if begun => Next::Join(stored),
        stored => {
            let past = stored.as_ref().map_or(0, |stored| stored.epoch).max(known.meta.epoch);
            let generations = stored.as_ref().map_or(0, |stored| stored.generations_from);
            Next::Begin(Meta {
                epoch: now.0.max(past.saturating_add(1)),
                imported: known.meta.imported || stored.is_some_and(|stored| stored.imported),
                founded: known.meta.founded(),
                rebuilding: Some(now.0),
                judgement_from: 0,
                generations_from: generations.max(known.meta.generations_from).max(now.0),
                ..known.meta.clone()
            })
        }
    }
}

impl Ledger {
    /// Begins the rebuild of a ledger that was lost, or joins the one that is under way.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn begin_rebuild(&self) -> Result<Part, LedgerError> {
        // No version that was seen before means anything now.
        self.memory.doubt();
        for _ in 0..ATTEMPTS {
            let known = self.trust.known().clone();
            let Snapshot { now, reached, records } = self.store.read(&[Key::Meta]).await?;
            let version = records[0].version;
            let mut meta = match next(&known, meta_in(&records[0])?, now) {
                Next::Join(meta) => return self.trust.adopt(meta, version, reached),
                Next::Begin(meta) => meta,
            };
            let greatest = self.remembered().iter().map(|entry| entry.generation.0).max();
            meta.generations_from = meta.generations_from.max(greatest.map_or(0, |last| last + 1));
            let why = match known.standing {
                Standing::Lost(why) => why,
                Standing::Sound | Standing::Rebuilding => "it is empty".to_owned(),
            };
            let decision = Decision::new("ledger_lost", &why).with("epoch", meta.epoch);
            let batch = Batch {
                expect: vec![(Key::Meta, version)],
                put: vec![(Key::Meta, schema::encode(&meta))],
                ends: vec![decision.at(now).encode()],
                ..Batch::default()
            };
            // Moved: another warden was faster.
            if let Committed::Done(sequence) = self.store.commit(batch).await? {
                let own = Reached { sequence, own: sequence };
                return self.trust.adopt(meta, sequence, own);
            }
        }
        Err(LedgerError::Contended(Key::Meta.to_string()))
    }

    /// Gives the ledger what this warden remembers. Returns how many entries that brought back.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or the rebuild has taken another turn.
    pub async fn give_memory(&self) -> Result<usize, LedgerError> {
        let mut given = 0;
        for entry in self.remembered() {
            given += usize::from(self.give(&entry).await?);
        }
        for seal in self.remembered_seals().chunks(AT_ONCE) {
            self.give_seals(seal).await?;
        }
        Ok(given)
    }

    /// A lease id that was sealed stays so.
    async fn give_seals(&self, seals: &[Seal]) -> Result<(), LedgerError> {
        let (known, _) = self.look_during(&[Key::Meta]).await?;
        let mut batch = Batch { put: seals.to_vec(), ..Batch::default() };
        for (key, value) in seals {
            let sealed: schema::Sealed = schema::decode(value).map_err(|what| corrupt(key, what))?;
            let is = Some(UnixMillis(sealed.since).plus(SEALED_FOR));
            batch.appointments.push(Appointment { member: key.to_string(), was: None, is });
        }
        match self.commit_on(&known, batch).await? {
            Committed::Done(_) => Ok(()),
            Committed::Moved | Committed::Full { .. } => Err(another_turn()),
        }
    }

    /// Its owner holds it again, unless it holds another by now.
    async fn holds_again(&self, entry: &Entry, batch: &mut Batch) -> Result<(), LedgerError> {
        if entry.lease.is_none() {
            return Ok(());
        }
        let key = Key::Owner(entry.bucket.clone(), entry.owner.clone());
        let record = self.store.read(std::slice::from_ref(&key)).await?.records.remove(0);
        let held: Option<schema::Holding> = schema::decode(&record.value).ok();
        if held
            .is_none_or(|held| held.marker == entry.marker.as_str() || held.generation < entry.generation.0)
        {
            let held = schema::Holding { marker: entry.marker.to_string(), generation: entry.generation.0 };
            batch.expect.push((key.clone(), record.version));
            batch.put.push((key, schema::encode(&held)));
        }
        Ok(())
    }

    async fn give(&self, memory: &Entry) -> Result<bool, LedgerError> {
        let mut keys = vec![Key::Meta, Key::Entry(memory.marker.clone())];
        keys.extend(memory.sandbox.clone().map(Key::Sandbox));
        for _ in 0..ATTEMPTS {
            let (known, snapshot) = self.look_during(&keys).await?;
            let stored = entry_in(&keys[1], &snapshot.records[1])?;
            let next = rebuild::remembered(stored.as_ref().map(|(entry, _)| entry), memory, snapshot.now);
            let Some(next) = next else { return Ok(false) };
            let mut batch = match &stored {
                None => found(&next),
                Some((old, version)) => rewrite(old, *version, &next),
            };
            if let (Some(index), Some(record)) = (keys.get(2), snapshot.records.get(2)) {
                let other = marker_in(index, record)?.filter(|other| *other != next.marker);
                if let Some(other) = other
                    && !self.displaces(&other, &mut batch).await?
                {
                    return Ok(false);
                }
                batch.expect.push((index.clone(), record.version));
                batch.put.push((index.clone(), next.marker.as_str().into()));
            }
            self.holds_again(&next, &mut batch).await?;
            if matches!(self.commit_on(&known, batch).await?, Committed::Done(_)) {
                return Ok(true);
            }
        }
        Err(LedgerError::Contended(keys[1].to_string()))
    }

    /// What was taken for another's or nobody's gives way to the record of who made it.
    async fn displaces(&self, other: &Marker, batch: &mut Batch) -> Result<bool, LedgerError> {
        let key = Key::Entry(other.clone());
        let snapshot = self.store.read(std::slice::from_ref(&key)).await?;
        match entry_in(&key, &snapshot.records[0])? {
            Some((entry, _)) if entry.origin == Origin::Created && entry.charged() => Ok(false),
            Some((entry, version)) => {
                settle::displace(&entry, version, batch);
                Ok(true)
            }
            None => Ok(true),
        }
    }

    /// Gives a sandbox that Cube lists an entry, if it has none. True if it had none.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or the rebuild has taken another turn.
    pub async fn restore(&self, listed: &Import) -> Result<bool, LedgerError> {
        let index = Key::Sandbox(listed.sandbox.clone());
        let mut keys = vec![Key::Meta, index.clone()];
        keys.extend(listed.marker.clone().map(Key::Entry));
        for _ in 0..ATTEMPTS {
            let (known, snapshot) = self.look_during(&keys).await?;
            // What has a marker's entry is found by it when the ledger is whole.
            if snapshot.records[1..].iter().any(|record| record.version != 0) {
                return Ok(false);
            }
            let mut entry = Entry { holders: UNPROVEN, ..self.entry_of(listed, snapshot.now) };
            if entry.paused_since().is_some() {
                // By the ledger's clock, which could not be asked before.
                entry.state = State::Live(Activity::Paused(snapshot.now));
            }
            let mut batch = found(&entry);
            batch.expect.push((index.clone(), 0));
            batch.put.push((index.clone(), entry.marker.as_str().into()));
            if matches!(self.commit_on(&known, batch).await?, Committed::Done(_)) {
                self.memory.know(&entry);
                return Ok(true);
            }
        }
        Err(LedgerError::Contended(index.to_string()))
    }

    /// Marks what the ledger still holds: whoever got one of these after the last that is known is forgotten. Returns how
    /// many those were.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or the rebuild has taken another turn.
    pub async fn mark_unproven(&self) -> Result<usize, LedgerError> {
        let markers = self.markers(&Set::AllSlots).await?;
        let mut marked = 0;
        for some in markers.chunks(AT_ONCE) {
            let keys: Vec<Key> =
                [Key::Meta].into_iter().chain(some.iter().cloned().map(Key::Entry)).collect();
            loop {
                let (known, snapshot) = self.look_during(&keys).await?;
                let mut batch = Batch::default();
                for (key, record) in keys.iter().zip(&snapshot.records).skip(1) {
                    // One that cannot be read is reported by whoever needs it.
                    let Ok(Some((entry, version))) = entry_in(key, record) else { continue };
                    if entry.charged() && entry.holders < UNPROVEN {
                        batch.expect.push((key.clone(), version));
                        batch.put.push((key.clone(), schema::encode_entry(&rebuild::unproven(entry))));
                    }
                }
                let count = batch.put.len();
                if count == 0 || matches!(self.commit_on(&known, batch).await?, Committed::Done(_)) {
                    marked += count;
                    break;
                }
            }
        }
        Ok(marked)
    }

    /// Says that this warden has given all it has.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or the rebuild has taken another turn.
    pub async fn part_given(&self) -> Result<(), LedgerError> {
        if self.store.sharing() == Sharing::SeveralProcesses {
            let (known, snapshot) = self.look_during(&[Key::Meta]).await?;
            let batch = self.beat_of(snapshot.now, known.meta.epoch);
            if self.commit_on(&known, batch).await? == Committed::Moved {
                return Err(another_turn());
            }
        }
        self.trust.part_given();
        Ok(())
    }

    /// Ends the rebuild if every warden that was known to live has given its part, or has been silent for too long. Then
    /// nothing is judged for `pause`. True once the ledger is whole.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails, or the rebuild has taken another turn.
    pub async fn finish_rebuild(&self, pause: Duration) -> Result<bool, LedgerError> {
        let (known, Snapshot { now, .. }) = self.look_during(&[Key::Meta]).await?;
        let Some(since) = known.meta.rebuilding else { return Ok(self.trust.whole()) };
        let patient = now.since(UnixMillis(since)) < SILENT;
        if patient && self.somebody_owes(known.meta.epoch).await? {
            return Ok(false);
        }
        let held = self.store.sizes(&[Set::AllSlots]).await?[0];
        let meta = Meta {
            rebuilding: None,
            judgement_from: now.0.saturating_add(millis(pause)),
            ..known.meta.clone()
        };
        let decision = Decision::new("ledger_rebuilt", "from what wardens remember and Cube lists")
            .with("epoch", meta.epoch)
            .with("held", held)
            .with("everybody_gave", patient)
            .with("judgement_from", UnixMillis(meta.judgement_from).to_string());
        let batch = Batch {
            put: vec![(Key::Meta, schema::encode(&meta))],
            ends: vec![decision.at(now).encode()],
            ..Batch::default()
        };
        match self.commit_on(&known, batch).await? {
            Committed::Done(_) => {
                tracing::warn!(epoch = meta.epoch, held, "the ledger is rebuilt");
                Ok(self.trust.whole())
            }
            // Another warden has ended it: the next look shows that.
            Committed::Moved | Committed::Full { .. } => Ok(false),
        }
    }

    /// A caller of `entry` presents a generation that is ahead of it. What was issued before this warden began to watch may
    /// have been lost unseen: then the ledger is rebuilt, once, and what is presented after that is believed, but proves
    /// nothing. All else is made up, and means nothing: nobody can stop a ledger that was watched.
    ///
    /// # Errors
    /// [`LedgerError::Lost`] if the ledger is doubted from now on; others if the store fails.
    pub async fn presented_ahead(&self, entry: Entry, ahead: Generation) -> Result<Entry, LedgerError> {
        let known = self.trust.known().clone();
        let rebuilt = known.meta.epoch > known.meta.founded();
        if rebuilt && ahead.0 < known.meta.epoch {
            let raised = self.change(&entry.marker, |entry, _now| {
                let generation = entry.generation.max(ahead);
                let next = rebuild::unproven(Entry { generation, ..entry });
                let decision =
                    Decision::about(&next, "generation_raised", "presented after the ledger was lost");
                Step::Write(Box::new(next.clone()), Some(decision), next)
            });
            return Ok(raised.await?.unwrap_or(entry));
        }
        if ahead.0 < known.opened.0 && known.meta.epoch < known.opened.0 && ahead.0 > known.meta.founded() {
            return Err(self.trust.lose("a caller presents a generation that it does not know"));
        }
        Ok(entry)
    }

    /// Reads during the rebuild: `keys` begin with `meta`, which must be as this warden knows it.
    async fn look_during(&self, keys: &[Key]) -> Result<(Known, Snapshot), LedgerError> {
        let known = self.trust.known().clone();
        let snapshot = self.store.read(keys).await?;
        let version: Version = snapshot.records[0].version;
        if version == known.version { Ok((known, snapshot)) } else { Err(another_turn()) }
    }
}

fn another_turn() -> LedgerError {
    LedgerError::Store(StoreError::Unavailable("the rebuild has taken another turn".to_owned()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;
    use crate::ids::LedgerId;

    fn meta(ledger: &str, founded: u64, epoch: u64) -> Meta {
        Meta { epoch, ..Meta::new(ledger.repeat(16), UnixMillis(founded)) }
    }

    fn known(meta: Meta, standing: Standing) -> Known {
        let id = LedgerId::new(&meta.ledger).unwrap();
        Known {
            id,
            meta,
            version: 1,
            reached: Reached::default(),
            standing,
            given: false,
            opened: UnixMillis(0),
            doubtful: false,
        }
    }

    #[test]
    fn one_begins_and_all_others_join_it() {
        let lost = || Standing::Lost("x".to_owned());
        let (mine, now) = (known(meta("a", 10, 10), lost()), UnixMillis(50));
        let begun = |stored| match next(&mine, stored, now) {
            Next::Begin(meta) => meta,
            Next::Join(meta) => panic!("{meta:?}"),
        };
        // Empty; put back to an older state; to one before an earlier rebuild; founded anew by who did not know.
        for stored in [None, Some(meta("a", 10, 10)), Some(meta("a", 10, 9)), Some(meta("b", 40, 40))] {
            let meta = begun(stored);
            assert_eq!((meta.ledger.as_str(), meta.founded, meta.epoch), (&*"a".repeat(16), 10, 50));
            assert_eq!(meta.rebuilding, Some(50));
        }
        assert_eq!(begun(Some(meta("b", 60, 60))).epoch, 61, "an epoch is greater than all before it");
        let renewed = begun(None);
        let others = [
            known(meta("a", 10, 10), lost()),
            known(meta("b", 40, 40), lost()),
            known(renewed.clone(), Standing::Rebuilding),
        ];
        for other in others {
            assert_eq!(next(&other, Some(renewed.clone()), now), Next::Join(renewed.clone()));
        }
    }
}
