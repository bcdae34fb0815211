//! Cube's list against the ledger: what has no record gets one, what is dead and shown alive is killed again, what
//! vanished is asked about one by one.
//!
//! Must stay true: nothing is ended here that was not condemned before; absence from the list proves nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::collector::because;
use super::survey::{self, Inventory, Sight};
use super::{Adopt, Kills, Rules, Tasks};
use crate::cube::api::{Labels, Listed, SandboxState};
use crate::cube::client::Seen;
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::ledger::{BEAT, Import, Imported, Lead, LedgerError};
use crate::rules::collector::outage::Outages;
use crate::rules::collector::report::Drift;
use crate::rules::entry::{Activity, Entry, Origin, State};
use crate::rules::listing;
use crate::telemetry::events::Event;
use crate::telemetry::{EventKind, Reconciled};
use crate::time::UnixMillis;

/// How many items are taken in at once: so many imports share a sync of the disk.
const AT_ONCE: usize = 64;
/// How many vanished ones are asked about in one cycle.
pub(super) const MOST_ASKED: usize = 256;

/// What an item of the list is to us.
pub(super) enum Whose {
    /// It carries our labels.
    Ours(Box<Labels>),
    /// It carries none.
    Unmarked,
    /// It is another ledger's.
    Foreign,
}

/// What an item without a charged entry turned out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// It has an entry all the same.
    Known,
    /// It has one now.
    TakenIn,
    /// It is not ours.
    Foreign,
}

impl Tasks {
    /// Takes in Cube's list once, and judges nobody.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails. A list that fails changes nothing.
    pub async fn tick_inventory(self: &Arc<Self>) -> Result<(), LedgerError> {
        if self.leads().await? {
            self.take_inventory(&Outages::default(), MOST_ASKED).await?;
        }
        Ok(())
    }

    /// Whether this warden looks after its Cube; if another does, only what is remembered here is brought up to date.
    pub(super) async fn leads(&self) -> Result<bool, LedgerError> {
        let cycle = self.rules.load().settings.collector.cycle;
        let lead = self.ledger.lead(cycle.saturating_mul(2) + BEAT).await?;
        let follows = matches!(lead, Lead::Follows(_));
        self.status_mut().follows = follows;
        self.metrics.leads(!follows);
        if follows {
            self.ledger.forget_ended(&[]).await?;
            self.ledger.learn_names().await?;
            self.ledger.refresh_recollection().await?;
        }
        Ok(!follows)
    }

    /// Takes in Cube's list: every item finds its record or is given one, and up to `most` of those that it leaves out are
    /// asked about. `None` if there is no list.
    pub(super) async fn take_inventory(
        self: &Arc<Self>,
        outages: &Outages,
        most: usize,
    ) -> Result<Option<Inventory>, LedgerError> {
        let began = self.ledger.now().await?;
        let subjects = self.subjects(outages, began).await?;
        let mut sight = Sight::new(subjects);
        let listed = self.cube.list_each(&self.cube.own_credential(), |item| sight.take(item)).await;
        if let Err(error) = listed {
            self.note_listing(Some(&error));
            tracing::warn!(%error, "no inventory this time");
            return Ok(None);
        }
        self.note_listing(None);
        let rules = self.rules.load_full();
        let Sight { mut subjects, shown, by_list, unknown, moved, .. } = sight;
        for (at, item) in moved {
            self.ledger.observed(&subjects[at].marker, item.activity(began), began).await?;
        }
        let not_charged = self.reconcile(&rules, unknown, began).await?;
        let ids: Vec<SandboxId> = shown.iter().map(|(id, _)| id.clone()).collect();
        self.ledger.forget_ended(&ids).await?;
        let shown: listing::Shown = shown.into_iter().collect();
        survey::fill_in(&mut subjects, &by_list);
        let vanished = survey::vanished(&subjects, &shown, began);
        let hosts = shown.hosts();
        let (verdict, by_get, not_shown) = self.judge(shown, vanished, most).await?;
        let drift = Drift { not_shown, not_charged };
        self.ledger.refresh_recollection().await?;
        self.status_mut().last_inventory = Some(began);
        let shown = by_list.into_iter().map(|(id, item)| (id, item.shown)).chain(by_get).collect();
        Ok(Some(Inventory { began, subjects, shown, verdict, hosts, drift }))
    }

