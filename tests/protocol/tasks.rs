//! What wardens do that nobody waits for: kills, looks, lists, leftovers, the collector, the rebuilding of a lost ledger.

use std::collections::BTreeSet;

use cubewarden::ids::{Generation, SandboxId};
use cubewarden::rules::colour::{Ceilings, Colour, colour};
use cubewarden::rules::delete::Shown;
use cubewarden::rules::entry::{Activity, Actor, Birth, Entry, Lease, Origin, Proof, State};
use cubewarden::rules::listing::{self, Answer, Missing};

use super::ledger::{Condemned, fresh};
use super::names::{self, names};
use super::setup::{Broken, CYCLE, Setup};
use super::world::{Life, Mark, N, Request, Sandbox, Step, Task, Trust, World, at, tick_of};

impl World {
    /// Tries to kill what is condemned.
    pub(super) fn kill(&mut self, w: usize, n: N) {
        let condemned = self.ledger.entries.get(&n).filter(|entry| entry.kill().is_some()).cloned();
        if let Some(before) = condemned
            && !self.wardens[w].doing.contains_key(&Task::Kill(n))
        {
            self.wardens[w].doing.insert(Task::Kill(n), Step::Strike(before));
            self.send((w, Task::Kill(n)), Request::Delete(n));
        }
    }

    /// Whether somebody must look at it by now.
    pub(super) fn is_due(&self, n: N) -> bool {
        self.ledger.entries.get(&n).and_then(|entry| entry.due).is_some_and(|due| due <= self.time())
    }

    /// Whether the time of a create, or of a claim on a found one, is over, or its warden is dead.
    pub(super) fn is_overdue(&self, setup: &Setup, n: N) -> bool {
        let Some(entry) = self.ledger.entries.get(&n) else { return false };
        let dead = || !self.wardens.iter().any(|warden| instance(warden.instance) == entry.instance);
        match entry.state {
            _ if setup.is(Broken::LeftoversStay) => false,
            State::Reserved | State::Dispatched => self.is_due(n) || dead(),
            State::Live(_) => entry.claim_until.is_some_and(|until| until <= self.time()),
            _ => false,
        }
    }

    pub(super) fn take_over(&mut self, setup: &Setup, w: usize, n: N) {
        let (now, timing) = (self.time(), setup.timing());
        match self.ledger.entries.get(&n).map(|entry| &entry.state) {
            Some(State::Reserved) => {
                self.ledger.apply(n, |entry| entry.lapse(now, &timing));
            }
            Some(State::Dispatched) => {
                self.ledger.apply(n, |entry| entry.lose(now));
            }
            Some(State::Live(_)) => self.end_unclaimed(setup, w, n),
            _ => {}
        }
    }

    fn end_unclaimed(&mut self, setup: &Setup, w: usize, n: N) {
        if self.condemn(setup, n, (Actor::Recovery, None), &Shown::nothing()) == Condemned::Yes {
            self.kill(w, n);
        }
    }

    /// Whether a look at a living one is due.
    pub(super) fn may_look(&self, n: N) -> bool {
        self.is_due(n) && self.ledger.entries.get(&n).is_some_and(|entry| entry.usable())
    }

    /// Asks Cube about one by GET.
    pub(super) fn look(&mut self, w: usize, n: N, denied: bool) {
        if denied {
            self.luck.lies -= 1;
        }
        let life =
            self.cube.get(&n).filter(|sandbox| sandbox.exists() && !denied).map(|sandbox| sandbox.life);
        self.wardens[w].doing.insert(Task::Look(n), Step::Saw { began: self.now, life });
    }

    /// Writes down what a look has seen.
    pub(super) fn looked(&mut self, setup: &Setup, n: N, began: u64, life: Option<Life>) {
        match life.map(|life| activity(life, began)) {
            Some(activity) => self.asked(setup, n, activity, at(began)),
            None => self.not_found(setup, n),
        }
    }

    /// Whether a list could tell anything.
    pub(super) fn may_list(&self) -> bool {
        let entries = &self.ledger.entries;
        let lost = entries
            .iter()
            .any(|(n, entry)| matches!(entry.state, State::Ambiguous { .. }) && self.is_due(*n));
        let unknown = self.existing().iter().any(|n| !self.ledger.slots.contains(n));
        let could_lie = self.luck.lies > 0 && entries.values().any(|entry| entry.usable());
        lost || unknown || could_lie
    }

