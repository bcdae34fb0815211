//! Renewing a leased sandbox at Cube, and reading back whether Cube heeded it.

use std::time::Duration;

use super::Deeds;
use crate::cube::api::SandboxState;
use crate::cube::client::{Credential, Pace, Seen};
use crate::ledger::LedgerError;
use crate::rules::entry::{Activity, Entry};
use crate::time::{UnixMillis, within};

/// So much may the end that Cube shows be before the one that was asked for: its clock and the way there.
const SLACK: Duration = Duration::from_secs(10);

/// What became of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// Too early, paused, or a lease that needs none.
    NotNeeded,
    /// Cube shows the new end (or shows no ends at all).
    Honoured,
    /// Cube did not move the end, or did not say so.
    NotHonoured(String),
    /// It is gone.
    Gone,
}

impl Deeds {
    /// Renews the lease of a running sandbox if it is time, reads its end back, and writes down what that showed.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn renew(&self, entry: &Entry, credential: &Credential) -> Result<Renewal, LedgerError> {
        let now = self.ledger.now().await?;
        let (Some(lease), Some(sandbox)) = (&entry.lease, &entry.sandbox) else {
            return Ok(Renewal::NotNeeded);
        };
        let (Some(length), None) = (lease.length, entry.paused_since()) else {
            return Ok(Renewal::NotNeeded);
        };
        let wanted = now.plus(length);
        if !lease.wants_renewal(now)
            && entry.deadline.is_none_or(|deadline| deadline.plus(length / 3) >= wanted)
        {
            return Ok(Renewal::NotNeeded);
        }
        // What somebody has granted it beyond that is not taken away.
        let until = entry.deadline.map_or(wanted, |deadline| deadline.max(wanted));
        let seconds = until.since(now).as_secs();
        // Whoever waits for longer than Cube itself may take has waited in vain.
        let turn = within(self.clock.as_ref(), self.cube.budget(Pace::Call), self.cube.guard().renew()).await;
        let asked = match turn {
            Ok(place) => self.cube.renew(place, sandbox, seconds, credential).await,
            Err(late) => Err(format!("no place among the writes to Cube: {late}")),
        };
        let shown = match self.cube.get(sandbox, credential).await {
            Seen::Absent => {
                self.ledger.not_found(&entry.marker).await?;
                return Ok(Renewal::Gone);
            }
            Seen::Here(detail) if detail.listed.state == SandboxState::Paused => {
                self.ledger.observed(&entry.marker, Activity::Paused(now), now).await?;
                return Ok(Renewal::NotNeeded);
            }
            Seen::Here(detail) => Ok(detail.listed.end_at),
            Seen::Unclear(why) => Err(why),
        };
        let honoured = asked.and_then(|()| heeded(shown?, until));
        self.ledger.lease_renewed(&entry.marker, &lease.id, honoured.clone().map_err(drop)).await?;
        Ok(honoured.map_or_else(Renewal::NotHonoured, |_| Renewal::Honoured))
    }
}

/// The end that holds from now on. A Cube that shows no end at all is believed.
fn heeded(shown: Option<UnixMillis>, until: UnixMillis) -> Result<Option<UnixMillis>, String> {
    match shown {
        Some(shown) if shown.plus(SLACK) < until => {
            Err(format!("Cube shows an end {} s before the one asked for", until.since(shown).as_secs()))
        }
        Some(shown) => Ok(Some(shown)),
        None => Ok(Some(until)),
    }
}