    /// Finds the records of items that are not charged, or gives them some. Returns how many had none until now.
    async fn reconcile(
        self: &Arc<Self>,
        rules: &Rules,
        items: Vec<Listed>,
        began: UnixMillis,
    ) -> Result<u64, LedgerError> {
        let first = !self.ledger.first_import_done().await?;
        let ids: Vec<SandboxId> = items.iter().map(|item| item.id.clone()).collect();
        let entries = self.ledger.find_all(&ids).await?;
        let work = items.into_iter().zip(entries).map(|(item, entry)| async move {
            match entry {
                Some(entry) => self.compare(&entry, &item, began).await.map(|()| Unknown::Known),
                None => self.unknown(rules, &item, first, began).await,
            }
        });
        let found: Vec<Unknown> = stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await?;
        let count =
            |kind| u64::try_from(found.iter().filter(|one| **one == kind).count()).unwrap_or(u64::MAX);
        self.foreign.store(count(Unknown::Foreign), Ordering::Relaxed);
        if first {
            self.ledger.finish_first_import().await?;
        }
        Ok(count(Unknown::TakenIn))
    }

    /// An item whose entry holds no slot, or came only now: what is dead and shown alive is looked at closely.
    async fn compare(&self, entry: &Entry, item: &Listed, began: UnixMillis) -> Result<(), LedgerError> {
        match &entry.state {
            State::Refused | State::Gone { .. } if buried_before(entry, began) => {
                self.raise(&entry.marker, &item.id).await
            }
            _ => Ok(()),
        }
    }

    /// The list shows a dead one: if a GET does too, it is charged and killed again.
    async fn raise(&self, marker: &Marker, sandbox: &SandboxId) -> Result<(), LedgerError> {
        if self.rules.load().kills == Kills::Withheld || !self.ledger.may_judge(self.ledger.now().await?) {
            return Ok(());
        }
        if let Seen::Here(_) = self.cube.get(sandbox, &self.cube.own_credential()).await
            && self.ledger.resurrected(marker, sandbox).await?
        {
            tracing::error!(%marker, sandbox_id = %sandbox, "Cube shows a dead sandbox alive: it is killed again");
        }
        Ok(())
    }

    /// An item without an entry.
    async fn unknown(
        self: &Arc<Self>,
        rules: &Rules,
        item: &Listed,
        first: bool,
        began: UnixMillis,
    ) -> Result<Unknown, LedgerError> {
        let whose = self.whose(rules, item);
        if let Whose::Ours(labels) = &whose
            && let Some(entry) = self.ledger.entry(&labels.marker).await?
        {
            self.marked(&entry, item, began).await?;
            return Ok(Unknown::Known);
        }
        let unmarked = if first { Origin::Imported } else { Origin::Round };
        let Some(import) = adopted(rules, whose, item, unmarked, began) else { return Ok(Unknown::Foreign) };
        let origin = import.origin;
        if self.ledger.import(&import).await? == Imported::Yes {
            self.metrics.reconciled(taken_in(&import));
            if origin == Origin::Round {
                let id = Some(item.id.to_string());
                let bucket = Some(import.bucket.to_string());
                let event = Event { sandbox_id: id, bucket, ..because("it appeared without our marks") };
                self.event(EventKind::Round, &event);
            }
        }
        Ok(Unknown::TakenIn)
    }

