//! Whether the ledger is still the one that this warden knows: every read and every commit passes here.
//!
//! Must stay true: a commit is done only on the ledger that is known here (it expects the version of the record `meta`) and
//! only if nothing is missing of what was there (it carries how far the ledger had come); once something is missing, no
//! verb reads or writes until the ledger is rebuilt (`rebuild`). So nothing is admitted on a ledger that has forgotten.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ATTEMPTS, Ledger, LedgerError, Part, bytes_in, corrupt, recollection};
use crate::ids::{Generation, LedgerId};
use crate::rules::entry::generation_after;
use crate::store::schema::{self, Key, Meta};
use crate::store::{Batch, Committed, Reached, Record, Snapshot, Store, StoreError, Version};
use crate::time::{Chance, UnixMillis};

/// How the ledger stands with this warden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the one that is known, and nothing is missing.
    Sound,
    /// Something is missing: why that is thought.
    Lost(String),
    /// It is being put together again.
    Rebuilding,
}

/// What this warden knows of the ledger.
#[derive(Debug)]
pub(super) struct Trust(Mutex<Known>);

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) id: LedgerId,
    pub(super) meta: Meta,
    /// Of the record that holds `meta`.
    pub(super) version: Version,
    pub(super) reached: Reached,
    pub(super) standing: Standing,
    /// Whether this warden has given what it remembers to this epoch.
    pub(super) given: bool,
    /// Since when it watches.
    pub(super) opened: UnixMillis,
    /// A commit was refused, which may have been because of the record `meta`: the next read looks at that, too.
    pub(super) doubtful: bool,
}

impl Known {
    fn new(meta: Meta, version: Version) -> Result<Self, LedgerError> {
        let id = meta.ledger_id().map_err(|error| corrupt(&Key::Meta, error.to_string()))?;
        let standing = if meta.rebuilding.is_some() { Standing::Rebuilding } else { Standing::Sound };
        let given = standing == Standing::Sound;
        let (reached, opened) = (Reached::default(), UnixMillis::default());
        Ok(Self { id, meta, version, reached, standing, given, opened, doubtful: false })
    }

    /// The batch, to be done on this ledger only.
    pub(super) fn guard(&self, mut batch: Batch) -> Batch {
        if !batch.expect.iter().any(|(key, _)| *key == Key::Meta) {
            batch.expect.push((Key::Meta, self.version));
        }
        batch.floor = self.reached;
        batch
    }

    /// The record `meta` was changed and is still of this ledger: nothing was lost.
    fn follows(&self, meta: &Meta) -> bool {
        (meta.epoch, &meta.ledger) == (self.meta.epoch, &self.meta.ledger) && meta.rebuilding.is_none()
    }
}

impl Trust {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known, if nothing is missing.
    fn sound(&self) -> Result<Known, LedgerError> {
        let known = self.known();
        match &known.standing {
            Standing::Sound => Ok(known.clone()),
            Standing::Lost(why) => Err(LedgerError::Lost(why.clone())),
            Standing::Rebuilding => Err(LedgerError::Lost("it is being rebuilt".to_owned())),
        }
    }

    /// Something is missing.
    pub(super) fn lose(&self, why: &str) -> LedgerError {
        let mut known = self.known();
        if known.standing == Standing::Sound {
            tracing::error!(
                why,
                ledger = %known.id,
                epoch = known.meta.epoch,
                "the ledger has lost what it had confirmed: creates wait until it is rebuilt"
            );
            known.standing = Standing::Lost(why.to_owned());
        }
        LedgerError::Lost(why.to_owned())
    }

    fn saw(&self, reached: Reached) {
        let mut known = self.known();
        known.reached.sequence = known.reached.sequence.max(reached.sequence);
        known.reached.own = known.reached.own.max(reached.own);
    }

    /// From now on, this is the ledger; what this warden remembers is still to be given to it, if it is another epoch.
    pub(super) fn adopt(&self, meta: Meta, version: Version, reached: Reached) -> Result<Part, LedgerError> {
        let adopted = Known::new(meta, version)?;
        let mut known = self.known();
        let given = known.given && known.meta.epoch == adopted.meta.epoch && known.id == adopted.id;
        let opened = known.opened;
        *known = Known { reached, standing: Standing::Rebuilding, given, opened, ..adopted };
        Ok(if given { Part::Given } else { Part::Owed })
    }

    /// What this warden remembers has been given.
    pub(super) fn part_given(&self) {
        self.known().given = true;
    }

    /// The ledger is whole again, as far as this warden can tell: it has given its part, and nobody waits for others.
    pub(super) fn whole(&self) -> bool {
        let mut known = self.known();
        let whole = known.given && known.meta.rebuilding.is_none();
        if whole {
            known.standing = Standing::Sound;
        }
        whole
    }
}

/// The record `meta` as it was read.
pub(super) fn meta_in(record: &Record) -> Result<Option<Meta>, LedgerError> {
    let Some(meta) = bytes_in(&Key::Meta, record)? else { return Ok(None) };
    // A later format may lack or rename all else: it is asked for by itself first.
    let found = schema::format_of(meta).map_err(|what| corrupt(&Key::Meta, what))?;
    if found > schema::FORMAT {
        return Err(LedgerError::LaterFormat { found, known: schema::FORMAT });
    }
    schema::decode(meta).map(Some).map_err(|what| corrupt(&Key::Meta, what))
}