    /// Reads Cube's list, which may leave one out.
    pub(super) fn list(&mut self, w: usize, left_out: Option<N>) {
        let mut shown = self.existing();
        if let Some(n) = left_out {
            shown.remove(&n);
            self.luck.lies -= 1;
        }
        self.wardens[w].doing.insert(Task::List, Step::Listed { began: self.now, shown });
    }

    /// Draws what can be drawn from a list.
    pub(super) fn listed(&mut self, setup: &Setup, w: usize, began: u64, shown: &BTreeSet<N>) {
        for n in shown {
            self.compare(setup, *n, began);
        }
        if setup.is(Broken::AbsenceFrees) {
            self.free_the_absent(setup, shown);
        }
        let missing = self.ask_the_vanished(setup, began, shown);
        let drop = listing::Drop { floor: 10, percent: 20 };
        let verdict = listing::verdict(&as_shown(&self.wardens[w].trusted), &as_shown(shown), &missing, drop);
        if verdict.is_trusted() {
            self.wardens[w].trusted.clone_from(shown);
        }
        let (now, timing) = (self.time(), setup.timing());
        for n in self.numbers() {
            let counts = verdict.is_trusted() && !shown.contains(&n);
            self.ledger.apply(n, |entry| {
                if counts && entry.dispatched.is_none_or(|dispatched| dispatched <= at(began)) {
                    entry.missed(now, &timing)
                } else {
                    entry.search_failed(now, &timing)
                }
            });
        }
    }

    pub(super) fn numbers(&self) -> Vec<N> {
        self.ledger.entries.keys().copied().collect()
    }

    /// What the list shows, against the ledger: the lost are found, the dead rise, the unknown get a record.
    fn compare(&mut self, setup: &Setup, n: N, began: u64) {
        let (now, timing) = (self.time(), setup.timing());
        let Some(sandbox) = self.cube.get(&n).copied() else { return };
        match self.ledger.entry(n).map(|entry| entry.state) {
            None if self.ledger.trust == Trust::Whole => {}
            None => self.import(setup, n, sandbox),
            Some(State::Ambiguous { .. }) => {
                let birth =
                    Birth { sandbox: names::sandbox(n), answer: None, deadline: Some(at(sandbox.ends)) };
                self.ledger.apply(n, |entry| entry.found(birth, now, &timing));
            }
            Some(State::Gone { at: when, .. }) if when < at(began) => self.raise(n, sandbox),
            Some(State::Refused) if self.ledger.entries[&n].last_sign < at(began) => self.raise(n, sandbox),
            Some(State::Live(_)) => {
                let seen = activity(sandbox.life, began);
                self.ledger.apply(n, |entry| Ok(entry.seen(seen, at(began), now)));
            }
            Some(_) => {}
        }
    }

    fn raise(&mut self, n: N, sandbox: Sandbox) {
        let now = self.time();
        if sandbox.exists() {
            self.ledger.apply(n, |entry| entry.resurrect(names::sandbox(n), now));
        }
    }

    /// A record for what has none: whoever held it is unproven.
    fn import(&mut self, setup: &Setup, n: N, sandbox: Sandbox) {
        if !sandbox.exists() {
            return;
        }
        let now = self.time();
        let entry = fresh(n, 0, Generation(now.0), None, now);
        self.ledger.put(
            n,
            Entry {
                origin: Origin::Imported,
                holders: if setup.is(Broken::RebuiltIsProven) { 1 } else { 2 },
                sandbox: Some(names::sandbox(n)),
                first_seen: Some(now),
                deadline: Some(at(sandbox.ends)),
                state: State::Live(activity(sandbox.life, self.now)),
                due: Some(at(sandbox.ends.max(self.now))),
                ..entry
            },
        );
    }

    fn ask_the_vanished(&mut self, setup: &Setup, began: u64, shown: &BTreeSet<N>) -> Vec<Missing> {
        let mut missing = Vec::new();
        for n in self.numbers() {
            let entry = &self.ledger.entries[&n];
            let known = entry.usable() && entry.first_seen.is_some_and(|seen| seen < at(began));
            if !known || shown.contains(&n) {
                continue;
            }
            let life = self.cube.get(&n).filter(|sandbox| sandbox.exists()).map(|sandbox| sandbox.life);
            self.looked(setup, n, self.now, life);
            let gone = !self.ledger.slots.contains(&n);
            let answer = match life {
                Some(_) => Answer::Here,
                None if gone => Answer::Gone,
                None => Answer::Unclear,
            };
            missing.push(Missing { sandbox: names::sandbox(n), answer: Some(answer) });
        }
        missing
    }

