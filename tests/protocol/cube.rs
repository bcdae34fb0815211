//! Cube, and what carries requests to it: late, twice, or not at all; it may leave out, deny, and wake what it deleted.

use super::setup::{AtItsEnd, LENGTH, Setup};
use super::world::{Answer, Breach, Cargo, Life, Message, N, Request, Sandbox, World};

/// How Cube takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whim {
    /// As it should.
    Honest,
    /// A create is refused.
    Refuses,
    /// It does not know yet what it has just made.
    Denies,
    /// A call that was under way wakes what was deleted meanwhile.
    Revives,
}

impl World {
    /// The whims that a request may meet.
    pub(super) fn whims(&self, request: Request) -> Vec<Whim> {
        let lies = self.luck.lies > 0;
        let whim = match request {
            Request::Create(_) => (self.luck.refusals > 0).then_some(Whim::Refuses),
            Request::Connect(n) => (lies && self.life(n) == Some(Life::Deleted)).then_some(Whim::Revives),
            Request::Delete(n) => (lies && self.deniable(n)).then_some(Whim::Denies),
            Request::Pause(_) => None,
        };
        std::iter::once(Whim::Honest).chain(whim).collect()
    }

    fn life(&self, n: N) -> Option<Life> {
        self.cube.get(&n).map(|sandbox| sandbox.life)
    }

    /// Whether Cube may not know it yet.
    pub(super) fn deniable(&self, n: N) -> bool {
        self.cube.get(&n).is_some_and(|sandbox| sandbox.exists() && sandbox.born == self.now)
    }

    /// Whether a call that touches it is on its way to Cube.
    pub(super) fn touched(&self, n: N) -> bool {
        let touches = [Cargo::Request(Request::Connect(n)), Cargo::Request(Request::Pause(n))];
        self.wire.iter().any(|message| touches.contains(&message.cargo))
    }

    /// A request arrives at Cube, which acts and answers.
    pub(super) fn carry(&mut self, message: Message, request: Request, whim: Whim) {
        self.wire.remove(&message);
        let answer = self.carried_out(request, whim);
        if message.by.is_some() {
            self.wire.insert(Message { sent: self.now, cargo: Cargo::Answer(answer), ..message });
        }
    }

    fn carried_out(&mut self, request: Request, whim: Whim) -> Answer {
        match whim {
            Whim::Refuses => {
                self.luck.refusals -= 1;
                return Answer::Refused;
            }
            Whim::Denies => {
                self.luck.lies -= 1;
                return Answer::NotFound;
            }
            Whim::Revives => self.luck.lies -= 1,
            Whim::Honest => {}
        }
        let ends = self.now + LENGTH;
        match request {
            Request::Create(n) => {
                self.cube.insert(n, Sandbox { life: Life::Running, born: self.now, ends });
                Answer::Done
            }
            Request::Connect(n) => self.shaped(n, whim == Whim::Revives, |sandbox| {
                (sandbox.life, sandbox.ends) = (Life::Running, ends);
            }),
            Request::Pause(n) => self.shaped(n, false, |sandbox| sandbox.life = Life::Paused),
            Request::Delete(n) => {
                let meant =
                    self.ledger.entry(n).is_some_and(|entry| entry.kill().is_some() || !entry.charged());
                if !(meant || self.was_lost()) && self.exists(n) {
                    self.breached(Breach::KilledWithoutIntent);
                }
                self.shaped(n, false, |sandbox| sandbox.life = Life::Deleted)
            }
        }
    }

    fn shaped(&mut self, n: N, even_dead: bool, shape: impl FnOnce(&mut Sandbox)) -> Answer {
        match self.cube.get_mut(&n).filter(|sandbox| sandbox.exists() || even_dead) {
            Some(sandbox) => {
                shape(sandbox);
                Answer::Done
            }
            None => Answer::NotFound,
        }
    }

    /// Whether Cube itself may end or pause it now.
    pub(super) fn expires(&self, setup: &Setup, n: N) -> bool {
        let Some(sandbox) = self.cube.get(&n) else { return false };
        let past = sandbox.ends <= self.now;
        match setup.at_its_end {
            AtItsEnd::Nothing => false,
            AtItsEnd::Pauses => past && sandbox.life == Life::Running,
            AtItsEnd::Kills => past && sandbox.exists(),
        }
    }

    pub(super) fn expire(&mut self, setup: &Setup, n: N) {
        let life = if setup.at_its_end == AtItsEnd::Kills { Life::Ended } else { Life::Paused };
        self.shaped(n, false, |sandbox| sandbox.life = life);
    }
}