    /// An item without a record whose marker has an entry: it is that entry's only if the entry knows no other sandbox.
    async fn marked(&self, entry: &Entry, item: &Listed, began: UnixMillis) -> Result<(), LedgerError> {
        if entry.sandbox.as_ref().is_some_and(|other| *other != item.id) {
            return self.take_copy_in(item, began).await;
        }
        match entry.state {
            State::Ambiguous { .. }
                if self.rules.load().kills == Kills::CarriedOut && self.ledger.may_judge(began) =>
            {
                self.take_in(entry, item, began).await
            }
            State::Refused | State::Gone { .. } if buried_before(entry, began) => {
                self.raise(&entry.marker, &item.id).await
            }
            // Its answer is on the way.
            _ => Ok(()),
        }
    }

    /// It carries the marker of another sandbox: an application copied the metadata, or one create made two. That says
    /// where it is counted, but neither the other's life nor its death is its own.
    pub(super) async fn take_copy_in(&self, item: &Listed, began: UnixMillis) -> Result<(), LedgerError> {
        let labels = Labels::read_under_any(&item.metadata, &self.rules.load().labels);
        let Some(labels) = labels else { return Ok(()) };
        let import = import(item, labels.bucket, labels.owner, None, Origin::Round, began);
        if self.ledger.import(&import).await? == Imported::Yes {
            self.metrics.reconciled(taken_in(&import));
            tracing::warn!(sandbox_id = %item.id, marker = %labels.marker, "a sandbox carries the marker of another");
        }
        Ok(())
    }

    pub(super) fn whose(&self, rules: &Rules, item: &Listed) -> Whose {
        match Labels::read_under_any(&item.metadata, &rules.labels) {
            Some(labels) if labels.ledger == self.ledger.id() => Whose::Ours(Box::new(labels)),
            Some(_) => Whose::Foreign,
            None => Whose::Unmarked,
        }
    }
}

/// How an import is counted.
fn taken_in(import: &Import) -> Reconciled {
    match (import.origin, &import.marker) {
        (Origin::Round, _) => Reconciled::Round,
        (_, Some(_)) => Reconciled::Unrecorded,
        (_, None) => Reconciled::Imported,
    }
}

/// The record of an item that has none; `None` if it stays foreign. `unmarked`: what it is if it carries no labels.
pub(super) fn adopted(
    rules: &Rules,
    whose: Whose,
    item: &Listed,
    unmarked: Origin,
    now: UnixMillis,
) -> Option<Import> {
    match (whose, &rules.adopt) {
        (Whose::Ours(labels), _) => {
            let marker = Some(labels.marker);
            Some(import(item, labels.bucket, labels.owner, marker, Origin::Imported, now))
        }
        (Whose::Unmarked, Adopt::Into(bucket)) => {
            let owner = owner_of(bucket, &item.id);
            Some(import(item, bucket.clone(), owner, None, unmarked, now))
        }
        (Whose::Unmarked, Adopt::Nobody) | (Whose::Foreign, _) => None,
    }
}

/// What died while the list was on its way may stand in it.
fn buried_before(entry: &Entry, began: UnixMillis) -> bool {
    match entry.state {
        State::Gone { at, .. } => at < began,
        _ => entry.last_sign < began,
    }
}

/// The owner of what nobody claims: its own id, in the adopting bucket.
fn owner_of(bucket: &Bucket, sandbox: &SandboxId) -> OwnerId {
    let named = OwnerId::of_parts(bucket, "-", sandbox.as_str());
    named.expect("two labels and an id are within the length of an owner")
}

fn import(
    item: &Listed,
    bucket: Bucket,
    owner: OwnerId,
    marker: Option<Marker>,
    origin: Origin,
    now: UnixMillis,
) -> Import {
    let paused = item.state == SandboxState::Paused;
    Import {
        sandbox: item.id.clone(),
        marker,
        bucket,
        owner,
        template: item.template_id.clone().unwrap_or_default(),
        shape: survey::shape(item),
        activity: if paused { Activity::Paused(now) } else { Activity::Running },
        origin,
        deadline: item.end_at,
    }
}
