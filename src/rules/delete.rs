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
        State::Live(_) if actor.yields() && entry.busy(now) => Decision::Later,
        State::Live(_) => Decision::Allow,
        State::Reserved | State::Dispatched | State::Ambiguous { .. } => Decision::Later,
        State::Refused | State::Gone { .. } => Decision::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::entry::tests::reachable;

    const ACTORS: [Actor; 4] = [Actor::Client, Actor::Abandoned, Actor::Recovery, Actor::Operator];

    /// Every actor with every generation on every entry that can come to be.
    #[test]
    fn nobody_ends_what_is_not_theirs_and_what_is_allowed_can_be_done() {
        let mut decisions = 0;
        for (entry, now) in reachable() {
            let current = entry.generation;
            let others = [current.0 - 1, current.0 + 1, 0].map(|other| Some(Generation(other)));
            for actor in ACTORS {
                for stale in others {
                    assert_eq!(decide(actor, entry, stale, *now), Decision::Fenced);
                }
                let decision = decide(actor, entry, None, *now);
                assert_eq!(decision, decide(actor, entry, Some(current), *now));
                check(decision, actor, entry, *now);
                decisions += 1;
            }
        }
        assert_eq!(decisions, 4 * 63_853);
    }

    fn check(decision: Decision, actor: Actor, entry: &Entry, now: UnixMillis) {
        let condemned = entry.clone().condemn(actor, now);
        match decision {
            Decision::Allow => assert!(condemned.is_ok_and(|next| matches!(next.state, State::Killing(_)))),
            Decision::Join => assert!(entry.charged() && condemned.is_err()),
            Decision::NotFound => assert!(!entry.charged() && condemned.is_err()),
            Decision::Later => {
                assert!(entry.charged() && condemned.is_err());
                let unborn = entry.sandbox.is_none();
                assert!(unborn || (entry.usable() && entry.busy(now)), "only these two pass by themselves");
                assert!(
                    unborn || !matches!(actor, Actor::Client | Actor::Operator),
                    "a holder waits for nobody"
                );
            }
            Decision::Fenced => panic!("the current generation, or none, is never stale"),
        }
    }
}
