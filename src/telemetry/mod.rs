//! All metric names and all log field names; nothing else counts or writes.

mod labels;
pub mod logs;
mod metrics;

pub use labels::{
    Answer, Asker, BreakerMove, BreakerPath, CallOutcome, Decision, EntryState, KillResult, LeaseEvent,
    Rebuilt, Reconciled, WriteLane,
};
pub use metrics::{BucketGauges, LedgerGauges, Metrics, Names, Waiting, WriteGauges};
