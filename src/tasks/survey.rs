//! One cycle's view of everything: what the ledger charges, beside what Cube shows.

use std::collections::{BTreeMap, HashMap};

use super::Tasks;
use crate::cube::api::{Listed, SandboxState};
use crate::ids::{Marker, SandboxId};
use crate::ledger::LedgerError;
use crate::rules::collector::mark::{Doing, Shown};
use crate::rules::collector::outage::Outages;
use crate::rules::collector::report::Drift;
use crate::rules::collector::subject::{Lens, Phase, Subject};
use crate::rules::entry::{Activity, Shape};
use crate::rules::listing;
use crate::time::UnixMillis;

/// What one cycle saw.
pub(super) struct Inventory {
    /// When the listing began, by the ledger's clock.
    pub(super) began: UnixMillis,
    /// What the ledger charges, read after the listing.
    pub(super) subjects: Vec<Subject>,
    /// What Cube shows: by its list, or by a GET of what that leaves out.
    pub(super) shown: HashMap<SandboxId, Shown>,
    /// Whether the list may be believed.
    pub(super) verdict: listing::Verdict,
    /// How many the list shows on each host.
    pub(super) hosts: BTreeMap<String, u64>,
    /// Where ledger and Cube differ.
    pub(super) drift: Drift,
}

impl Tasks {
    /// Everything that the ledger charges to this Cube.
    pub(super) async fn subjects(
        &self,
        outages: &Outages,
        now: UnixMillis,
    ) -> Result<Vec<Subject>, LedgerError> {
        let rules = self.rules.load_full();
        let cycle = rules.settings.collector.cycle;
        let lens = Lens { now, timing: self.ledger.timing(), outages, cycle };
        let mut subjects = Vec::new();
        let see = |entry: crate::rules::entry::Entry| {
            let ceilings = rules.policies.of(&entry.bucket).ceilings;
            subjects.extend(Subject::of(&entry, ceilings, &lens));
        };
        let corrupt = self.ledger.each_charged_here(see).await?;
        self.report(&corrupt);
        Ok(subjects)
    }
}

/// What is wanted of an item whose sandbox is charged.
pub(super) struct Item {
    /// How Cube shows it.
    pub(super) shown: Shown,
    shape: Shape,
}

impl Item {
    /// What that says of an entry that was shown so at `began`.
    pub(super) fn activity(&self, began: UnixMillis) -> Activity {
        if self.shown.doing == Doing::Paused { Activity::Paused(began) } else { Activity::Running }
    }
}

/// A list while it is read: only what has no charged entry is kept whole.
pub(super) struct Sight {
    /// What the ledger charges.
    pub(super) subjects: Vec<Subject>,
    charged: HashMap<SandboxId, usize>,
    /// Every item, and its host.
    pub(super) shown: Vec<(SandboxId, Option<String>)>,
    /// The charged ones.
    pub(super) by_list: HashMap<SandboxId, Item>,
    /// The others.
    pub(super) unknown: Vec<Listed>,
    /// Which subjects went to sleep or woke.
    pub(super) moved: Vec<(usize, Item)>,
}

impl Sight {
    pub(super) fn new(subjects: Vec<Subject>) -> Self {
        let charged =
            subjects.iter().enumerate().map(|(at, subject)| (subject.sandbox.clone(), at)).collect();
        let (shown, by_list, unknown, moved) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        Self { subjects, charged, shown, by_list, unknown, moved }
    }

    pub(super) fn take(&mut self, item: Listed) {
        self.shown.push((item.id.clone(), item.client_id.clone()));
        let Some(at) = self.charged.get(&item.id).copied() else {
            self.unknown.push(item);
            return;
        };
        let seen = || Item { shown: shown(&item), shape: shape(&item) };
        let subject = &self.subjects[at];
        let moved = match (subject.phase, shown(&item).doing) {
            (Phase::Live(Activity::Running), Doing::Paused)
            | (Phase::Live(Activity::Paused(_)), Doing::Running) => true,
            // It may have been woken in between.
            (Phase::Live(Activity::Paused(since)), Doing::Paused) => subject.last_sign > since,
            _ => false,
        };
        if moved {
            self.moved.push((at, seen()));
        }
        let seen = seen();
        self.by_list.insert(item.id, seen);
    }
}

/// The create's answer does not tell what a sandbox holds; the list does.
pub(super) fn fill_in(subjects: &mut [Subject], by_list: &HashMap<SandboxId, Item>) {
    for subject in subjects.iter_mut().filter(|subject| subject.shape == Shape::default()) {
        if let Some(item) = by_list.get(&subject.sandbox) {
            subject.shape = item.shape;
        }
    }
}

/// What an item holds.
pub(super) fn shape(item: &Listed) -> Shape {
    Shape {
        cpu_milli: u64::from(item.cpu_count.unwrap_or(0)) * 1000,
        memory_mib: item.memory_mb.unwrap_or(0),
    }
}

/// How Cube shows an item.
pub(super) fn shown(item: &Listed) -> Shown {
    let doing = match item.state {
        SandboxState::Running => Doing::Running,
        SandboxState::Paused => Doing::Paused,
        SandboxState::Pausing | SandboxState::Other(_) => Doing::Moving,
    };
    Shown { doing, started: item.started_at, end: item.end_at }
}

/// Those that lived and were known before the listing began, and that it does not show.
pub(super) fn vanished(
    subjects: &[Subject],
    shown: &listing::Shown,
    began: UnixMillis,
) -> Vec<(SandboxId, Marker)> {
    let known = subjects.iter().filter(|subject| subject.lives() && subject.first_seen < began);
    let missing = known.filter(|subject| !shown.shows(&subject.sandbox));
    missing.map(|subject| (subject.sandbox.clone(), subject.marker.clone())).collect()
}
