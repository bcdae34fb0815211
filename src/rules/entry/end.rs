//! The end: condemned, killed, proven gone; and what happens to the dead who appear again.

use super::{Actor, Entry, Kill, KillFailure, Proof, State, Struck, Timing, Unfit};
use crate::ids::SandboxId;
use crate::time::UnixMillis;

impl Entry {
    /// live → killing: condemned. From here on there is no way back.
    ///
    /// # Errors
    /// [`Unfit::Busy`] if a call is under way and the actor is neither the holder nor an operator; [`Unfit::State`]
    /// unless live.
    pub fn condemn(mut self, actor: Actor, now: UnixMillis) -> Result<Self, Unfit> {
        if !self.usable() {
            return Err(self.unfit());
        }
        if self.busy(now) && actor.yields() {
            return Err(Unfit::Busy);
        }
        self.operations.retain(|other| other.until > now);
        self.state = State::Killing(Kill::new(actor, now));
        self.claim_until = None;
        self.due = Some(now);
        Ok(self)
    }

    /// gone, refused → killing: Cube shows the dead alive. It is charged and killed again.
    ///
    /// # Errors
    /// [`Unfit`] unless dead.
    pub fn resurrect(mut self, sandbox: SandboxId, now: UnixMillis) -> Result<Self, Unfit> {
        if self.charged() {
            return Err(self.unfit());
        }
        self.sandbox = Some(sandbox);
        self.first_seen.get_or_insert(now);
        self.state = State::Killing(Kill::new(Actor::Recovery, now));
        self.due = Some(now);
        Ok(self)
    }

    /// live, killing, quarantined → gone, if the proof holds: nothing in flight, and a 404 is believed only of what is
    /// not newborn (or whose deadline has passed).
    ///
    /// # Errors
    /// [`Unfit`] if the proof does not hold.
    pub fn absent(self, proof: Proof, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        let proof = match (&self.state, proof) {
            // These two prove something of what was never born.
            (_, Proof::NeverCame | Proof::NeverSent) => return Err(self.unfit()),
            (State::Killing(kill) | State::Quarantined(kill), _) if kill.struck == Struck::Surely => {
                Proof::Deleted
            }
            (State::Live(_) | State::Killing(_) | State::Quarantined(_), proof) => proof,
            _ => return Err(self.unfit()),
        };
        if self.busy(now) {
            return Err(Unfit::Busy);
        }
        if proof != Proof::Deleted && self.newborn(now, timing) {
            return Err(Unfit::Newborn);
        }
        // Proven as it was, and told as the end of the DELETE that went out.
        let struck = self.kill().is_some_and(|kill| kill.struck != Struck::Never);
        Ok(self.bury(if struck { Proof::Deleted } else { proof }, now, timing))
    }

    /// killing, quarantined → gone, by the proof of a try that began when the entry stood as `before`: a call that was under
    /// way then may have brought the sandbox back after its DELETE, also if it has ended since.
    ///
    /// # Errors
    /// [`Unfit`] if the proof does not hold.
    pub fn ended(self, before: &Self, proof: Proof, now: UnixMillis, timing: &Timing) -> Result<Self, Unfit> {
        if !before.operations.is_empty() && self.kill().is_some() {
            return Err(Unfit::Busy);
        }
        self.absent(proof, now, timing)
    }

    /// The intent to end it, as long as it is carried out.
    #[must_use]
    pub fn kill(&self) -> Option<&Kill> {
        match &self.state {
            State::Killing(kill) | State::Quarantined(kill) => Some(kill),
            _ => None,
        }
    }

    fn kill_mut(&mut self) -> Option<&mut Kill> {
        match &mut self.state {
            State::Killing(kill) | State::Quarantined(kill) => Some(kill),
            _ => None,
        }
    }

    /// Notes whether a DELETE of ours reached it; what is known stays known.
    #[must_use]
    pub fn struck(mut self, struck: Struck) -> Self {
        if let Some(kill) = self.kill_mut() {
            kill.struck = kill.struck.max(struck);
        }
        self
    }

    /// A client that asked for this end was sent away (or left) before it was told: its repeat is owed the 204.
    #[must_use]
    pub fn owe(mut self) -> Self {
        match &mut self.state {
            State::Killing(kill) | State::Quarantined(kill) => kill.owed = true,
            State::Gone { proof, owed, .. } => *owed = *proof == Proof::Deleted,
            _ => {}
        }
        self
    }

    /// A client that is owed this end asks again, and is told or waits for it. `None` if nothing is owed.
    #[must_use]
    pub fn repay(mut self) -> Option<Self> {
        let owed = match &mut self.state {
            State::Killing(kill) | State::Quarantined(kill) => &mut kill.owed,
            State::Gone { owed, .. } => owed,
            _ => return None,
        };
        std::mem::take(owed).then_some(self)
    }

    /// A try to kill it did not end in proof: again later, and quarantine after too many.
    ///
    /// # Errors
    /// [`Unfit`] unless killing or quarantined.
    pub fn kill_failed(
        mut self,
        failure: KillFailure,
        now: UnixMillis,
        timing: &Timing,
    ) -> Result<Self, Unfit> {
        let (mut kill, quarantined) = match self.state {
            State::Killing(ref kill) => (kill.clone(), false),
            State::Quarantined(ref kill) => (kill.clone(), true),
            _ => return Err(self.unfit()),
        };
        let wait = match failure {
            KillFailure::NotYet { wait } | KillFailure::InFlight { wait } => wait,
            KillFailure::TooYoung => {
                kill.absent_once = true;
                timing.search
            }
            KillFailure::Failed => {
                kill.attempts = kill.attempts.saturating_add(1);
                let doubled = timing.kill_retry.saturating_mul(1 << kill.attempts.min(10).saturating_sub(1));
                if quarantined { timing.quarantine_retry } else { doubled.min(timing.kill_retry_most) }
            }
        };
        // The next try begins without what has lapsed by now.
        self.operations.retain(|other| other.until > now);
        let give_up = quarantined || kill.attempts >= timing.kill_tries;
        self.due = Some(now.plus(if give_up { timing.quarantine_retry.max(wait) } else { wait }));
        self.state = if give_up { State::Quarantined(kill) } else { State::Killing(kill) };
        Ok(self)
    }

    /// Somebody asked again for the end of a quarantined or waiting kill: try at once.
    ///
    /// # Errors
    /// [`Unfit`] unless killing or quarantined.
    pub fn hurry(mut self, now: UnixMillis) -> Result<Self, Unfit> {
        match self.state {
            State::Killing(_) | State::Quarantined(_) => {
                self.due = Some(now);
                Ok(self)
            }
            _ => Err(self.unfit()),
        }
    }

    fn newborn(&self, now: UnixMillis, timing: &Timing) -> bool {
        let overdue = self.deadline.is_some_and(|deadline| deadline <= now);
        let age = now.since(self.first_seen.unwrap_or(self.asked));
        age < timing.newborn && !overdue
    }

    pub(super) fn bury(mut self, proof: Proof, now: UnixMillis, timing: &Timing) -> Self {
        let owed = proof == Proof::Deleted && self.kill().is_some_and(|kill| kill.owed);
        self.state = State::Gone { at: now, proof, owed };
        self.forget();
        self.operations.clear();
        self.claim_until = None;
        self.due = Some(now.plus(timing.tombstone));
        self
    }

    /// A tombstone keeps what it was, not what was said: the dead must not fill the disk.
    pub(super) fn forget(&mut self) {
        self.metadata = None;
        self.answer = None;
    }
}
