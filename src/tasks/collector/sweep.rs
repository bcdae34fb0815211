//! Carrying out a plan: each item is looked at once more, decided again inside the commit, and then killed.
//!
//! Must stay true: no item is condemned that a GET of this sweep does not show exactly as its mark does.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use super::super::survey::{self, Inventory};
use super::super::{MOST_KILLS, Tasks};
use crate::ids::Marker;
use crate::ledger::{Condemned, LedgerError, Remembered};
use crate::rules::collector::mark::{Second, SecondLook};
use crate::rules::collector::memory::Sweep;
use crate::rules::collector::plan::{Item, Plan};
use crate::rules::entry::Actor;
use crate::rules::listing::Answer;
use crate::time::UnixMillis;

/// How many are looked at and condemned at once.
const AT_ONCE: usize = 16;

/// What became of one item.
enum Swept {
    /// It is condemned.
    Condemned,
    /// It has changed, or something keeps it: it is judged anew.
    Changed,
    /// It tells another beginning alone than in the list: the next sweep compares the two.
    Beginning(UnixMillis),
    /// It could not be looked at, or a call is under way: it keeps its mark.
    Later,
}

impl Tasks {
    /// Ends what the plan names, as far as it still holds. Returns what is condemned.
    pub(super) async fn sweep(
        self: &Arc<Self>,
        plan: Plan,
        inventory: &Inventory,
        remembered: &mut Remembered,
    ) -> Result<HashSet<Marker>, LedgerError> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut sweep = Sweep {
            at: Some(inventory.began),
            planned: count(plan.items.len()),
            later: count(plan.later),
            ..Sweep::default()
        };
        let now = inventory.began;
        let work = plan.items.into_iter().map(|item| async move { (self.end_one(&item, now).await, item) });
        let outcomes: Vec<_> = stream::iter(work).buffer_unordered(AT_ONCE).collect().await;
        let marks = &mut remembered.memory.marks;
        let (mut condemned, mut failed) = (HashSet::new(), None);
        for (outcome, item) in outcomes {
            match outcome {
                Ok(Swept::Condemned) => {
                    sweep.condemned += 1;
                    self.tell_collected(&item);
                    marks.remove(&item.marker);
                    condemned.insert(item.marker);
                }
                Ok(Swept::Changed) => {
                    sweep.kept += 1;
                    marks.remove(&item.marker);
                }
                Ok(Swept::Beginning(at)) => {
                    sweep.kept += 1;
                    if let Some(mark) = marks.get_mut(&item.marker) {
                        mark.alone = Some(at);
                    }
                }
                Ok(Swept::Later) => sweep.kept += 1,
                Err(error) => failed = Some(error),
            }
        }
        remembered.memory.state.sweep = sweep;
        failed.map_or(Ok(condemned), Err)
    }

    async fn end_one(self: &Arc<Self>, item: &Item, now: UnixMillis) -> Result<Swept, LedgerError> {
        let Some(entry) = self.ledger.entry(&item.marker).await? else { return Ok(Swept::Changed) };
        let detail = match self.deeds.ask_closely(&entry).await? {
            (Answer::Here, Some(detail)) => detail,
            (Answer::Gone, _) => return Ok(Swept::Changed),
            _ => return Ok(Swept::Later),
        };
        let seen = survey::shown(&detail.listed);
        let look = SecondLook { now, seen, allowed: item.allowed, outlived: item.outlived };
        match look.against(&item.mark) {
            Second::Same => self.condemn(item).await,
            Second::Beginning(at) => Ok(Swept::Beginning(at)),
            Second::Changed => Ok(Swept::Changed),
        }
    }

    async fn condemn(self: &Arc<Self>, item: &Item) -> Result<Swept, LedgerError> {
        let shown = item.shown();
        match self.ledger.condemn(&item.marker, Actor::Collector, &shown, &item.why()).await? {
            Condemned::Yes => {
                if self.deeds.kills_running() < MOST_KILLS {
                    self.deeds.start_kill(&item.marker);
                }
                Ok(Swept::Condemned)
            }
            Condemned::Later => Ok(Swept::Later),
            _ => Ok(Swept::Changed),
        }
    }
}
