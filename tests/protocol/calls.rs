//! The clients' calls, step by step, as `src/calls` makes them.

use cubewarden::rules::delete::{self, Decision, Reach, Shown};
use cubewarden::rules::entry::{Actor, Birth, Effect, Entry, Lease, Operation, Proof};

use super::ledger::{Condemned, Report, Reserved};
use super::names;
use super::setup::{Broken, Client, Id, LENGTH, OPERATION, Setup, Wish};
use super::world::{Answer, Breach, Grip, N, Request, Stage, Step, Task, Trust, World, at};

/// What a client shows.
fn shown(id: Id, grip: Grip) -> Shown {
    match id {
        Id::Qualified => Shown::of_generation(Some(grip.generation)),
        Id::Bare => Shown::nothing(),
    }
}

impl World {
    /// Whether a client can begin wish `i`.
    pub(super) fn may_begin(&self, setup: &Setup, i: usize) -> bool {
        let client = setup.wishes[i].0;
        let makes = matches!(setup.wishes[i].2, Wish::Create | Wish::CreateAndLeave);
        self.wishes[i] == Stage::Open && (makes || self.grips.contains_key(&client))
    }

    pub(super) fn begin(&mut self, setup: &Setup, i: u8) {
        let asked = setup.wishes[usize::from(i)];
        let (client, w, grip) = (asked.0, asked.1, self.grips.get(&asked.0).copied());
        self.wishes[usize::from(i)] = Stage::Begun;
        match (asked.2, grip) {
            (Wish::Create | Wish::CreateAndLeave, _) => {
                let room = setup.is(Broken::CountThenTake) && self.has_room(setup);
                let first =
                    if setup.reuse.is_some() { Step::Ask } else { Step::Reserve { held: None, room } };
                self.wardens[w].doing.insert(Task::Wish(i), first);
            }
            (Wish::Connect(id), Some(grip)) => {
                if self.touch(setup, (w, i), grip.n, Reach::Joins, &shown(id, grip)).is_err() {
                    self.over(w, i);
                }
            }
            (Wish::Pause(id), Some(grip)) => {
                if self.touch(setup, (w, i), grip.n, Reach::Interrupts, &shown(id, grip)).is_err() {
                    self.over(w, i);
                } else if self.ghosts.get(&grip.n).is_some_and(|ghost| ghost.holder != Some(client)) {
                    self.breached(Breach::SuccessorHit);
                }
            }
            (Wish::Delete(id), Some(grip)) => {
                match self.condemn(setup, grip.n, (Actor::Client, Some(client)), &shown(id, grip)) {
                    Condemned::Yes => self.kill(w, grip.n),
                    Condemned::Unproven => self.drop_claim(setup, grip.n),
                    Condemned::No => {}
                }
                self.over(w, i);
            }
            (Wish::Release, Some(grip)) => {
                self.release(setup, client, grip);
                self.over(w, i);
            }
            (Wish::Beat, Some(grip)) => {
                let now = self.time();
                if self.held_by(grip) && self.ledger.apply(grip.n, |entry| entry.beat(now)) {
                    let ghost = self.ghosts.entry(grip.n).or_default();
                    ghost.sign = self.now;
                }
                self.over(w, i);
            }
            (_, None) => self.over(w, i),
        }
    }

    fn over(&mut self, w: usize, i: u8) {
        self.wardens[w].doing.remove(&Task::Wish(i));
        self.wishes[usize::from(i)] = Stage::Over;
    }

    /// Whether the lease of this grip is what its owner holds.
    fn held_by(&self, grip: Grip) -> bool {
        let Some(lease) = grip.lease.map(names::lease) else { return false };
        let holds = |entry: &Entry| entry.lease.as_ref().is_some_and(|held| held.id == lease);
        let named = self.ledger.holding.is_some_and(|(n, _)| n == grip.n);
        named
            && !self.ledger.sealed.contains(&lease)
            && self.ledger.entry(grip.n).is_some_and(|entry| holds(&entry))
    }

    fn release(&mut self, setup: &Setup, client: Client, grip: Grip) {
        let shown = Shown { lease: grip.lease.map(names::lease), ..Shown::nothing() };
        if self.held_by(grip)
            && self.condemn(setup, grip.n, (Actor::Holder, Some(client)), &shown) == Condemned::Yes
            && setup.is(Broken::ReleaseFreesAtOnce)
        {
            self.ledger.slots.remove(&grip.n);
        }
    }

