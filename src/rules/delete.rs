//! Who may end a sandbox: one pure function for every actor.
//!
//! It runs when the wish arises and again inside the commit that makes the entry `killing`.
//! Stale generation: nothing is deleted, ever; there is no fall-back to "delete what is current".

use super::entry::{Actor, Entry, State};
use crate::ids::Generation;
use crate::time::UnixMillis;

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Condemn it.
    Allow,
    /// Somebody has already condemned it: join that.
    Join,
    /// It is dead, or was never there for this caller.
    NotFound,
    /// The generation that the caller presents is not the current one.
    Fenced,
    /// A call is under way; ask again.
    Later,
}

/// Decides the end of `entry` for `actor`, who presents `generation` by a qualified id, or nothing by a bare one.
#[must_use]
pub fn decide(actor: Actor, entry: &Entry, presented: Option<Generation>, now: UnixMillis) -> Decision {
    if presented.is_some_and(|generation| generation != entry.generation) {
        return Decision::Fenced;
    }
    match &entry.state {
        State::Killing(_) | State::Quarantined(_) => Decision::Join,
        State::Live(_) if actor == Actor::Recovery && entry.busy(now) => Decision::Later,
        State::Live(_) => Decision::Allow,
        State::Reserved | State::Dispatched | State::Ambiguous { .. } => Decision::Later,
        State::Refused | State::Gone { .. } => Decision::NotFound,
    }
}
