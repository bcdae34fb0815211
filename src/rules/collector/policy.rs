//! Whether a white subject ends: its bucket's policy says so, and nothing else does.
//!
//! Must stay true: what is paused goes by retention alone, whatever became of its lease (a pause is how a session waits);
//! what runs and may be in use by traffic that nobody sees is kept and reported.

use std::time::Duration;

use super::mark::Traffic;
use super::subject::{Phase, Subject};
use crate::rules::colour::Ceiling;
use crate::rules::entry::Activity;
use crate::time::UnixMillis;

/// Why a white subject ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Paused for longer than the bucket keeps such.
    Retention,
    /// It runs, and its holder has been silent for too long.
    LeaseLapsed,
    /// It runs, overdue, and is known to be idle.
    OverdueIdle,
    /// It has had no sign of life for longer than the bucket's ceiling.
    TooIdle,
    /// It is older than the bucket's ceiling.
    TooOld,
}

impl Reason {
    /// Every reason, in the order of metrics.
    pub const ALL: [Self; 5] =
        [Self::Retention, Self::LeaseLapsed, Self::OverdueIdle, Self::TooIdle, Self::TooOld];

    /// The name in plans, records and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::LeaseLapsed => "lease_lapsed",
            Self::OverdueIdle => "overdue_idle",
            Self::TooIdle => "max_idle",
            Self::TooOld => "max_age",
        }
    }
}

/// Why a white subject stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Paused, and its bucket keeps such for ever.
    NoRetention,
    /// Paused, not yet for as long as its bucket keeps such.
    WithinRetention,
    /// Its lease lapsed, or its end passed, only lately.
    WithinGrace,
    /// It runs overdue, and nobody tells whether it is in use.
    UseUnknown,
    /// It runs overdue, and has been in use lately.
    Used,
    /// It runs and was never given an end.
    Endless,
}

impl Keep {
    /// Whether it stays until somebody does something about it.
    #[must_use]
    pub fn lasts(self) -> bool {
        matches!(self, Self::NoRetention | Self::UseUnknown | Self::Endless)
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRetention => "no_retention",
            Self::WithinRetention => "within_retention",
            Self::WithinGrace => "within_grace",
            Self::UseUnknown => "use_unknown",
            Self::Used => "used_lately",
            Self::Endless => "endless",
        }
    }
}

/// What the policy says, with the numbers behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sentence {
    /// It ends.
    End {
        /// Why.
        reason: Reason,
        /// For how long that has been so.
        lasted: Duration,
        /// How long it may be so.
        allowed: Duration,
    },
    /// It stays, and is reported.
    Stay {
        /// Why.
        keep: Keep,
        /// Since when nothing keeps it, as far as known.
        lasted: Duration,
    },
}

/// What a bucket does with white ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a paused one is kept; `None` for ever.
    pub retention: Option<Duration>,
    /// How long after its end or the end of its lease something may be overdue.
    pub overdue_grace: Duration,
}

/// What becomes of a white subject.
#[must_use]
pub fn sentence(subject: &Subject, traffic: Traffic, terms: Terms, now: UnixMillis) -> Sentence {
    let end = |reason, lasted, allowed| Sentence::End { reason, lasted, allowed };
    if let (Some(Ceiling::Age), Some(allowed)) = (subject.beyond, subject.ceilings.age) {
        return end(Reason::TooOld, subject.known_for, allowed);
    }
    let grace = terms.overdue_grace;
    let idle = idle_for(traffic, now);
    let too_idle = subject.ceilings.idle.filter(|_| subject.beyond == Some(Ceiling::Idle));
    if let (Phase::Live(Activity::Paused(_)), Some(paused)) = (subject.phase, subject.paused_for) {
        return match (terms.retention, too_idle) {
            (Some(retention), _) if paused > retention => end(Reason::Retention, paused, retention),
            (_, Some(allowed)) => end(Reason::TooIdle, subject.silent_for, allowed),
            (Some(_), _) => Sentence::Stay { keep: Keep::WithinRetention, lasted: paused },
            (None, _) => Sentence::Stay { keep: Keep::NoRetention, lasted: paused },
        };
    }
    let used = matches!(traffic, Traffic::Last(_)) && idle.is_none_or(|idle| idle <= grace);
    let lapsed = subject.lapsed_for.filter(|lapsed| *lapsed > grace && !used);
    let overdue = subject.overdue_for.filter(|overdue| *overdue > grace);
    let unused = idle.is_some_and(|idle| idle > grace);
    let since = subject.lapsed_for.max(subject.overdue_for);
    match (lapsed, overdue, too_idle) {
        (Some(lapsed), ..) => end(Reason::LeaseLapsed, lapsed, grace),
        (_, Some(overdue), _) if unused => end(Reason::OverdueIdle, overdue, grace),
        (.., Some(allowed)) if idle.is_some_and(|idle| idle >= allowed) => {
            end(Reason::TooIdle, subject.silent_for, allowed)
        }
        _ => {
            let keep = match since {
                None => Keep::Endless,
                Some(_) if used => Keep::Used,
                Some(since) if since > grace => Keep::UseUnknown,
                Some(_) => Keep::WithinGrace,
            };
            Sentence::Stay { keep, lasted: since.unwrap_or(subject.silent_for) }
        }
    }
}

/// How long there has been no traffic, as far as anybody tells.
fn idle_for(traffic: Traffic, now: UnixMillis) -> Option<Duration> {
    match traffic {
        Traffic::Unknown => None,
        Traffic::NoneFor(watched) => Some(watched),
        Traffic::Last(at) => Some(now.since(at)),
    }
}

#[cfg(test)]
mod tests;
