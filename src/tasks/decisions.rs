//! The decision log: notes are written together; the log is kept within its age and size.

use std::time::Duration;

use serde_json::Value;

use super::Tasks;
use crate::ledger::LedgerError;
use crate::time::parse_rfc3339;

/// Rounds between two looks at the log's bounds.
const TRIM_EVERY: u32 = 60;
/// How many of the oldest records are looked at in one round.
const LOOK: usize = 1000;

impl Tasks {
    /// Writes the notes, and now and then trims the log.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_notes(&self, round: u32) -> Result<(), LedgerError> {
        self.ledger.write_notes().await?;
        if round.is_multiple_of(TRIM_EVERY) {
            let bounds = self.rules.load().settings.decisions.clone();
            let through = self.last_older_than(bounds.age).await?;
            self.ledger.trim_decisions(bounds.count, through).await?;
        }
        Ok(())
    }

    /// The last of the oldest records that is older than `age`; 0 if none is.
    async fn last_older_than(&self, age: Duration) -> Result<u64, LedgerError> {
        let since = self.ledger.now().await?.minus(age);
        let oldest = self.ledger.decisions(0, LOOK).await?;
        let old = oldest.iter().take_while(|(_, text)| {
            let record: Option<Value> = serde_json::from_str(text).ok();
            let at = record.as_ref().and_then(|record| record.get("at")).and_then(Value::as_str);
            at.and_then(parse_rfc3339).is_some_and(|at| at < since)
        });
        Ok(old.last().map_or(0, |(sequence, _)| *sequence))
    }
}