    /// Registers a call that touches `n`, and sends it.
    fn touch(
        &mut self,
        setup: &Setup,
        (w, i): (usize, u8),
        n: N,
        reach: Reach,
        shown: &Shown,
    ) -> Result<(), Decision> {
        let now = self.time();
        let entry = self.ledger.entry(n).ok_or(Decision::NotFound)?;
        let decided = delete::may_touch(reach, shown, &entry, now, &setup.timing());
        if matches!(decided, Decision::Fenced | Decision::Unproven) {
            return Err(decided);
        }
        let operation =
            Operation { id: names::operation(i), kind: String::new(), until: now.plus(OPERATION) };
        if !self.ledger.apply(n, |entry| entry.begin(operation, now)) {
            return Err(Decision::NotFound);
        }
        let pauses = reach == Reach::Interrupts;
        self.send((w, Task::Wish(i)), if pauses { Request::Pause(n) } else { Request::Connect(n) });
        self.wardens[w].doing.insert(Task::Wish(i), Step::Await(n));
        Ok(())
    }

    /// Whether a step of a create need not wait for anybody.
    pub(super) fn may_go_on(&self, step: &Step) -> bool {
        let on_its_way = || {
            let held = self.ledger.holding.and_then(|(n, _)| self.ledger.entry(n));
            held.is_some_and(|entry| entry.charged() && !entry.usable() && entry.kill().is_none())
        };
        match step {
            Step::Ask => !on_its_way(),
            Step::Await(_) | Step::Strike(_) => false,
            _ => true,
        }
    }

    /// The next step of the create `i`.
    #[expect(clippy::needless_pass_by_value, reason = "a step is used up by what follows it")]
    pub(super) fn go_on(&mut self, setup: &Setup, w: usize, i: u8, step: Step) {
        let next = match step {
            Step::Ask => self.ask(setup, i),
            Step::Reserve { held, room } => match self.reserve(setup, (w, i), held, room) {
                Reserved::Slot => Some(Step::Dispatch),
                Reserved::Full => None,
                Reserved::Taken => Some(Step::Ask),
            },
            Step::Dispatch => {
                let (now, timing) = (self.time(), setup.timing());
                let sent = self.ledger.apply(i, |entry| entry.dispatch(now, &timing));
                if sent {
                    self.send((w, Task::Wish(i)), Request::Create(i));
                }
                sent.then_some(Step::Await(i))
            }
            Step::Take(n) => self.take(setup, i, n),
            Step::Wake(n, generation) => {
                let shown = Shown::of_generation(Some(generation));
                match self.touch(setup, (w, i), n, Reach::Joins, &shown) {
                    Ok(()) => return,
                    Err(Decision::NotFound) => Some(Step::Ask),
                    Err(_) => None,
                }
            }
            Step::Await(_) | Step::Strike(_) | Step::Listed { .. } | Step::Saw { .. } | Step::Sure(_) => {
                return;
            }
        };
        match next {
            Some(next) => {
                self.wardens[w].doing.insert(Task::Wish(i), next);
            }
            None => self.over(w, i),
        }
    }

    /// What the owner holds; `None`: nothing can be said or given.
    fn ask(&self, setup: &Setup, i: u8) -> Option<Step> {
        let lost = matches!(self.ledger.trust, Trust::Lost(_));
        if lost || self.ledger.sealed.contains(&names::lease(i)) {
            return None;
        }
        let room = setup.is(Broken::CountThenTake) && self.has_room(setup);
        let held = self.ledger.holding;
        let living = held.filter(|(n, _)| self.ledger.entry(*n).is_some_and(|entry| entry.usable()));
        Some(living.map_or(Step::Reserve { held, room }, |(n, _)| Step::Take(n)))
    }

    /// The owner's living sandbox goes to whoever asks now.
    fn take(&mut self, setup: &Setup, i: u8, n: N) -> Option<Step> {
        let (now, timing) = (self.time(), setup.timing());
        let keeper = setup.reuse?;
        let lease = names::lease(i);
        if self.ledger.sealed.contains(&lease) {
            return None;
        }
        let Some(entry) = self.ledger.entry(n) else { return Some(Step::Ask) };
        let before = entry.generation;
        let Ok(acquired) = entry.acquire(Lease::new(lease, keeper, None, now), now, &timing) else {
            return Some(Step::Ask);
        };
        let mut entry = acquired.entry;
        if setup.is(Broken::ReuseKeepsGeneration) {
            entry.generation = before;
        }
        let generation = entry.generation;
        self.ledger.put(n, entry);
        let sign = self.now;
        let ghost = self.ghosts.entry(n).or_default();
        (ghost.holder, ghost.sign) = (Some(setup.wishes[usize::from(i)].0), sign);
        Some(Step::Wake(n, generation))
    }

