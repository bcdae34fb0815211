//! One cycle of the collector: lead, list, reconcile, mark, plan, sweep.
//!
//! Must stay true: what was marked is durable before anything is ended for it; a cycle that another collector overtook ends
//! nothing; a cycle renews nothing and wakes nobody who is not condemned.

mod sweep;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::survey::Inventory;
use super::{Kills, Rules, Tasks, inventory};
use crate::ledger::{Leads, LedgerError, Remembered, Written};
use crate::rules::collector::Terms;
use crate::rules::collector::mark::{self, Colour, Look, Traffic, Worth};
use crate::rules::collector::memory::Mode;
use crate::rules::collector::plan::{self, Item};
use crate::rules::collector::policy::{self, Sentence};
use crate::rules::collector::subject::Subject;

/// How a cycle went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycle {
    /// It was carried out.
    Done,
    /// Another warden collects at this Cube.
    NotLeading,
    /// Cube gave no list: nothing was judged.
    NoList,
    /// Another collector wrote at the same time: nothing was ended.
    Overtaken,
}

/// What a cycle makes of everything.
#[derive(Debug, Default)]
struct Verdicts {
    ends: Vec<Item>,
}

impl Tasks {
    /// One cycle.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; what was not written down is judged anew.
    pub async fn tick_collector(self: &Arc<Self>) -> Result<Cycle, LedgerError> {
        let rules = self.rules.load_full();
        let terms = terms(&rules);
        if self.ledger.lead(lead_for(&terms)).await? == Leads::No {
            return Ok(Cycle::NotLeading);
        }
        let mut held = self.remembered.lock().await;
        let mut remembered = match held.take() {
            Some(remembered) => remembered,
            None => self.ledger.collector_memory().await?,
        };
        let mode = remembered.memory.state.mode(&terms);
        if mode == Mode::Forced {
            tracing::warn!(
                skipped = remembered.memory.state.suspect,
                "Cube's list was doubted for too long: everything that it leaves out is asked about"
            );
        }
        let most = if mode == Mode::Forced { usize::MAX } else { inventory::MOST_ASKED };
        let outages = remembered.memory.state.outages.clone();
        let Some(inventory) = self.take_inventory(&outages, most).await? else {
            *held = Some(remembered);
            return Ok(Cycle::NoList);
        };
        let verdicts = self.mark_all(&mut remembered, &inventory, &rules, &terms);
        if self.ledger.remember_collector(&mut remembered).await? == Written::Overtaken {
            return Ok(Cycle::Overtaken);
        }
        let plan = plan::plan(verdicts.ends, &terms, self.ledger.jitter(u64::MAX));
        let mut written = Written::Yes;
        if rules.kills == Kills::CarriedOut && !plan.items.is_empty() {
            self.sweep(plan, &inventory, &mut remembered).await?;
            written = self.ledger.remember_collector(&mut remembered).await?;
        }
        *held = (written == Written::Yes).then_some(remembered);
        Ok(Cycle::Done)
    }

    fn mark_all(
        &self,
        remembered: &mut Remembered,
        inventory: &Inventory,
        rules: &Rules,
        terms: &Terms,
    ) -> Verdicts {
        let memory = &mut remembered.memory;
        let (instance, now) = (self.ledger.instance(), inventory.began);
        let (mut state, worth) =
            std::mem::take(&mut memory.state).listed(instance, now, inventory.verdict, terms);
        if inventory.verdict.is_trusted() {
            state.hosts = inventory.hosts.clone();
        }
        memory.state = state;
        let look = look(now, worth, terms, self.ledger.timing().newborn);
        let (mut marks, mut verdicts) = (HashMap::new(), Verdicts::default());
        for subject in &inventory.subjects {
            let shown = inventory.shown.get(&subject.sandbox);
            let traffic = Traffic::Unknown;
            let marked = mark::mark(subject, shown, traffic, memory.marks.get(&subject.marker), &look);
            marks.extend(marked.mark.map(|mark| (subject.marker.clone(), mark)));
            if let (Colour::White, Some(mark)) = (marked.colour, marked.mark) {
                verdicts.ends.extend(self.end_of(subject, mark, traffic, rules, &look));
            }
        }
        memory.marks = marks;
        verdicts
    }

    fn end_of(
        &self,
        subject: &Subject,
        mark: mark::Mark,
        traffic: Traffic,
        rules: &Rules,
        look: &Look,
    ) -> Option<Item> {
        let terms = policy::Terms {
            retention: rules.policies.of(&subject.bucket).retention,
            overdue_grace: rules.settings.collector.overdue_grace,
        };
        match policy::sentence(subject, traffic, terms, look.now) {
            Sentence::End { reason, lasted, allowed } => {
                Some(Item::of(subject, mark, reason, lasted, allowed))
            }
            Sentence::Stay { .. } => None,
        }
    }
}

/// The lead outlives one cycle that takes its time, and another warden has it within three.
fn lead_for(terms: &Terms) -> Duration {
    terms.cycle * 2
}

fn terms(rules: &Rules) -> Terms {
    let collector = &rules.settings.collector;
    let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Terms {
        cycle: collector.cycle,
        confirmations: collector.confirmations,
        overdue_grace: collector.overdue_grace,
        root_fresh: collector.root_fresh,
        skip_cap: collector.listing_skip_cap,
        most_kills: wide(collector.max_kills_per_cycle),
        most_kills_per_bucket: wide(collector.max_kills_per_bucket),
    }
}

fn look(now: crate::time::UnixMillis, worth: Worth, terms: &Terms, newborn: Duration) -> Look {
    Look {
        now,
        worth,
        cycle: terms.cycle,
        confirmations: terms.confirmations,
        newborn,
        root_fresh: terms.root_fresh,
    }
}
