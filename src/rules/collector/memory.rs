//! What the collector of one Cube knows from one cycle to the next; it lies in the ledger, so that another can go on.
//!
//! Must stay true: a leader that was not the last one confirms nothing with its first listing; a listing that did not come
//! takes no mark away.

use std::collections::{BTreeMap, HashMap};

use super::Terms;
use super::mark::{Mark, Worth};
use super::outage::{Outage, Outages};
use crate::ids::{InstanceId, Marker};
use crate::rules::listing::Verdict;
use crate::time::UnixMillis;

/// What lies in the ledger beside the marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How many cycles have taken in a list.
    pub cycle: u64,
    /// Whose the last one was.
    pub leader: Option<InstanceId>,
    /// When the last one was.
    pub at: Option<UnixMillis>,
    /// When the last one was that was trusted.
    pub trusted: Option<UnixMillis>,
    /// Suspect listings in a row.
    pub suspect: u32,
    /// How many sandboxes each host had in the last trusted listing; of those that name none, under "".
    pub hosts: BTreeMap<String, u64>,
    /// What is given back to everybody's clocks.
    pub outages: Outages,
    /// What the last sweep did.
    pub sweep: Sweep,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// When.
    pub at: Option<UnixMillis>,
    /// How many the plan named.
    pub planned: u64,
    /// How many were condemned.
    pub condemned: u64,
    /// How many had changed, or were kept by something, at the last moment.
    pub kept: u64,
    /// How many the caps left for later.
    pub later: u64,
}

/// Everything that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Beside the marks.
    pub state: State,
    /// What nothing kept when it was last seen.
    pub marks: HashMap<Marker, Mark>,
}

/// How a cycle deals with its listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As usual: in doubt it is skipped.
    Usual,
    /// Too many were skipped: every sandbox that it leaves out is asked about, and what it shows counts.
    Forced,
}

impl State {
    /// How the next cycle deals with its listing.
    #[must_use]
    pub fn mode(&self, terms: &Terms) -> Mode {
        if self.suspect >= terms.skip_cap { Mode::Forced } else { Mode::Usual }
    }

    /// A listing came at `now` for `leader`, and this was thought of it: what is known now, and what it is worth.
    #[must_use]
    pub fn listed(
        mut self,
        leader: &InstanceId,
        now: UnixMillis,
        verdict: Verdict,
        terms: &Terms,
    ) -> (Self, Worth) {
        let mode = self.mode(terms);
        let outage = self.at.and_then(|before| Outage::between(before, now, terms.cycle));
        let new = self.leader.as_ref() != Some(leader);
        self.suspect = if verdict.is_trusted() { 0 } else { self.suspect.saturating_add(1) };
        let counts = verdict.is_trusted() || mode == Mode::Forced;
        let worth = if counts && !new && outage.is_none() { Worth::Confirms } else { Worth::Nothing };
        if let Some(outage) = outage {
            self.outages = self.outages.with(outage);
        }
        (self.cycle, self.leader, self.at) = (self.cycle + 1, Some(leader.clone()), Some(now));
        if verdict.is_trusted() {
            self.trusted = Some(now);
        }
        (self, worth)
    }
}

#[cfg(test)]
mod tests;
