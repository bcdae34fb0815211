//! One cycle's view of everything: what the ledger charges, beside what Cube shows.

use std::collections::{BTreeMap, HashMap};

use super::Tasks;
use crate::cube::api::{Listed, SandboxState};
use crate::ids::{Marker, SandboxId};
use crate::ledger::LedgerError;
use crate::rules::collector::mark::{Doing, Shown};
use crate::rules::collector::outage::Outages;
use crate::rules::collector::subject::{Lens, Subject};
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