    fn free_the_absent(&mut self, setup: &Setup, shown: &BTreeSet<N>) {
        let (now, timing) = (self.time(), setup.timing());
        for n in self.numbers().into_iter().filter(|n| !shown.contains(n)) {
            self.ledger.apply(n, |entry| entry.absent(Proof::GetNotFound, now, &timing));
        }
    }

    fn is_rootless(&self, setup: &Setup, n: N) -> bool {
        let Some(entry) = self.ledger.entries.get(&n) else { return false };
        let seen = colour(entry, self.time(), &setup.timing(), Ceilings::default());
        entry.usable() && matches!(seen, Colour::Grey(_))
    }

    fn judges(&self) -> bool {
        match self.ledger.trust {
            Trust::Whole => true,
            Trust::Lost(_) => false,
            Trust::Rebuilt(tick) => self.now >= tick + CYCLE,
        }
    }

    fn mark_stands(&self, n: N, mark: Mark) -> bool {
        let entry = &self.ledger.entries[&n];
        entry.incarnation == mark.incarnation && entry.last_sign <= mark.marked
    }

    /// Whether a collector's first look finds it without a root.
    pub(super) fn may_mark(&self, setup: &Setup, n: N) -> bool {
        let marked = || self.ledger.marks.get(&n).is_some_and(|mark| self.mark_stands(n, *mark));
        self.judges() && self.exists(n) && self.is_rootless(setup, n) && !marked()
    }

    pub(super) fn mark(&mut self, setup: &Setup, w: usize, n: N) {
        let mark = Mark { incarnation: self.ledger.entries[&n].incarnation, marked: self.time() };
        if setup.is(Broken::OneLook) {
            self.wardens[w].doing.insert(Task::Collect(n), Step::Sure(mark));
        } else {
            self.ledger.marks.insert(n, mark);
        }
    }

    /// Whether the second look, and a fresh GET, find the same.
    pub(super) fn may_plan(&self, setup: &Setup, n: N) -> bool {
        let Some(mark) = self.ledger.marks.get(&n) else { return false };
        let later = self.now >= tick_of(mark.marked) + CYCLE;
        later && self.judges() && self.exists(n) && self.is_rootless(setup, n) && self.mark_stands(n, *mark)
    }

    pub(super) fn plan(&mut self, w: usize, n: N) {
        if let Some(mark) = self.ledger.marks.remove(&n) {
            self.wardens[w].doing.insert(Task::Collect(n), Step::Sure(mark));
        }
    }

    /// Carries a plan out, however old it is by now.
    pub(super) fn collect(&mut self, setup: &Setup, w: usize, n: N, mark: Mark) {
        let shown = Shown { judged: Some(mark.judged()), ..Shown::nothing() };
        if self.condemn(setup, n, (Actor::Collector, None), &shown) == Condemned::Yes {
            self.kill(w, n);
        }
    }

    /// The ledger is empty from one moment to the next.
    pub(super) fn lose_ledger(&mut self) {
        self.luck.lost_ledgers -= 1;
        self.ledger = super::world::Ledger { trust: Trust::Lost(self.now), ..Default::default() };
    }

    /// From Cube's list, and from what the wardens still know they have sent.
    pub(super) fn rebuild(&mut self, setup: &Setup) {
        self.ledger.trust = Trust::Rebuilt(self.now);
        let (now, timing) = (self.time(), setup.timing());
        for (n, sandbox) in self.cube.clone() {
            self.import(setup, n, sandbox);
        }
        for warden in self.wardens.clone() {
            let sent = |(task, step): (&Task, &Step)| match (task, step) {
                (Task::Wish(i), Step::Await(n)) if i == n => Some(*n),
                _ => None,
            };
            for n in warden.doing.iter().filter_map(sent) {
                if !self.ledger.entries.contains_key(&n) {
                    let lease = setup.reuse.map(|keeper| Lease::new(names::lease(n), keeper, None, now));
                    self.ledger.put(n, fresh(n, warden.instance, Generation(now.0), lease, now));
                    self.ledger.apply(n, |entry| entry.dispatch(now, &timing));
                }
            }
        }
    }
}

fn instance(number: u8) -> cubewarden::ids::InstanceId {
    names().instances[usize::from(number)].clone()
}

fn activity(life: Life, since: u64) -> Activity {
    if life == Life::Paused { Activity::Paused(at(since)) } else { Activity::Running }
}

fn as_shown(numbers: &BTreeSet<N>) -> listing::Shown {
    numbers.iter().map(|n| -> (SandboxId, Option<String>) { (names::sandbox(*n), None) }).collect()
}
