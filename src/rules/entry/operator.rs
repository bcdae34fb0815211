//! An operator's word about an entry: a hold, its end, and the release of what was found for judgement.
//!
//! Must stay true: none of them ends or wakes anything, and none is a sign of life.

use super::{Entry, Hold, Origin, Unfit};
use crate::time::UnixMillis;

impl Entry {
    /// An operator keeps it; a later word takes the place of an earlier one.
    ///
    /// # Errors
    /// [`Unfit`] once it is condemned or dead: from there is no way back.
    pub fn keep(mut self, reason: &str, now: UnixMillis) -> Result<Self, Unfit> {
        if !self.charged() || self.kill().is_some() {
            return Err(self.unfit());
        }
        self.hold = Some(Hold { since: now, reason: reason.to_owned() });
        Ok(self)
    }

    /// The operator keeps it no longer. `None`: nobody did.
    #[must_use]
    pub fn let_go(mut self) -> Option<Self> {
        self.hold.take().map(|_| self)
    }

    /// What was found, not made, may be judged as if it had been made here. `None`: it may already.
    #[must_use]
    pub fn release(mut self, now: UnixMillis) -> Option<Self> {
        if self.origin == Origin::Created || self.released.is_some() {
            return None;
        }
        self.released = Some(now);
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::super::tests::reserved;
    use super::super::{Activity, Actor, State, Timing};
    use super::*;
    use crate::rules::colour::{Ceilings, colour};

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    fn live(origin: Origin) -> Entry {
        Entry { state: State::Live(Activity::Running), origin, ..reserved(None) }
    }

    fn reason(entry: &Entry) -> &'static str {
        colour(entry, NOW, &Timing::default(), Ceilings::default()).reason()
    }

    #[test]
    fn a_hold_keeps_until_it_is_taken_back_and_comes_too_late_for_the_condemned() {
        let held = live(Origin::Created).keep("evidence", NOW).unwrap();
        assert_eq!(reason(&held), "held_by_operator");
        assert_eq!(held.last_sign, live(Origin::Created).last_sign);
        let free = held.let_go().unwrap();
        assert_eq!(reason(&free), "no_root");
        assert_eq!(free.clone().let_go(), None);
        let condemned = free.condemn(Actor::Client, NOW).unwrap();
        assert_eq!(condemned.keep("too late", NOW), Err(Unfit::State("killing")));
    }

    #[test]
    fn only_what_was_found_is_released_and_once() {
        let found = live(Origin::Imported);
        assert_eq!(reason(&found), "import_not_released");
        let released = found.release(NOW).unwrap();
        assert_eq!(reason(&released), "no_root");
        assert_eq!(released.release(NOW), None);
        assert_eq!(live(Origin::Created).release(NOW), None);
    }
}
