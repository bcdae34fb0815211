//! Killing what is condemned: DELETE, wake a paused one that refuses, confirm by GET, write down what came of it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::Deeds;
use crate::cube::client::{Credential, Killed, Seen};
use crate::ids::{Marker, SandboxId};
use crate::ledger::{KillReport, LedgerError};
use crate::rules::entry::{Entry, Proof, State, Struck};
use crate::telemetry::KillResult;
use crate::time;

/// What somebody who waits for an end is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Proven gone, and it was there before.
    Deleted,
    /// Cube does not have it.
    NotFound,
    /// It goes on; ask again.
    Pending,
}

/// With whose credentials one condemned sandbox may be killed.
#[derive(Debug, Default)]
pub(super) struct Lent {
    /// Lent by somebody whose wish stands. The first stays.
    standing: Option<Credential>,
    /// Lent for wishes that are not decided yet.
    offered: Vec<(u64, Credential)>,
}

/// Something lent for a wish that is not decided yet.
#[must_use]
#[derive(Debug)]
pub struct Loan(Option<u64>);

impl Lent {
    fn take(&mut self, loan: &Loan) -> Option<Credential> {
        let at = self.offered.iter().position(|(offered, _)| Some(*offered) == loan.0)?;
        Some(self.offered.swap_remove(at).1)
    }

    fn credential(&self) -> Option<&Credential> {
        self.standing.as_ref().or(self.offered.first().map(|(_, credential)| credential))
    }
}

impl Deeds {
    /// Offers a credential with which a sandbox may be killed, before anybody can see that it is condemned: whoever carries
    /// that out first needs it.
    pub fn lend(&self, marker: &Marker, credential: Credential) -> Loan {
        if credential.is_own() {
            return Loan(None);
        }
        let loan = self.loans.fetch_add(1, Ordering::Relaxed);
        self.lent().entry(marker.clone()).or_default().offered.push((loan, credential));
        Loan(Some(loan))
    }

    /// The wish stands: what was lent for it stays as long as the kill does, unless another's was there first.
    #[expect(clippy::needless_pass_by_value, reason = "a loan is used up by what is decided about it")]
    pub fn keep(&self, marker: &Marker, loan: Loan) {
        if let Some(lent) = self.lent().get_mut(marker) {
            let offered = lent.take(&loan);
            lent.standing = lent.standing.take().or(offered);
        }
    }

    /// The wish came to nothing: what was lent for it is forgotten, and nothing of anybody else's.
    #[expect(clippy::needless_pass_by_value, reason = "a loan is used up by what is decided about it")]
    pub fn take_back(&self, marker: &Marker, loan: Loan) {
        let mut all = self.lent();
        if let Some(lent) = all.get_mut(marker) {
            lent.take(&loan);
            if lent.standing.is_none() && lent.offered.is_empty() {
                all.remove(marker);
            }
        }
    }

    fn lent(&self) -> MutexGuard<'_, HashMap<Marker, Lent>> {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries once to kill the condemned entry of `marker`; joins a try that is under way. The try goes on in a task of
    /// its own whoever waits. Returns the end, if it came to one.
    pub async fn kill(self: &Arc<Self>, marker: &Marker) -> Option<Ended> {
        let mut done = self.start_kill(marker);
        // An error means that the try has ended: its sender is gone.
        while done.changed().await.is_ok() {}
        *done.borrow()
    }

