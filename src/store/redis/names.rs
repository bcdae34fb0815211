//! The names of a ledger's keys in Redis: `{cw:<ledger>}:<key>`.
//!
//! Must stay true: what stands in braces is the same for all, so that a Cluster keeps a ledger in one slot; two ledgers in
//! one database share no name.

use std::fmt::Display;

use crate::store::Log;

/// The names of one ledger.
#[derive(Debug)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(ledger: &str) -> Self {
        Self { prefix: format!("{{cw:{ledger}}}:") }
    }

    /// Of a record or a set.
    pub(super) fn of(&self, key: &impl Display) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The key of a name of this ledger.
    pub(super) fn inside<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&self.prefix)
    }

    /// Sequence and clock.
    pub(super) fn head(&self) -> String {
        self.of(&"head")
    }

    /// The appointments.
    pub(super) fn due(&self) -> String {
        self.of(&"due")
    }

    /// One half of the decision log.
    pub(super) fn log(&self, log: Log) -> String {
        match log {
            Log::Calls => self.of(&"log"),
            Log::Ends => self.of(&"ends"),
        }
    }

    /// What is no record, no set and no appointment.
    pub(super) fn unscanned(&self) -> [String; 3] {
        [self.head(), self.log(Log::Calls), self.log(Log::Ends)]
    }

    /// Where hints are published; not a key.
    pub(super) fn channel(&self) -> String {
        self.of(&"changes")
    }
}
