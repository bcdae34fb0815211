//! The decision log: notes are written together; the log is kept within its age and size.

use super::Tasks;
use crate::ledger::{LedgerError, Log};

/// Rounds between two looks at the log's bounds.
const TRIM_EVERY: u32 = 60;

impl Tasks {
    /// Writes the notes, and now and then trims the log.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn tick_notes(&self, round: u32) -> Result<(), LedgerError> {
        self.ledger.write_notes().await?;
        if round.is_multiple_of(TRIM_EVERY) {
            let bounds = self.rules.load().settings.decisions.clone();
            self.ledger.trim_decisions(Log::Calls, bounds.count, bounds.age).await?;
            self.ledger.trim_decisions(Log::Ends, bounds.ends_count, bounds.ends_age).await?;
        }
        Ok(())
    }
}
