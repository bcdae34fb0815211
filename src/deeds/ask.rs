//! Asking Cube by single GETs about entries that may be gone: Cube's own sweeper tells nobody.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;

use super::Deeds;
use crate::cube::api::{Detail, SandboxState};
use crate::cube::client::Seen;
use crate::ids::Bucket;
use crate::ledger::LedgerError;
use crate::rules::entry::{Activity, Entry};
use crate::rules::listing::Answer;
use crate::time::UnixMillis;

/// A full bucket is asked about this often at most: each round reads all of its entries.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(1);
/// How many are asked at once.
const AT_ONCE: usize = 16;
/// How many of a full bucket are asked before its creates wait.
const MOST_OVERDUE: usize = 256;

impl Deeds {
    /// Asks about one live entry and writes down what was seen.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn ask(&self, entry: &Entry) -> Result<Answer, LedgerError> {
        self.ask_closely(entry).await.map(|(answer, _)| answer)
    }

    /// Asks about one live entry, writes down what was seen, and tells all of it.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn ask_closely(&self, entry: &Entry) -> Result<(Answer, Option<Box<Detail>>), LedgerError> {
        let Some(sandbox) = &entry.sandbox else { return Ok((Answer::Unclear, None)) };
        let credential = self.cube.own_credential();
        let began = self.ledger.now().await?;
        match self.cube.get(sandbox, &credential).await {
            Seen::Absent => {
                let after = self.ledger.not_found(&entry.marker).await?;
                let gone = after.is_none_or(|after| !after.charged());
                Ok((if gone { Answer::Gone } else { Answer::Unclear }, None))
            }
            Seen::Here(detail) => {
                let paused = detail.listed.state == SandboxState::Paused;
                let activity = if paused { Activity::Paused(began) } else { Activity::Running };
                self.ledger.asked(&entry.marker, Some(activity), began).await?;
                Ok((Answer::Here, Some(detail)))
            }
            Seen::Unclear(why) => {
                tracing::debug!(marker = %entry.marker, why, "a sandbox could not be asked about");
                self.ledger.asked(&entry.marker, None, began).await?;
                Ok((Answer::Unclear, None))
            }
        }
    }

    /// A bucket is full: asks about its entries whose end has passed. Several callers share one round, and a round that is
    /// just over is not made again. Returns when the round is over.
    pub async fn ask_overdue(self: &Arc<Self>, bucket: &Bucket) {
        let Some(mut done) = self.start_round(bucket) else { return };
        while done.changed().await.is_ok() {}
    }

    fn start_round(self: &Arc<Self>, bucket: &Bucket) -> Option<watch::Receiver<()>> {
        let now = self.clock.now();
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.retain(|_, round| match round {
            Round::Running(_) => true,
            Round::Over(at) => *at <= now && now.since(*at) < BETWEEN_ROUNDS,
        });
        match asking.get(bucket) {
            Some(Round::Running(done)) => return Some(done.clone()),
            Some(Round::Over(_)) => return None,
            None => {}
        }
        let (ends, done) = watch::channel(());
        asking.insert(bucket.clone(), Round::Running(done.clone()));
        let (deeds, bucket) = (Arc::clone(self), bucket.clone());
        tokio::spawn(async move {
            // Dropped last, whatever happens in the round: a round that never ends would be waited for for ever.
            let _over = RoundOver { deeds: Arc::clone(&deeds), bucket: bucket.clone(), ends };
            if let Err(error) = deeds.round(&bucket).await {
                tracing::warn!(%bucket, %error, "overdue sandboxes could not be asked about");
            }
        });
        Some(done)
    }

    async fn round(&self, bucket: &Bucket) -> Result<(), LedgerError> {
        let overdue = self.ledger.past_deadline(Some(bucket), MOST_OVERDUE).await?;
        let asks = overdue.into_iter().map(|entry| async move { self.ask(&entry).await });
        let answers = stream::iter(asks).buffer_unordered(AT_ONCE);
        let answers: Vec<_> = answers.collect().await;
        answers.into_iter().try_for_each(|answer| answer.map(drop))
    }
}

/// A round of one bucket.
#[derive(Debug)]
pub(super) enum Round {
    /// Under way; closes when it is over.
    Running(watch::Receiver<()>),
    /// Over since then.
    Over(UnixMillis),
}

/// Ends a round when it is dropped.
struct RoundOver {
    deeds: Arc<Deeds>,
    bucket: Bucket,
    #[expect(dead_code, reason = "its drop is what those who wait see")]
    ends: watch::Sender<()>,
}

impl Drop for RoundOver {
    fn drop(&mut self) {
        let over = Round::Over(self.deeds.clock.now());
        let mut asking = self.deeds.asking.lock().unwrap_or_else(PoisonError::into_inner);
        asking.insert(self.bucket.clone(), over);
    }
}
