//! Who was alive or on the way, and when: the count against which a warden's limits are checked.
//!
//! A create counts from its acceptance, whether or not its answer was lost, until it is refused or its sandbox is gone.
//! Must stay true: every token that begins ends at most once; nothing is ever forgotten while counting is on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Metadata as the client gave it.
pub(crate) type Labels = Arc<BTreeMap<String, String>>;

/// One sandbox, or one create on its way, from begin to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(u64);

#[derive(Debug)]
enum Event {
    Begun(Token, Labels),
    Ended(Token),
}

/// The history of all tokens.
#[derive(Debug)]
pub(crate) struct Census {
    last: u64,
    events: Vec<Event>,
    counting: bool,
}

impl Census {
    /// An empty history; `counting` off keeps none (long load runs).
    pub(crate) fn new(counting: bool) -> Self {
        Self { last: 0, events: Vec::new(), counting }
    }

    /// Something is on its way.
    pub(crate) fn begin(&mut self, labels: &Labels) -> Token {
        self.last += 1;
        let token = Token(self.last);
        if self.counting {
            self.events.push(Event::Begun(token, Arc::clone(labels)));
        }
        token
    }

    /// It is gone, or never came to be.
    pub(crate) fn end(&mut self, token: Token) {
        if self.counting {
            self.events.push(Event::Ended(token));
        }
    }

    /// The greatest number ever open at once among those whose labels contain all `wanted` pairs.
    pub(crate) fn high_water(&self, wanted: &[(&str, &str)]) -> usize {
        let mut open = BTreeSet::new();
        let mut greatest = 0;
        for event in &self.events {
            match event {
                Event::Begun(token, labels) if matches(labels, wanted) => {
                    open.insert(*token);
                    greatest = greatest.max(open.len());
                }
                Event::Begun(..) => {}
                Event::Ended(token) => {
                    open.remove(token);
                }
            }
        }
        greatest
    }
}

fn matches(labels: &BTreeMap<String, String>, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(key, value)| labels.get(*key).is_some_and(|held| held == value))
}
