//! One cycle of the collector: lead, list, reconcile, mark, plan, sweep, tell.
//!
//! Must stay true: what was marked is durable before anything is ended for it; a cycle that another collector overtook ends
//! nothing; a cycle renews nothing and wakes nobody who is not condemned.

mod judge;
mod sweep;
mod tell;

use std::collections::HashSet;
use std::sync::Arc;

pub(super) use tell::because;

use super::survey::Inventory;
use super::{Kills, Rules, Tasks, inventory};
use crate::ids::Marker;
use crate::ledger::{Decision, LedgerError, Written};
use crate::rules::collector::Terms;
use crate::rules::collector::memory::Mode;
use crate::rules::collector::plan;
use crate::rules::collector::report::{Prices, Report};
use crate::rules::collector::watch::Watch;
use crate::rules::entry::Actor;
use crate::rules::listing::Verdict;
use crate::telemetry::ListVerdict;
use crate::time::Stopwatch;

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

/// What the collector of this process knows beside its memory in the ledger; it may be lost.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// What the source of traffic has told.
    watch: Watch,
    /// Whose end was announced.
    announced: HashSet<Marker>,
    /// Whose end was withheld, and that is written down: in shadow the same are planned in each cycle.
    withheld: HashSet<Marker>,
    /// Whose quarantine was told.
    quarantined: HashSet<Marker>,
    /// How much each bucket kept when that was last told.
    kept: tell::KeptTold,
    /// How many were foreign when that was last told.
    foreign: u64,
    /// What was last thought of the list.
    lied: bool,
}

/// What an operator sees of the collector.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Whether this warden leads.
    pub leads: bool,
    /// What the last cycle of this warden found; `None` if it had none.
    pub report: Option<Arc<Report>>,
    /// Whether ends are carried out.
    pub carried_out: bool,
}

impl Tasks {
    /// One cycle.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; what was not written down is judged anew.
    pub async fn tick_collector(self: &Arc<Self>) -> Result<Cycle, LedgerError> {
        let rules = self.rules.load_full();
        let terms = terms(&rules);
        let leads = self.leads().await?;
        self.view_mut(|view| view.leads = leads);
        if !leads {
            return Ok(Cycle::NotLeading);
        }
        let watch = Stopwatch::start();
        let cycle = self.cycle(&rules, &terms).await;
        self.metrics.cycle_took(watch.elapsed());
        cycle
    }

    async fn cycle(self: &Arc<Self>, rules: &Rules, terms: &Terms) -> Result<Cycle, LedgerError> {
        let mut held = self.remembered.lock().await;
        let mut remembered = match held.take() {
            Some(remembered) => remembered,
            None => self.ledger.collector_memory().await?,
        };
        let mode = remembered.memory.state.mode(terms);
        let most = most_asked(mode, remembered.memory.state.suspect);
        let outages = remembered.memory.state.outages.clone();
        let Some(inventory) = self.take_inventory(&outages, most).await? else {
            self.metrics.listing(ListVerdict::Unavailable);
            *held = Some(remembered);
            return Ok(Cycle::NoList);
        };
        self.metrics.listing(label(inventory.verdict));
        let mut notes = self.notes.lock().await;
        self.ask_traffic(&mut notes.watch, &inventory).await;
        let judged = self.judge_all(&mut remembered, &inventory, &notes.watch, rules, terms);
        if self.ledger.remember_collector(&mut remembered).await? == Written::Overtaken {
            return Ok(Cycle::Overtaken);
        }
        let (mut report, mut written) = (judged.report, Written::Yes);
        self.tell(&mut notes, &report, &inventory, rules);
        let plan = plan::plan(judged.ends, terms, self.ledger.jitter(u64::MAX));
        if rules.kills == Kills::Withheld {
            self.write_withheld(&plan, &mut notes.withheld).await?;
        }
        // After the ledger was rebuilt nobody has had the time to show a sign of life.
        let may = rules.kills == Kills::CarriedOut && self.ledger.may_judge(inventory.began);
        if may && !plan.items.is_empty() {
            let condemned = self.sweep(plan, &inventory, &mut remembered).await?;
            report.next.retain(|item| !condemned.contains(&item.marker));
            written = self.ledger.remember_collector(&mut remembered).await?;
        }
        self.view_mut(|view| {
            view.report = Some(Arc::new(report));
            view.carried_out = rules.kills == Kills::CarriedOut;
        });
        *held = (written == Written::Yes).then_some(remembered);
        Ok(Cycle::Done)
    }

    /// What enforcing would have ended, once each.
    async fn write_withheld(&self, plan: &plan::Plan, told: &mut HashSet<Marker>) -> Result<(), LedgerError> {
        let new: Vec<_> = plan.items.iter().filter(|item| !told.contains(&item.marker)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let would = |item: &&plan::Item| {
            Decision::new("would_condemn", item.reason.name())
                .with("marker", item.marker.as_str())
                .with("sandbox_id", item.sandbox.as_str())
                .with("bucket", item.bucket.to_string())
                .with("generation", item.mark.generation.0)
                .by(Actor::Collector)
        };
        self.ledger.append(&new.iter().map(would).collect::<Vec<_>>()).await?;
        told.extend(new.iter().map(|item| item.marker.clone()));
        Ok(())
    }

    async fn ask_traffic(&self, watch: &mut Watch, inventory: &Inventory) {
        let Some(source) = &self.activity else { return };
        let ages = source.ages(self.clock.as_ref()).await;
        if let Err(error) = &ages {
            tracing::warn!(error, "nobody tells which sandboxes are in use: running ones are kept");
        }
        let now = inventory.began;
        watch.told(ages.ok(), now, |sandbox| inventory.shown.contains_key(sandbox));
    }

    /// What an operator sees.
    #[must_use]
    pub fn collector_view(&self) -> View {
        self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// What an hour costs.
    #[must_use]
    pub fn prices(&self) -> Prices {
        self.rules.load().settings.collector.prices
    }

    fn view_mut(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

fn most_asked(mode: Mode, skipped: u32) -> usize {
    if mode == Mode::Usual {
        return inventory::MOST_ASKED;
    }
    tracing::warn!(
        skipped,
        "Cube's list was doubted for too long: everything that it leaves out is asked about"
    );
    usize::MAX
}

fn label(verdict: Verdict) -> ListVerdict {
    match verdict {
        Verdict::Trusted => ListVerdict::Trusted,
        Verdict::Suspect(_) => ListVerdict::Suspect,
        Verdict::Lies => ListVerdict::Lies,
    }
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
