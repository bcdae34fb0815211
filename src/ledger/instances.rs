//! Which wardens of this ledger live, and what the dead ones left half done.
//!
//! Must stay true: a warden beats before it does anything else, so whoever holds an entry and has no beat is dead. What is
//! taken over is only what its process alone could settle: reservations lapse, dispatched creates become ambiguous and stay
//! charged until somebody finds out. Operations lapse by time: Cube may still be carrying them out.
//! A warden that was only slow finds its creates taken over; it learns so from the entries and harms nobody.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::{Decision, Ledger, LedgerError, Step, bytes_in, corrupt};
use crate::ids::InstanceId;
use crate::rules::entry::{Entry, State};
use crate::rules::limits::LimitSheet;
use crate::store::schema::{self, Beat, Key, Set, WrittenSheet};
use crate::store::{Batch, Sharing, Snapshot, Version};
use crate::time::UnixMillis;

/// How often a warden shows that it lives.
pub const BEAT: Duration = Duration::from_secs(10);
/// Who has not shown it for longer is dead.
pub const SILENT: Duration = Duration::from_secs(60);
/// After so long the dead are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// Wardens of one ledger, at most; a bound for one look.
const MOST: usize = 10_000;

/// A warden that has a beat, as read.
struct Known {
    instance: InstanceId,
    version: Version,
    /// `None` if its record cannot be read: nothing is known of it, so it is not taken for dead.
    at: Option<UnixMillis>,
    limits: Option<LimitSheet>,
}

impl Known {
    fn silent_for(&self, now: UnixMillis) -> Duration {
        self.at.map_or(Duration::ZERO, |at| now.since(at))
    }
}

impl Ledger {
    /// Whether other wardens may share this ledger.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.store.sharing()
    }

    /// Shows the other wardens that this one lives.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn beat(&self) -> Result<(), LedgerError> {
        let now = self.now().await?;
        let epoch = self.trust.known().meta.epoch;
        self.write(self.beat_of(now, epoch)).await?;
        Ok(())
    }

    /// The commit that shows it, and that this warden has given `epoch` all that it remembers.
    pub(super) fn beat_of(&self, now: UnixMillis, epoch: u64) -> Batch {
        let limits = self.own_limits().as_ref().map(WrittenSheet::from);
        let beat = Beat { at: now.0, epoch, limits };
        Batch {
            put: vec![(Key::Instance(self.instance.clone()), schema::encode(&beat))],
            join: vec![(Set::Instances, self.instance.to_string())],
            ..Batch::default()
        }
    }

    /// Whether a warden that was known to live has not given this epoch what it remembers.
    pub(super) async fn somebody_owes(&self, epoch: u64) -> Result<bool, LedgerError> {
        let peers: Vec<Key> = self.peers().iter().cloned().map(Key::Instance).collect();
        let snapshot = self.store.read(&peers).await?;
        Ok(snapshot.records.iter().any(|record| {
            let beat: Option<Beat> = schema::decode(&record.value).ok();
            beat.is_none_or(|beat| beat.epoch != epoch)
        }))
    }

    fn peers(&self) -> MutexGuard<'_, HashSet<InstanceId>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This warden has ended in order: whatever it still left may be taken over at once.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn farewell(&self) -> Result<(), LedgerError> {
        self.step_down().await?;
        self.forget(&self.instance, None).await
    }

    /// Takes over what dead wardens left. Returns how many entries those were.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn take_over(&self) -> Result<usize, LedgerError> {
        let mut markers = self.markers(&Set::AllState("reserved")).await?;
        markers.extend(self.markers(&Set::AllState("dispatched")).await?);
        // The entries come before the beats: who made one of these had shown its life by then.
        let (entries, _) = self.entries(&markers).await?;
        let living = match self.store.sharing() {
            Sharing::OneProcess => HashSet::from([self.instance.clone()]),
            Sharing::SeveralProcesses => self.living().await?,
        };
        let mut taken = 0;
        for entry in entries.iter().filter(|entry| !living.contains(&entry.instance)) {
            let step = |entry: Entry, now| self.taken_over(entry, now);
            taken += usize::from(self.change(&entry.marker, step).await?.unwrap_or(false));
        }
        Ok(taken)
    }

    fn taken_over(&self, entry: Entry, now: UnixMillis) -> Step<bool> {
        let next = match entry.state {
            State::Reserved => entry.lapse(now, &self.settings.timing),
            State::Dispatched => entry.lose(now),
            _ => return Step::Keep(false),
        };
        let Ok(next) = next else { return Step::Keep(false) };
        let decision = Decision::about(&next, next.state.name(), "its process is gone");
        Step::Write(Box::new(next), Some(decision), true)
    }

    /// The limits that the other living wardens run with.
    pub(super) async fn limits_of_others(&self) -> Result<Vec<LimitSheet>, LedgerError> {
        let (now, known) = self.instances().await?;
        let others = known.into_iter().filter(|one| one.instance != self.instance);
        Ok(others.filter(|one| one.silent_for(now) <= SILENT).filter_map(|one| one.limits).collect())
    }

    /// Who lives; the long dead are forgotten by the way.
    async fn living(&self) -> Result<HashSet<InstanceId>, LedgerError> {
        let (now, known) = self.instances().await?;
        let mut living = HashSet::from([self.instance.clone()]);
        for one in known {
            if one.silent_for(now) > FORGOTTEN {
                self.forget(&one.instance, Some(one.version)).await?;
            } else if one.silent_for(now) <= SILENT {
                living.insert(one.instance);
            }
        }
        self.peers().clone_from(&living);
        self.peers().remove(&self.instance);
        Ok(living)
    }

    async fn instances(&self) -> Result<(UnixMillis, Vec<Known>), LedgerError> {
        let members = self.store.members(&Set::Instances, None, MOST).await?;
        let named = members.iter().map(|member| InstanceId::new(member));
        let named = named.collect::<Result<Vec<_>, _>>();
        let named = named.map_err(|error| corrupt_set(&error.to_string()))?;
        let keys: Vec<Key> = named.iter().map(|instance| Key::Instance(instance.clone())).collect();
        let Snapshot { now, records, .. } = self.read(&keys).await?;
        let mut known = Vec::with_capacity(named.len());
        for ((instance, key), record) in named.into_iter().zip(&keys).zip(&records) {
            let beat = bytes_in(key, record).and_then(|bytes| {
                let beat = bytes.map(schema::decode::<Beat>).transpose();
                beat.map_err(|what| corrupt(key, what))
            });
            let mut limits = None;
            let at = match beat {
                Ok(beat) => {
                    limits = beat.as_ref().and_then(|beat| beat.limits.as_ref()?.meant().ok());
                    Some(UnixMillis(beat.map_or(0, |beat| beat.at)))
                }
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "a warden's beat cannot be read"
                    );
                    None
                }
            };
            known.push(Known { instance, version: record.version, at, limits });
        }
        Ok((now, known))
    }

    async fn forget(&self, instance: &InstanceId, version: Option<Version>) -> Result<(), LedgerError> {
        let key = Key::Instance(instance.clone());
        let batch = Batch {
            expect: version.map(|version| (key.clone(), version)).into_iter().collect(),
            remove: vec![key],
            leave: vec![(Set::Instances, instance.to_string())],
            ..Batch::default()
        };
        // Moved: it was not dead after all, or another warden has forgotten it.
        self.write(batch).await?;
        Ok(())
    }
}

fn corrupt_set(what: &str) -> LedgerError {
    let key = Set::Instances.to_string();
    LedgerError::Store(crate::store::StoreError::Corrupt { key, what: what.to_owned() })
}
