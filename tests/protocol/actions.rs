//! What may happen next, and what comes of it.

use super::cube::Whim;
use super::setup::{FLIGHT, Setup};
use super::world::{Answer, Cargo, Message, N, Request, Step, Task, Trust, World};

/// The warden that does what either could do: two would only double what is seen.
const KEEPER: usize = 1;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A period passes.
    Tick,
    /// A client begins.
    Begin(u8),
    /// A warden takes its next step.
    GoOn(usize, Task),
    /// A request arrives at Cube.
    Arrive(Message, Request, Whim),
    /// An answer arrives at its warden.
    Return(Message, Answer),
    /// A warden waits no longer for the answer to this.
    TimeOut(Message),
    /// A request that nobody waits for is lost.
    Drop(Message),
    /// A DELETE will arrive twice.
    Duplicate(Message),
    Crash(usize),
    /// Cube ends or pauses it by itself.
    Expire(N),
    TakeOver(N),
    Kill(N),
    Look(N, Denied),
    List(Option<N>),
    Mark(N),
    Plan(N),
    LoseLedger,
    Rebuild,
}

/// Whether Cube says that it does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    No,
    Yes,
}

impl World {
    /// Everything that may happen now.
    pub(super) fn possible(&self, setup: &Setup, actions: &mut Vec<Action>) {
        if self.now < setup.last && !self.holds_the_clock() {
            actions.push(Action::Tick);
        }
        let wishes = (0..setup.wishes.len()).filter(|i| self.may_begin(setup, *i));
        actions.extend(wishes.filter_map(|i| u8::try_from(i).ok()).map(Action::Begin));
        for (w, warden) in self.wardens.iter().enumerate() {
            let going = warden.doing.iter().filter(|(_, step)| self.may_go_on(step));
            actions.extend(going.map(|(task, _)| Action::GoOn(w, *task)));
            if self.luck.crashes > 0 && !warden.doing.is_empty() {
                actions.push(Action::Crash(w));
            }
        }
        self.wire.iter().for_each(|message| self.on_the_wire(*message, actions));
        actions.extend(self.cube.keys().filter(|n| self.expires(setup, **n)).map(|n| Action::Expire(*n)));
        self.for_the_keeper(setup, actions);
        if let Some(w) = setup.collector {
            let free = |n: &N| !self.wardens[w].doing.contains_key(&Task::Collect(*n));
            let numbers = || self.numbers().into_iter().filter(free);
            actions.extend(numbers().filter(|n| self.may_mark(setup, *n)).map(Action::Mark));
            actions.extend(numbers().filter(|n| self.may_plan(setup, *n)).map(Action::Plan));
        }
        match self.ledger.trust {
            Trust::Lost(tick) if tick < self.now => actions.push(Action::Rebuild),
            Trust::Whole if self.luck.lost_ledgers > 0 && !self.ledger.entries.is_empty() => {
                actions.push(Action::LoseLedger);
            }
            _ => {}
        }
    }

    /// A request arrives in time or never; what was seen of a sandbox is written down while it is fresh. The answer to a
    /// create or another call may stay with a warden that is slow for as long as it likes.
    fn holds_the_clock(&self) -> bool {
        let late = |message: &Message| {
            let must =
                matches!((message.cargo, message.by), (Cargo::Request(_), _) | (_, Some((_, Task::Kill(_)))));
            must && message.sent + FLIGHT <= self.now
        };
        let stale = |step: &Step| matches!(step, Step::Saw { began, .. } if began + FLIGHT <= self.now);
        self.wire.iter().any(late) || self.wardens.iter().any(|warden| warden.doing.values().any(stale))
    }

    fn on_the_wire(&self, message: Message, actions: &mut Vec<Action>) {
        match message.cargo {
            Cargo::Request(request) => {
                let whims = self.whims(request).into_iter();
                actions.extend(whims.map(|whim| Action::Arrive(message, request, whim)));
                if message.by.is_none() {
                    actions.push(Action::Drop(message));
                }
                if self.luck.duplicates > 0 && matches!(request, Request::Delete(_)) {
                    actions.push(Action::Duplicate(message));
                }
            }
            Cargo::Answer(answer) => actions.push(Action::Return(message, answer)),
        }
        if self.luck.timeouts > 0 && message.by.is_some() {
            actions.push(Action::TimeOut(message));
        }
    }

