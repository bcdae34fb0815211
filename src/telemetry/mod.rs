//! All metric names and all log field names; nothing else counts or writes.

mod labels;
pub mod logs;
mod metrics;

pub use labels::{Answer, Asker, CallOutcome, Decision, EntryState, KillResult, LeaseEvent, Reconciled};
pub use metrics::{BucketGauges, LedgerGauges, Metrics, Names, Waiting};
