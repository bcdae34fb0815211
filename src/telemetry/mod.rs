//! All metric names and all log field names; nothing else counts or writes.

pub mod events;
mod labels;
pub mod logs;
mod metrics;

pub use labels::{
    AgeClass, Answer, Asker, BreakerMove, BreakerPath, CallOutcome, CollectReason, Decision, Delivery,
    DriftKind, EntryState, EventKind, KillResult, LeaseEvent, ListVerdict, Rebuilt, Reconciled, WriteLane,
    ZombieState,
};
pub use metrics::{BucketGauges, CycleGauges, LedgerGauges, Metrics, Names, Waiting, WriteGauges};
