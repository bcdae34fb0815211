//! Reading the ledger for answers, metrics and tasks. Changes nothing.

use super::settle::PAGE;
use super::{Ledger, LedgerError, Sharing, entry_in, lease, marker_in};
use crate::ids::{Bucket, Marker, SandboxId};
use crate::rules::entry::Entry;
use crate::store::schema::{Key, Set};
use crate::time::UnixMillis;

/// The states that hold a slot, as the admin interface counts them.
pub const CHARGED: [&str; 6] = ["reserved", "dispatched", "ambiguous", "live", "killing", "quarantined"];

/// How many entries of one bucket are in each charged state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// In the order of [`CHARGED`].
    pub by_state: [u64; 6],
    /// Of the live ones.
    pub paused: u64,
}

/// Counts of the named buckets and of all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the order asked for.
    pub buckets: Vec<BucketCounts>,
    /// Over every bucket.
    pub all: BucketCounts,
}

/// A piece of what holds a slot.
#[derive(Debug)]
pub struct ChargedPage {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Records that cannot be read.
    pub corrupt: Vec<LedgerError>,
    /// Where to go on; `None` at the end.
    pub next: Option<Marker>,
}

impl BucketCounts {
    /// How many slots are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.by_state.iter().sum()
    }
}

impl Ledger {
    /// Counts entries by state, read from the store at this moment.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn counts(&self, buckets: &[Bucket]) -> Result<Counts, LedgerError> {
        let names = CHARGED.into_iter().chain(["paused"]);
        let mut sets: Vec<Set> = Vec::new();
        for bucket in buckets {
            sets.extend(names.clone().map(|name| Set::State(name, bucket.clone())));
        }
        sets.extend(names.map(Set::AllState));
        let sizes = self.store.sizes(&sets).await?;
        let mut counts: Vec<BucketCounts> = sizes
            .chunks_exact(CHARGED.len() + 1)
            .map(|sizes| BucketCounts {
                by_state: std::array::from_fn(|at| sizes[at]),
                paused: sizes[CHARGED.len()],
            })
            .collect();
        let all = counts.pop().unwrap_or_default();
        Ok(Counts { buckets: counts, all })
    }

    /// Every entry that holds a slot in a bucket (`None`: anywhere). Corrupt records are left out and returned apart.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn charged(
        &self,
        bucket: Option<&Bucket>,
    ) -> Result<(Vec<Entry>, Vec<LedgerError>), LedgerError> {
        let set = bucket.map_or(Set::AllSlots, |bucket| Set::Slots(bucket.clone()));
        let markers = self.markers(&set).await?;
        self.entries(&markers).await
    }

    /// Up to `most` of them after a marker, in the order of the markers; and the last marker that was looked at, if there
    /// may be more.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn charged_after(
        &self,
        bucket: Option<&Bucket>,
        after: Option<&Marker>,
        most: usize,
    ) -> Result<ChargedPage, LedgerError> {
        let set = bucket.map_or(Set::AllSlots, |bucket| Set::Slots(bucket.clone()));
        let members = self.store.members(&set, after.map(Marker::as_str), most).await?;
        let markers: Vec<Marker> = members.iter().filter_map(|member| Marker::new(member).ok()).collect();
        let (entries, corrupt) = self.entries(&markers).await?;
        let next = if members.len() < most { None } else { markers.last().cloned() };
        Ok(ChargedPage { entries, corrupt, next })
    }

    /// Whether an entry is of the Cube that this warden serves: only a warden of that Cube judges it.
    #[must_use]
    pub fn is_here(&self, entry: &Entry) -> bool {
        entry.upstream == self.settings.upstream
    }

    /// Every entry of this warden's Cube that holds a slot. Corrupt records are left out and returned apart.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn charged_here(&self) -> Result<(Vec<Entry>, Vec<LedgerError>), LedgerError> {
        let (mut entries, corrupt) = self.charged(None).await?;
        entries.retain(|entry| self.is_here(entry));
        Ok((entries, corrupt))
    }

    /// How many entries of this warden's Cube are condemned and not quarantined. Where several Cubes share the ledger and very many
    /// stand, a page of them speaks for all.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn killing_here(&self) -> Result<u64, LedgerError> {
        let set = Set::AllState("killing");
        let all = self.store.sizes(std::slice::from_ref(&set)).await?.first().copied().unwrap_or_default();
        if all == 0 || self.sharing() == Sharing::OneProcess {
            return Ok(all);
        }
        let markers = self.markers(&set).await?;
        let page = &markers[..markers.len().min(PAGE)];
        let (entries, _) = self.entries(page).await?;
        let here = entries.iter().filter(|entry| self.is_here(entry)).count();
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        Ok(count(markers.len()) * count(here) / count(page.len()).max(1))
    }

    /// Live entries that are paused, in these buckets (`None`: anywhere).
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn paused(&self, buckets: Option<&[Bucket]>) -> Result<Vec<Entry>, LedgerError> {
        let sets: Vec<Set> = match buckets {
            None => vec![Set::AllState("paused")],
            Some(buckets) => buckets.iter().map(|bucket| Set::State("paused", bucket.clone())).collect(),
        };
        let mut paused = Vec::new();
        for set in sets {
            let markers = self.markers(&set).await?;
            paused.extend(self.entries(&markers).await?.0);
        }
        Ok(paused)
    }

    /// The entries of many markers at once.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn entries(&self, markers: &[Marker]) -> Result<(Vec<Entry>, Vec<LedgerError>), LedgerError> {
        let (mut entries, mut corrupt) = (Vec::with_capacity(markers.len()), Vec::new());
        for page in markers.chunks(PAGE) {
            let keys: Vec<Key> = page.iter().map(|marker| Key::Entry(marker.clone())).collect();
            let snapshot = self.read(&keys).await?;
            for (key, record) in keys.iter().zip(&snapshot.records) {
                match entry_in(key, record) {
                    Ok(found) => entries.extend(found.map(|(entry, _)| entry)),
                    Err(error) => corrupt.push(error),
                }
            }
        }
        Ok((entries, corrupt))
    }

    /// The entries of many sandboxes at once, tombstones included; `None` where there is none.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or an index is corrupt.
    pub async fn find_all(&self, sandboxes: &[SandboxId]) -> Result<Vec<Option<Entry>>, LedgerError> {
        let mut found = Vec::with_capacity(sandboxes.len());
        for page in sandboxes.chunks(PAGE) {
            let keys: Vec<Key> = page.iter().map(|id| Key::Sandbox(id.clone())).collect();
            let snapshot = self.read(&keys).await?;
            let markers: Vec<Option<Marker>> = keys
                .iter()
                .zip(&snapshot.records)
                .map(|(key, record)| marker_in(key, record))
                .collect::<Result<_, _>>()?;
            let present: Vec<Marker> = markers.iter().flatten().cloned().collect();
            let (entries, _) = self.entries(&present).await?;
            let mut by_marker: std::collections::HashMap<Marker, Entry> =
                entries.into_iter().map(|entry| (entry.marker.clone(), entry)).collect();
            found.extend(
                markers.into_iter().map(|marker| marker.and_then(|marker| by_marker.remove(&marker))),
            );
        }
        for entry in found.iter().flatten().filter(|entry| self.is_here(entry)) {
            self.memory.know(entry);
        }
        Ok(found)
    }

    /// Up to `most` entries that somebody must look at by now, earliest first, and the ledger's clock.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn due(&self, most: usize) -> Result<(UnixMillis, Vec<Entry>, Vec<LedgerError>), LedgerError> {
        let now = self.now().await?;
        let mut markers = Vec::new();
        for member in self.store.due(now, most).await? {
            if member.starts_with(lease::SEAL) {
                self.forget_seal(&member).await?;
                continue;
            }
            match Marker::new(&member) {
                Ok(marker) => markers.push(marker),
                Err(error) => return Err(super::corrupt(&Key::Meta, format!("an appointment: {error}"))),
            }
        }
        let (mut entries, corrupt) = self.entries(&markers).await?;
        entries.retain(|entry| self.is_here(entry));
        Ok((now, entries, corrupt))
    }

    /// Live entries of a bucket (`None`: anywhere) whose granted end has passed; what Cube's own sweeper may have ended.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn past_deadline(
        &self,
        bucket: Option<&Bucket>,
        most: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        let now = self.now().await?;
        let (mut entries, _) = self.charged(bucket).await?;
        let grace = self.settings.timing.deadline_grace;
        entries.retain(|entry| self.is_here(entry));
        entries.retain(|entry| {
            let passed = entry.deadline.filter(|deadline| *deadline <= now && entry.usable());
            // Not those that were asked about lately and live: they have a later appointment.
            passed
                .is_some_and(|deadline| entry.due.is_none_or(|due| due <= now || due == deadline.plus(grace)))
        });
        entries.sort_by_key(|entry| entry.deadline);
        entries.truncate(most);
        Ok(entries)
    }
}