    fn for_the_keeper(&self, setup: &Setup, actions: &mut Vec<Action>) {
        if matches!(self.ledger.trust, Trust::Lost(_)) {
            return;
        }
        let doing = &self.wardens[KEEPER].doing;
        for n in self.numbers() {
            let condemned = self.ledger.entries[&n].kill().is_some() && self.is_due(n);
            if self.is_overdue(setup, n) {
                actions.push(Action::TakeOver(n));
            } else if condemned && !doing.contains_key(&Task::Kill(n)) {
                actions.push(Action::Kill(n));
            } else if self.may_look(n) && !doing.contains_key(&Task::Look(n)) {
                actions.push(Action::Look(n, Denied::No));
                if self.luck.lies > 0 && self.deniable(n) {
                    actions.push(Action::Look(n, Denied::Yes));
                }
            }
        }
        if self.may_list() && !doing.contains_key(&Task::List) {
            actions.push(Action::List(None));
            if self.luck.lies > 0 {
                actions.extend(self.existing().into_iter().map(|n| Action::List(Some(n))));
            }
        }
    }

    /// What comes of it.
    pub(super) fn happen(&mut self, setup: &Setup, action: Action) {
        match action {
            Action::Tick => self.now += 1,
            Action::Begin(i) => self.begin(setup, i),
            Action::GoOn(w, task) => self.goes_on(setup, w, task),
            Action::Arrive(message, request, whim) => self.carry(message, request, whim),
            Action::Return(message, answer) => {
                self.wire.remove(&message);
                self.hears(setup, message, answer);
            }
            Action::TimeOut(message) => {
                self.luck.timeouts -= 1;
                self.orphan(message);
                self.hears(setup, message, Answer::Unknown);
            }
            Action::Drop(message) => {
                self.wire.remove(&message);
            }
            Action::Duplicate(message) => {
                self.luck.duplicates -= 1;
                self.wire.insert(Message { by: None, ..message });
            }
            Action::Crash(w) => {
                self.luck.crashes -= 1;
                self.crash(w);
            }
            Action::Expire(n) => self.expire(setup, n),
            Action::TakeOver(n) => self.take_over(setup, KEEPER, n),
            Action::Kill(n) => self.kill(KEEPER, n),
            Action::Look(n, denied) => self.look(KEEPER, n, denied == Denied::Yes),
            Action::List(left_out) => self.list(KEEPER, left_out),
            Action::Mark(n) => self.mark(setup, setup.collector.unwrap_or(KEEPER), n),
            Action::Plan(n) => self.plan(setup.collector.unwrap_or(KEEPER), n),
            Action::LoseLedger => self.lose_ledger(),
            Action::Rebuild => self.rebuild(setup),
        }
    }

    fn goes_on(&mut self, setup: &Setup, w: usize, task: Task) {
        let Some(step) = self.wardens[w].doing.get(&task).cloned() else { return };
        match (task, step) {
            (Task::Wish(i), step) => self.go_on(setup, w, i, step),
            (task, step) => {
                self.wardens[w].doing.remove(&task);
                match (task, step) {
                    (Task::List, Step::Listed { began, shown }) => self.listed(setup, w, began, &shown),
                    (Task::Look(n), Step::Saw { began, life }) => self.looked(setup, n, began, life),
                    (Task::Collect(n), Step::Sure(mark)) => self.collect(setup, w, n, mark),
                    _ => {}
                }
            }
        }
    }

    fn hears(&mut self, setup: &Setup, message: Message, answer: Answer) {
        match message.by {
            Some((w, Task::Wish(i))) => self.told(setup, w, i, answer),
            Some((w, Task::Kill(n))) => self.killed(setup, w, n, answer),
            _ => {}
        }
    }

    /// Nobody waits for it any longer: a request may arrive all the same, an answer is nobody's.
    fn orphan(&mut self, message: Message) {
        self.wire.remove(&message);
        if let Cargo::Request(_) = message.cargo {
            self.wire.insert(Message { by: None, ..message });
        }
    }

    /// Its memory is gone, its requests are not; it comes back as another.
    pub(super) fn crash(&mut self, w: usize) {
        let its = |message: &&Message| message.by.is_some_and(|(other, _)| other == w);
        for message in self.wire.iter().filter(its).copied().collect::<Vec<_>>() {
            self.orphan(message);
        }
        for (task, _) in std::mem::take(&mut self.wardens[w].doing) {
            if let Task::Wish(i) = task {
                self.wishes[usize::from(i)] = super::world::Stage::Over;
            }
        }
        self.wardens[w].trusted.clear();
        self.wardens[w].instance += 2;
    }
}
