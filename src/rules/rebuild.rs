//! A ledger that lost what it had confirmed: what holds of an entry when the ledger and a warden's memory differ.
//!
//! Must stay true: whoever is further in an entry's life is right, for no entry ever goes back; nobody's generation goes
//! down; who holds a rebuilt entry is unproven, because a holder that nobody remembers may have come after the one that
//! somebody does. In doubt it is charged: only proof frees a slot.

use crate::rules::entry::{Entry, State};
use crate::time::UnixMillis;

/// So many holders an entry has had at least when nobody can tell: a bare id proves nothing then.
pub const UNPROVEN: u32 = 2;

/// The entry, held by nobody knows how many.
#[must_use]
pub fn unproven(mut entry: Entry) -> Entry {
    entry.holders = entry.holders.max(UNPROVEN);
    entry
}

/// What is to be written of what a warden remembers, given what the ledger has under that marker; `None`: nothing, the
/// ledger knows as much. It is looked at soon: what is remembered may have ended meanwhile.
#[must_use]
pub fn remembered(stored: Option<&Entry>, memory: &Entry, now: UnixMillis) -> Option<Entry> {
    let mut next = memory.clone();
    next.due = Some(now);
    let Some(stored) = stored else {
        return sent(memory).then(|| unproven(next));
    };
    if is_from_listing(stored) && stage(memory) >= stage(stored) {
        // A listing knows less than whoever made it; nobody was shown what it was taken for.
        return Some(unproven(next));
    }
    match stage(memory).cmp(&stage(stored)) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal if !newer(memory, stored) => None,
        std::cmp::Ordering::Equal | std::cmp::Ordering::Greater => {
            next.generation = memory.generation.max(stored.generation);
            next.holders = memory.holders.max(stored.holders);
            Some(unproven(next))
        }
    }
}

/// Whether more is remembered of the same stage than the ledger holds: a later holder, or a later sign of life.
fn newer(memory: &Entry, stored: &Entry) -> bool {
    (memory.generation, memory.last_sign) > (stored.generation, stored.last_sign)
}

/// Whether anything may exist at Cube because of it: what was only reserved is simply asked for again.
fn sent(entry: &Entry) -> bool {
    entry.charged() && entry.state != State::Reserved
}

/// Whether it was put together from Cube's listing: it lives, and was never dispatched.
fn is_from_listing(entry: &Entry) -> bool {
    entry.usable() && entry.dispatched.is_none() && entry.holders >= UNPROVEN
}

/// How far along its life.
fn stage(entry: &Entry) -> u8 {
    match entry.state {
        State::Reserved => 0,
        State::Dispatched => 1,
        State::Ambiguous { .. } => 2,
        State::Live(_) => 3,
        State::Killing(_) | State::Quarantined(_) => 4,
        State::Refused | State::Gone { .. } => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Generation;
    use crate::rules::entry::tests::reserved;
    use crate::rules::entry::{Activity, Actor, Kill, Proof};

    const NOW: UnixMillis = UnixMillis(1_900_000_000_000);
    const STATES: [State; 7] = [
        State::Reserved,
        State::Dispatched,
        State::Ambiguous { misses: 2 },
        State::Live(Activity::Running),
        State::Killing(Kill {
            actor: Actor::Client,
            since: UnixMillis(1),
            attempts: 0,
            absent_once: false,
            struck: crate::rules::entry::Struck::Never,
            owed: false,
        }),
        State::Refused,
        State::Gone { at: UnixMillis(1), proof: Proof::Deleted, owed: false },
    ];

    fn in_state(state: &State, generation: u64) -> Entry {
        Entry {
            state: state.clone(),
            generation: Generation(generation),
            dispatched: Some(UnixMillis(1)),
            ..reserved(None)
        }
    }

    #[test]
    fn whatever_is_written_is_charged_unproven_and_never_further_back_than_what_was_there() {
        let mut seen = 0;
        for stored in STATES.iter().map(Some).chain([None]) {
            for memory in &STATES {
                for (old, new) in [(5, 5), (5, 7), (7, 5)] {
                    let stored = stored.map(|state| in_state(state, old));
                    let memory = in_state(memory, new);
                    let Some(next) = remembered(stored.as_ref(), &memory, NOW) else { continue };
                    seen += 1;
                    assert!(next.holders >= UNPROVEN && next.generation >= memory.generation);
                    assert!(next.state == memory.state && next.due == Some(NOW));
                    match &stored {
                        None => assert!(next.charged() && next.state != State::Reserved),
                        Some(stored) => {
                            assert!(stage(&next) >= stage(stored) && next.generation >= stored.generation);
                        }
                    }
                }
            }
        }
        assert_eq!(seen, 81);
    }

    #[test]
    fn what_a_listing_was_taken_for_gives_way_to_who_made_it() {
        let listed = Entry { dispatched: None, holders: UNPROVEN, ..in_state(&STATES[3], 900) };
        let memory = Entry { answer: Some("token".to_owned()), ..in_state(&STATES[3], 7) };
        let next = remembered(Some(&listed), &memory, NOW);
        assert!(next.is_some_and(|next| next.generation.0 == 7 && next.answer.as_deref() == Some("token")));
        assert_eq!(remembered(Some(&listed), &in_state(&STATES[1], 7), NOW), None);
    }
}