    /// How many kills are under way in this process.
    #[must_use]
    pub fn kills_running(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Starts a try, or finds the one under way; what is returned closes when the try is over, and then shows the end that
    /// was written down, if there was one.
    pub fn start_kill(self: &Arc<Self>, marker: &Marker) -> watch::Receiver<Option<Ended>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = running.get(marker) {
            return done.clone();
        }
        let (ends, done) = watch::channel(None);
        running.insert(marker.clone(), done.clone());
        let (deeds, marker) = (Arc::clone(self), marker.clone());
        tokio::spawn(async move {
            match deeds.try_once(&marker).await {
                Ok(ended) => drop(ends.send_replace(ended)),
                Err(error) => {
                    tracing::warn!(%marker, %error, "a kill could not be written down; it is tried again");
                }
            }
            deeds.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&marker);
            drop(ends);
        });
        done
    }

    /// Ready when no kill is under way in this process. What a client lent for a kill does not outlive the process, so a
    /// process that ends waits for it.
    pub async fn kills_over(&self) {
        let one = || self.running.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned();
        while let Some(mut done) = one() {
            while done.changed().await.is_ok() {}
        }
    }

    async fn try_once(&self, marker: &Marker) -> Result<Option<Ended>, LedgerError> {
        let Some(entry) = self.ledger.condemned(marker).await? else { return Ok(None) };
        let Some(sandbox) = &entry.sandbox else { return Ok(None) };
        let credential = self.credential(marker);
        let (report, why) = self.attempt(sandbox, &credential).await;
        let after = self.ledger.kill_tried(&entry, report, &why).await?;
        if after.as_ref().is_none_or(|entry| !entry.charged()) {
            self.lent().remove(marker);
        }
        if let Some(after) = &after {
            self.metrics.killed(result(&entry, after));
            log_progress(&entry, after, &why);
        }
        Ok(after.as_ref().and_then(ended))
    }

    fn credential(&self, marker: &Marker) -> Credential {
        let lent = self.lent().get(marker).and_then(Lent::credential).cloned();
        lent.unwrap_or_else(|| self.cube.own_credential())
    }

    /// One try: what came of it, and in words.
    async fn attempt(&self, sandbox: &SandboxId, credential: &Credential) -> (KillReport, String) {
        match self.cube.delete(self.cube.guard().delete().await, sandbox, credential).await {
            Killed::Proof(proof) => (KillReport::Proof(proof), proof.name().to_owned()),
            Killed::Wait(wait) => (KillReport::Wait(wait), "Cube asked to wait".to_owned()),
            Killed::Paused => self.wake_and_delete(sandbox, credential).await,
            Killed::Refused(why) => (KillReport::Failed, why),
            Killed::Unclear(why) => self.confirm(sandbox, credential, why).await,
        }
    }

    /// Old Cubes refuse to delete a paused sandbox: it is woken, with auto-pause off and a short timeout, and deleted.
    async fn wake_and_delete(&self, sandbox: &SandboxId, credential: &Credential) -> (KillReport, String) {
        let Ok(_awake) = self.wakes.acquire().await else {
            return (KillReport::Failed, "the budget of wake-ups is closed".to_owned());
        };
        if let Err(why) = self.cube.wake(self.cube.guard().wake().await, sandbox, credential).await {
            return (KillReport::Failed, why);
        }
        match self.cube.delete(self.cube.guard().delete().await, sandbox, credential).await {
            Killed::Proof(proof) => self.confirm_woken(sandbox, credential, proof).await,
            Killed::Wait(wait) => (KillReport::Wait(wait), "Cube asked to wait".to_owned()),
            Killed::Paused => (KillReport::Failed, "it refuses to go even after it was woken".to_owned()),
            Killed::Refused(why) => (KillReport::Failed, why),
            Killed::Unclear(why) => self.confirm(sandbox, credential, why).await,
        }
    }

    /// What was woken in order to be deleted is looked at once more: a wake-up in flight could have outlived the delete.
    async fn confirm_woken(
        &self,
        sandbox: &SandboxId,
        credential: &Credential,
        proof: Proof,
    ) -> (KillReport, String) {
        match self.cube.get(sandbox, credential).await {
            Seen::Here(_) => (KillReport::Failed, "still there after DELETE".to_owned()),
            Seen::Absent | Seen::Unclear(_) => (KillReport::Proof(proof), proof.name().to_owned()),
        }
    }

    /// An unclear DELETE may have happened: a GET says.
    async fn confirm(
        &self,
        sandbox: &SandboxId,
        credential: &Credential,
        why: String,
    ) -> (KillReport, String) {
        match self.cube.get(sandbox, credential).await {
            Seen::Absent => (KillReport::Proof(Proof::GetNotFound), Proof::GetNotFound.name().to_owned()),
            Seen::Here(_) | Seen::Unclear(_) => (KillReport::Unclear, why),
        }
    }

    /// Kills the condemned entry of `marker` and waits for the end, at most as long as a client would.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails; the intent stands and is carried out later.
    pub async fn kill_and_wait(self: &Arc<Self>, marker: &Marker) -> Result<Ended, LedgerError> {
        let wait = time::within(self.clock.as_ref(), self.client_wait, self.until_ended(marker)).await;
        wait.unwrap_or(Ok(Ended::Pending))
    }

    async fn until_ended(self: &Arc<Self>, marker: &Marker) -> Result<Ended, LedgerError> {
        loop {
            if let Some(ended) = self.kill(marker).await {
                return Ok(ended);
            }
            // Without its record: the create that made the sandbox was settled, and goes on with the kill.
            let Some(entry) = self.ledger.entry(marker).await? else { return Ok(Ended::Pending) };
            if let Some(ended) = ended(&entry) {
                return Ok(ended);
            }
            // Not before its appointment; the background task may come first, which is as good.
            let now = self.ledger.now().await?;
            let wait = entry.due.map_or(Duration::from_secs(1), |due| due.since(now));
            self.clock.sleep(wait.clamp(Duration::from_millis(10), Duration::from_secs(60))).await;
        }
    }
}

fn ended(entry: &Entry) -> Option<Ended> {
    match &entry.state {
        State::Gone { proof: Proof::Deleted, .. } => Some(Ended::Deleted),
        State::Gone { .. } => Some(Ended::NotFound),
        State::Killing(kill) | State::Quarantined(kill) if kill.absent_once => {
            Some(if kill.struck == Struck::Never { Ended::NotFound } else { Ended::Deleted })
        }
        State::Quarantined(_) => Some(Ended::Pending),
        _ => None,
    }
}

/// What a try came to, by what was written down.
fn result(before: &Entry, after: &Entry) -> KillResult {
    match (&before.state, &after.state) {
        (_, State::Gone { proof: Proof::Deleted, .. }) => KillResult::Gone,
        (_, State::Gone { .. }) => KillResult::AlreadyGone,
        (State::Killing(_), State::Quarantined(_)) => KillResult::Quarantined,
        _ => KillResult::Failed,
    }
}

fn log_progress(before: &Entry, after: &Entry, why: &str) {
    match (&before.state, &after.state) {
        (State::Killing(_), State::Quarantined(_)) => {
            tracing::error!(marker = %after.marker, why, "a condemned sandbox cannot be killed: quarantined, still charged");
        }
        (_, State::Gone { proof, .. }) => {
            tracing::info!(marker = %after.marker, proof = proof.name(), "a sandbox is gone");
        }
        _ => tracing::debug!(marker = %after.marker, why, "a kill goes on"),
    }
}
