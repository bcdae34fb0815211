//! Wire types of the Cube API: bodies read and edited by splicing, answers read with what we need of them.
//!
//! Must stay true: what is not ours keeps its bytes and its order. serde reads a struct from an array too, by position
//! (`{"timeout":0}` may be written `[0]`): wherever Cube expects a struct that governance cares about, an array is
//! malformed here. Deliberately absent: any judgement of policy, and any HTTP.

mod answers;
mod create;
mod labels;
mod lease;
mod small;
mod splice;

pub use answers::{
    BadAnswer, CreatedSandbox, Detail, Listed, ListedObject, SandboxState, SnapshotMade, text_member,
    with_sandbox_id,
};
pub use create::{CreateBody, Edited, Edits, Lifecycle, OnTimeout};
pub use labels::{LabelNames, Labels, MANAGED_BY};
pub use lease::{Held, LeaseBody, LeaseDefaults};
pub use small::{ConnectBody, RefreshBody, RollbackBody, SnapshotBody, TimeoutBody};
pub use splice::{MAX_DEPTH, Malformed, set_members};

/// The snapshot that a template id names, without its tag (`snap-1:default` is `snap-1`); `None` if it names none.
///
/// In any letter case: a database that compares without regard to it must not turn `SNAP-1` into somebody's snapshot.
#[must_use]
pub fn snapshot_id(template: &str) -> Option<&str> {
    let marked = template.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("snap-"));
    marked.then(|| template.split(':').next().unwrap_or(template))
}
