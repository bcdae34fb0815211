//! One bounded pool of upstream writes, in four lanes: who goes next, and how many at once.
//!
//! Half of the pool is the deletes' own, used or not. The other half is shared by the other lanes: whoever has the fewest on
//! the way goes next, so what one lane does not use is lent to the others; and all of it is lent to deletes.
//! The pool's size follows loss: halved by an unclear outcome (or Cube's own "slow down"), one more after each round of successes.
//! A write that is on its way for longer than most may take (a snapshot, a wake-up) gives its place up before it ends: in a pool of
//! one it would keep everybody else waiting.
//!
//! Must stay true: never more at once than the limit, the limit never below one; with a limit of one the deletes have every second
//! turn, so neither side starves. Losses of one moment are one loss: what began before the pool last shrank, or ends within a
//! second of it, does not shrink it again.

use std::collections::BTreeMap;
use std::time::Duration;

use super::breaker::Told;
use crate::time::UnixMillis;

/// What an upstream write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The end of a sandbox.
    Delete,
    /// A timeout, a refresh: what keeps something alive.
    Renew,
    /// Connect, resume, pause, and other changes of what exists.
    Connect,
    /// A new sandbox.
    Create,
}

impl Lane {
    /// Every lane; of two that have the same right to go, the first goes.
    pub const ALL: [Self; 4] = [Self::Delete, Self::Renew, Self::Connect, Self::Create];

    /// The name, also the metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Renew => "renew",
            Self::Connect => "connect",
            Self::Create => "create",
        }
    }

    /// Its place in an array of all lanes.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Delete => 0,
            Self::Renew => 1,
            Self::Connect => 2,
            Self::Create => 3,
        }
    }
}

/// Losses within this time of the last that shrank the pool are the same loss.
const ONE_LOSS: Duration = Duration::from_secs(1);
/// A pool that is hardly used falls to half of this at once: nobody knows whether it would carry more.
const UNPROVEN: u32 = 16;

/// A place in the pool, to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Taken {
    number: u64,
    age: u32,
}

/// The pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    most: u32,
    limit: u32,
    /// How long a place is kept.
    lapse: Duration,
    /// The places that are taken, by their numbers: the lane, and since when.
    taken: BTreeMap<u64, (Lane, UnixMillis)>,
    taken_last: u64,
    in_use: [u32; 4],
    /// Successes since the pool last grew or shrank.
    round: u32,
    /// How often it has shrunk.
    age: u32,
    shrunk: UnixMillis,
    /// The lane that went last.
    last: Lane,
    /// The lane beside deletes that went last.
    last_other: Lane,
}

impl Pool {
    /// A pool of at most so many, each of which keeps its place for at most `lapse`.
    #[must_use]
    pub fn new(most: u32, lapse: Duration) -> Self {
        let most = most.max(1);
        Self {
            most,
            limit: most,
            lapse,
            taken: BTreeMap::new(),
            taken_last: 0,
            in_use: [0; 4],
            round: 0,
            age: 0,
            shrunk: UnixMillis(0),
            last: Lane::Create,
            last_other: Lane::Create,
        }
    }

    /// How many may be on the way at once now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many are on the way, by lane.
    #[must_use]
    pub fn in_use(&self) -> [u32; 4] {
        self.in_use
    }

    /// How many places are the deletes' own.
    #[must_use]
    pub fn delete_share(&self) -> u32 {
        self.limit.div_ceil(2)
    }

    /// Could one more of this lane go, if nobody else wanted to?
    #[must_use]
    pub fn has_room(&self, lane: Lane) -> bool {
        let all: u32 = self.in_use.iter().sum();
        let others = all - self.in_use[Lane::Delete.index()];
        all < self.limit && (lane == Lane::Delete || others < (self.limit / 2).max(1))
    }

    /// Of the lanes in which somebody waits, the one whose turn it is.
    #[must_use]
    pub fn next(&self, waits: impl Fn(Lane) -> bool) -> Option<Lane> {
        let may = |lane: Lane| waits(lane) && self.has_room(lane);
        let other = self.next_other(may);
        if !may(Lane::Delete) {
            return other;
        }
        let below_share = self.in_use[Lane::Delete.index()] < self.delete_share();
        let had_its_turn = self.limit == 1 && self.last == Lane::Delete;
        if below_share && !had_its_turn { Some(Lane::Delete) } else { other.or(Some(Lane::Delete)) }
    }

    /// The fewest on the way go first; of equals, the one after the last that went.
    fn next_other(&self, may: impl Fn(Lane) -> bool) -> Option<Lane> {
        let others = &Lane::ALL[1..];
        let after = |lane: Lane| (lane.index() + 2 - self.last_other.index()) % 3;
        others
            .iter()
            .copied()
            .filter(|lane| may(*lane))
            .min_by_key(|lane| (self.in_use[lane.index()], after(*lane)))
    }

    /// One goes.
    pub fn take(&mut self, lane: Lane, now: UnixMillis) -> Taken {
        self.in_use[lane.index()] += 1;
        self.taken_last += 1;
        self.taken.insert(self.taken_last, (lane, now));
        self.last = lane;
        if lane != Lane::Delete {
            self.last_other = lane;
        }
        Taken { number: self.taken_last, age: self.age }
    }

    /// One goes beside the pool and takes no place in it; its loss counts all the same.
    #[must_use]
    pub fn beside(&self) -> Taken {
        Taken { number: 0, age: self.age }
    }

    /// Lets time pass: whoever takes too long has no place any more.
    pub fn pass_time(&mut self, now: UnixMillis) {
        while let Some(first) = self.taken.first_entry() {
            let (lane, since) = *first.get();
            if now.since(since) < self.lapse {
                break;
            }
            first.remove();
            self.in_use[lane.index()] -= 1;
        }
    }

    /// One is back; true if the pool is smaller for it.
    pub fn give_back(&mut self, taken: Taken, told: Told, now: UnixMillis) -> bool {
        let all: u32 = self.in_use.iter().sum();
        if let Some((lane, _)) = self.taken.remove(&taken.number) {
            self.in_use[lane.index()] -= 1;
        }
        // A clock that stepped back makes no second loss of one.
        self.shrunk = self.shrunk.min(now);
        match told {
            Told::Unclear | Told::SlowDown => {
                let same_loss = taken.age != self.age || (self.age > 0 && now.since(self.shrunk) < ONE_LOSS);
                if same_loss {
                    return false;
                }
                let proven = all.saturating_mul(2).max(UNPROVEN);
                let smaller = (self.limit.min(proven) / 2).max(1);
                let shrinks = smaller < self.limit;
                (self.limit, self.round, self.shrunk) = (smaller, 0, now);
                self.age = self.age.wrapping_add(1);
                shrinks
            }
            Told::Done => {
                self.round += 1;
                if self.round >= self.limit && self.limit < self.most {
                    (self.limit, self.round) = (self.limit + 1, 0);
                }
                self.round = self.round.min(self.limit);
                false
            }
            Told::Refused | Told::Unsent | Told::Abandoned => false,
        }
    }
}

#[cfg(test)]
mod tests;
