//! From what one cycle saw to what it makes of everybody: thin over the rules.

use std::collections::HashMap;

use super::super::survey::Inventory;
use super::super::{Rules, Tasks};
use crate::ledger::Remembered;
use crate::rules::collector::Terms;
use crate::rules::collector::mark::{self, Colour, Look, Mark, Traffic};
use crate::rules::collector::plan::Item;
use crate::rules::collector::policy::{self, Sentence};
use crate::rules::collector::report::Report;
use crate::rules::collector::subject::{Phase, Subject};
use crate::rules::collector::watch::Watch;

/// What one cycle makes of everybody.
pub(super) struct Judged {
    /// What ends now.
    pub(super) ends: Vec<Item>,
    /// What is shown of it.
    pub(super) report: Report,
}

/// What everybody is judged with.
struct Bench<'a> {
    rules: &'a Rules,
    terms: &'a Terms,
    look: Look,
}

impl Tasks {
    /// Marks everybody, in the memory too.
    pub(super) fn judge_all(
        &self,
        remembered: &mut Remembered,
        inventory: &Inventory,
        watch: &Watch,
        rules: &Rules,
        terms: &Terms,
    ) -> Judged {
        let memory = &mut remembered.memory;
        let (leader, now) = (self.ledger.instance(), inventory.began);
        let before = std::mem::take(&mut memory.state);
        let (mut state, worth) = before.listed(leader, now, inventory.verdict, terms);
        if inventory.verdict.is_trusted() {
            state.hosts.clone_from(&inventory.hosts);
        }
        memory.state = state;
        let look = Look {
            now,
            worth,
            cycle: terms.cycle,
            confirmations: terms.confirmations,
            newborn: self.ledger.timing().newborn,
            root_fresh: terms.root_fresh,
        };
        let bench = Bench { rules, terms, look };
        let mut judged = Judged { ends: Vec::new(), report: Report { at: now, ..Report::default() } };
        judged.report.verdict = Some(inventory.verdict);
        judged.report.drift = inventory.drift;
        let mut marks = HashMap::new();
        for subject in &inventory.subjects {
            let shown = inventory.shown.get(&subject.sandbox);
            let traffic = watch.of(&subject.sandbox, now);
            let marked = mark::mark(subject, shown, traffic, memory.marks.get(&subject.marker), &look);
            *judged.report.colours.entry(marked.colour.reason()).or_default() += 1;
            if let Some(mark) = marked.mark {
                bench.sentence(subject, marked.colour, mark, traffic, &mut judged);
                marks.insert(subject.marker.clone(), mark);
            } else if subject.phase == Phase::Quarantined {
                judged.report.zombie(subject, subject.silent_for);
            }
        }
        memory.marks = marks;
        judged.report.finish();
        judged
    }
}

impl Bench<'_> {
    /// What the policy says of something that nothing keeps, now and when the next cycle comes.
    fn sentence(&self, subject: &Subject, colour: Colour, mark: Mark, traffic: Traffic, judged: &mut Judged) {
        let policy = policy::Terms {
            retention: self.rules.policies.of(&subject.bucket).retention,
            overdue_grace: self.rules.settings.collector.overdue_grace,
        };
        let now = self.look.now;
        match policy::sentence(subject, traffic, policy, now) {
            Sentence::End { reason, lasted, allowed } if colour == Colour::White => {
                judged.report.zombie(subject, lasted);
                let item = Item::of(subject, mark, reason, lasted, allowed);
                judged.report.next.push(item.clone());
                judged.ends.push(item);
                return;
            }
            Sentence::Stay { keep, lasted } if colour == Colour::White => {
                judged.report.zombie(subject, lasted);
                judged.report.keep(subject, keep, lasted);
            }
            _ => {}
        }
        let cycle = self.terms.cycle;
        let later = subject.later(cycle);
        let next = policy::sentence(&later, traffic, policy, now.plus(cycle));
        let confirmed = mark.confirmed + 1 >= self.look.confirmations;
        if let (Sentence::End { reason, lasted, allowed }, true) = (next, confirmed) {
            judged.report.next.push(Item::of(&later, mark, reason, lasted, allowed));
        }
    }
}