    /// The answer to what wish `i` has sent.
    pub(super) fn told(&mut self, setup: &Setup, w: usize, i: u8, answer: Answer) {
        let Some(Step::Await(n)) = self.wardens[w].doing.get(&Task::Wish(i)).cloned() else { return };
        self.over(w, i);
        let client = setup.wishes[usize::from(i)].0;
        match setup.wishes[usize::from(i)].2 {
            Wish::Create | Wish::CreateAndLeave if n == i => self.settle_create(setup, client, i, answer),
            Wish::Create => {
                if self.settle_touch(setup, i, n, answer, false) {
                    self.give(client, n, Some(i));
                }
            }
            Wish::Pause(_) => {
                self.settle_touch(setup, i, n, answer, true);
            }
            _ => {
                if self.settle_touch(setup, i, n, answer, false) {
                    self.promise(client, n);
                }
            }
        }
    }

    fn settle_create(&mut self, setup: &Setup, client: Client, i: u8, answer: Answer) {
        let (now, timing) = (self.time(), setup.timing());
        match answer {
            Answer::Done => {
                let birth =
                    Birth { sandbox: names::sandbox(i), answer: None, deadline: Some(at(self.now + LENGTH)) };
                let lease = setup.reuse.map(|_| names::lease(i));
                let leaves = setup.wishes[usize::from(i)].2 == Wish::CreateAndLeave;
                let born = self.ledger.apply(i, |entry| {
                    let born = entry.answered(birth, lease.as_ref(), now, &timing)?;
                    if leaves { born.condemn(Actor::Abandoned, now) } else { Ok(born) }
                });
                if born && !leaves {
                    self.give(client, i, setup.reuse.is_some().then_some(i));
                }
            }
            Answer::Refused | Answer::NotFound => {
                self.ledger.apply(i, |entry| entry.refuse(now, &timing));
            }
            Answer::Unknown if setup.is(Broken::LostAnswerFrees) => {
                self.ledger.apply(i, |entry| entry.refuse(now, &timing));
            }
            Answer::Unknown => {
                self.ledger.apply(i, |entry| entry.lose(now));
            }
        }
    }

    /// True if the caller may go on using it.
    fn settle_touch(&mut self, setup: &Setup, i: u8, n: N, answer: Answer, pauses: bool) -> bool {
        let (now, timing) = (self.time(), setup.timing());
        let effect = match answer {
            // The registration lapses by itself.
            Answer::Unknown => return false,
            Answer::Done if pauses => Effect::Paused,
            Answer::Done => Effect::RunningUntil(Some(at(self.now + LENGTH))),
            Answer::NotFound | Answer::Refused => Effect::None,
        };
        self.ledger.apply(n, |entry| Ok(entry.end(&names::operation(i), effect, now, &timing)));
        if answer == Answer::NotFound && !self.exists(n) {
            self.not_found(setup, n);
        }
        answer == Answer::Done && self.ledger.entry(n).is_some_and(|entry| entry.usable())
    }

    /// The client has it from now on.
    fn give(&mut self, client: Client, n: N, lease: Option<u8>) {
        let Some(generation) = self.ledger.entry(n).map(|entry| entry.generation) else { return };
        self.promise(client, n);
        self.grips.insert(client, Grip { n, generation, lease });
    }

    /// The client is told until when it has it.
    fn promise(&mut self, client: Client, n: N) {
        let now = self.now;
        let ghost = self.ghosts.entry(n).or_default();
        ghost.holder.get_or_insert(client);
        (ghost.given, ghost.until, ghost.sign) = (true, now + LENGTH, now);
    }

    /// The answer to a DELETE of ours.
    pub(super) fn killed(&mut self, setup: &Setup, w: usize, n: N, answer: Answer) {
        let Some(Step::Strike(before)) = self.wardens[w].doing.remove(&Task::Kill(n)) else { return };
        let report = match answer {
            Answer::Done => Report::Proof(Proof::Deleted),
            Answer::NotFound | Answer::Refused => Report::Proof(Proof::DeleteNotFound),
            // A GET says what became of it.
            Answer::Unknown if self.exists(n) => Report::Unclear,
            Answer::Unknown => Report::Proof(Proof::GetNotFound),
        };
        self.kill_tried(setup, n, &before, report);
    }
}