/// Reads what the ledger says of itself, or founds it. What was known as `was` and is empty now has been lost: it is
/// founded under its old name, to be rebuilt before anything else is done.
pub(super) async fn read_or_found(
    store: &dyn Store,
    chance: &Chance,
    was: Option<&LedgerId>,
) -> Result<Trust, LedgerError> {
    for _ in 0..ATTEMPTS {
        let import = Key::Named(super::moving::IMPORT.to_owned());
        let Snapshot { now, reached, records } = store.read(&[Key::Meta, import.clone()]).await?;
        if let Some(meta) = meta_in(&records[0])? {
            let known = Known { reached, opened: now, ..Known::new(meta, records[0].version)? };
            return Ok(Trust(Mutex::new(known)));
        }
        if records[1].version != 0 {
            let what = "an import was begun here and not finished: run it again, or empty the store";
            return Err(corrupt(&import, what));
        }
        let mut meta = Meta::new(was.map_or_else(|| chance.hex(8), ToString::to_string), now);
        if let Some(was) = was {
            tracing::error!(ledger = %was, "there was a ledger, and it is empty: it is rebuilt before anything else");
            // Older than whatever may have been founded in its place meanwhile.
            (meta.founded, meta.rebuilding) = (1, Some(now.0));
        }
        let batch = Batch {
            expect: vec![(Key::Meta, 0)],
            put: vec![(Key::Meta, schema::encode(&meta))],
            ..Batch::default()
        };
        // Moved: another warden founded it first; read what it wrote.
        store.commit(batch).await?;
    }
    Err(LedgerError::Contended(Key::Meta.to_string()))
}

impl Ledger {
    /// `cw_ledger`.
    #[must_use]
    pub fn id(&self) -> LedgerId {
        self.trust.known().id.clone()
    }

    /// How the ledger stands with this warden.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.trust.known().standing.clone()
    }

    /// Whether the warden may end anything by its own decision. Not for a while after the ledger was rebuilt: who shows no
    /// sign of life has not had the time to.
    #[must_use]
    pub fn may_judge(&self, now: UnixMillis) -> bool {
        let known = self.trust.known();
        known.standing == Standing::Sound && now.0 >= known.meta.judgement_from
    }

    /// The generation of the next holder after `last`: never one that was issued before.
    #[must_use]
    pub fn next_generation(&self, last: Option<Generation>, now: UnixMillis) -> Generation {
        let from = UnixMillis(self.trust.known().meta.generations_from);
        generation_after(last, now.max(from))
    }

    /// Looks whether the ledger is still the one that is known: for whoever has no other reason to ask.
    ///
    /// # Errors
    /// [`LedgerError::Lost`] if it is not; others if the store fails.
    pub async fn look_out(&self) -> Result<(), LedgerError> {
        self.trust.sound()?;
        self.trust.known().doubtful = true;
        self.read(&[]).await.map(drop)
    }

    /// Every read of the ledger.
    pub(super) async fn read(&self, keys: &[Key]) -> Result<Snapshot, LedgerError> {
        let known = self.trust.sound()?;
        if !known.doubtful {
            return self.read_as(&known, keys).await;
        }
        let with_meta = [keys, &[Key::Meta]].concat();
        let mut snapshot = self.read_as(&known, &with_meta).await?;
        self.judge_meta(&known, &snapshot.records.split_off(keys.len())[0])?;
        Ok(snapshot)
    }

    async fn read_as(&self, known: &Known, keys: &[Key]) -> Result<Snapshot, LedgerError> {
        let snapshot = self.store.read(keys).await?;
        if snapshot.reached.behind(known.reached) {
            return Err(self.trust.lose("it has stepped back"));
        }
        self.trust.saw(snapshot.reached);
        Ok(snapshot)
    }

    /// Every write of the ledger.
    pub(super) async fn write(&self, batch: Batch) -> Result<Committed, LedgerError> {
        // Who expects something reads again, and finds out why it was refused; of all others it can be `meta` alone.
        let expects = !batch.expect.is_empty() || batch.until.is_some();
        for _ in 0..ATTEMPTS {
            let known = self.trust.sound()?;
            let committed = self.commit_on(&known, batch.clone()).await?;
            if committed != Committed::Moved {
                return Ok(committed);
            }
            self.trust.known().doubtful = true;
            if expects {
                return Ok(committed);
            }
            self.read(&[]).await?;
        }
        Err(LedgerError::Contended(Key::Meta.to_string()))
    }

    /// Commits on the ledger as it is known.
    pub(super) async fn commit_on(&self, known: &Known, batch: Batch) -> Result<Committed, LedgerError> {
        let meta = batch.put.iter().find(|(key, _)| *key == Key::Meta).map(|(_, value)| value.clone());
        let seals = recollection::seals_in(&batch);
        let committed = self.store.commit(known.guard(batch)).await;
        self.note_write(committed.as_ref().err());
        let committed = match committed {
            Err(StoreError::Behind) => return Err(self.trust.lose("it has stepped back")),
            committed => committed?,
        };
        if let Committed::Done(sequence) = committed {
            self.remember_seals(seals);
            let mut now_known = self.trust.known();
            if let Some(meta) = meta {
                now_known.meta = schema::decode(&meta).map_err(|what| corrupt(&Key::Meta, what))?;
                now_known.version = sequence;
            }
            now_known.reached.sequence = now_known.reached.sequence.max(sequence);
            now_known.reached.own = now_known.reached.own.max(sequence);
        }
        Ok(committed)
    }

    /// The record `meta` as it is now: another version is no loss as long as it is of this ledger and this epoch.
    fn judge_meta(&self, known: &Known, record: &Record) -> Result<(), LedgerError> {
        if record.version != known.version {
            match meta_in(record)? {
                Some(meta) if known.follows(&meta) => {
                    let mut known = self.trust.known();
                    (known.meta, known.version) = (meta, record.version);
                }
                Some(_) => return Err(self.trust.lose("another warden rebuilds it")),
                None => return Err(self.trust.lose("it is empty")),
            }
        }
        self.trust.known().doubtful = false;
        Ok(())
    }
}
