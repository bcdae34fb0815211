//! Cube's list against the ledger: what has no record gets one, what is dead and shown alive is killed again, what
//! vanished is asked about one by one.
//!
//! Must stay true: nothing is ended here that was not condemned before; absence from the list proves nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Adopt, Kills, Rules, Tasks, vanished};
use crate::cube::api::{Labels, Listed, SandboxState};
use crate::cube::client::Seen;
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::ledger::{BEAT, Import, Imported, Lead, LedgerError};
use crate::rules::entry::{Activity, Entry, Origin, Shape, State};
use crate::telemetry::Reconciled;
use crate::time::UnixMillis;

/// How many items are taken in at once: so many imports share a sync of the disk.
const AT_ONCE: usize = 64;
/// How many vanished ones are asked about in one cycle.
const MOST_ASKED: usize = 256;

/// What an item of the list is to us.
pub(super) enum Whose {
    /// It carries our labels.
    Ours(Box<Labels>),
    /// It carries none.
    Unmarked,
    /// It is another ledger's.
    Foreign,
}

impl Tasks {
    /// Takes in Cube's list once.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails. A list that fails changes nothing.
    pub async fn tick_inventory(self: &Arc<Self>) -> Result<(), LedgerError> {
        let cycle = self.rules.load().settings.collector.cycle;
        let lead = self.ledger.lead(cycle.saturating_mul(2) + BEAT).await?;
        let follows = matches!(lead, Lead::Follows(_));
        self.status_mut().follows = follows;
        if follows {
            self.ledger.forget_ended(&[]).await?;
            return self.ledger.refresh_recollection().await;
        }
        let began = self.ledger.now().await?;
        let listed = match self.cube.list(&self.cube.own_credential()).await {
            Ok(listed) => listed,
            Err(error) => {
                self.note_listing(Some(&error));
                tracing::warn!(%error, "no inventory this time");
                return Ok(());
            }
        };
        self.note_listing(None);
        let rules = self.rules.load_full();
        let first = !self.ledger.first_import_done().await?;
        let shown = vanished::shown_by(&listed);
        let ids: Vec<SandboxId> = listed.iter().map(|item| item.id.clone()).collect();
        let entries = self.ledger.find_all(&ids).await?;
        self.ledger.forget_ended(&ids).await?;
        let rules = &rules;
        let work = listed.into_iter().zip(entries).map(|(item, entry)| async move {
            match entry {
                Some(entry) => self.compare(&entry, &item, began).await.map(|()| false),
                None => self.unknown(rules, &item, first, began).await,
            }
        });
        let foreign: Vec<bool> = stream::iter(work).buffer_unordered(AT_ONCE).try_collect().await?;
        let foreign = foreign.into_iter().filter(|foreign| *foreign).count();
        self.foreign.store(u64::try_from(foreign).unwrap_or(u64::MAX), Ordering::Relaxed);
        if first {
            self.ledger.finish_first_import().await?;
        }
        self.judge(shown, began, MOST_ASKED).await?;
        self.ledger.refresh_recollection().await?;
        self.status_mut().last_inventory = Some(began);
        Ok(())
    }

    /// An item with an entry: the entry follows it, or, if it is dead, the item is looked at closely.
    async fn compare(&self, entry: &Entry, item: &Listed, began: UnixMillis) -> Result<(), LedgerError> {
        match (&entry.state, &item.state) {
            (State::Live(Activity::Running), SandboxState::Paused) => {
                self.ledger.observed(&entry.marker, Activity::Paused(began), began).await
            }
            (State::Live(Activity::Paused(_)), SandboxState::Running) => {
                self.ledger.observed(&entry.marker, Activity::Running, began).await
            }
            (State::Refused | State::Gone { .. }, _) if buried_before(entry, began) => {
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

    /// An item without an entry. True if it stays foreign.
    async fn unknown(
        self: &Arc<Self>,
        rules: &Rules,
        item: &Listed,
        first: bool,
        began: UnixMillis,
    ) -> Result<bool, LedgerError> {
        let whose = self.whose(rules, item);
        if let Whose::Ours(labels) = &whose
            && let Some(entry) = self.ledger.entry(&labels.marker).await?
        {
            self.marked(&entry, item, began).await?;
            return Ok(false);
        }
        let unmarked = if first { Origin::Imported } else { Origin::Round };
        let Some(import) = adopted(rules, whose, item, unmarked, began) else { return Ok(true) };
        let origin = import.origin;
        if self.ledger.import(&import).await? == Imported::Yes {
            self.metrics.reconciled(Reconciled::Imported);
            if origin == Origin::Round {
                tracing::warn!(sandbox_id = %item.id, "a sandbox was made round the warden");
            }
        }
        Ok(false)
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
            self.metrics.reconciled(Reconciled::Imported);
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
        shape: Shape {
            cpu_milli: u64::from(item.cpu_count.unwrap_or(0)) * 1000,
            memory_mib: item.memory_mb.unwrap_or(0),
        },
        activity: if paused { Activity::Paused(now) } else { Activity::Running },
        origin,
        deadline: item.end_at,
    }
}
