//! An entry of the ledger, explained.

use std::time::Duration;

use super::{Explanation, Past, Piece, Source, Verdict, moment, of_past, span};
use crate::rules::collector::mark::Traffic;
use crate::rules::collector::outage::Outages;
use crate::rules::collector::policy::{self, Keep, Reason, Sentence, Terms};
use crate::rules::collector::subject::{Lens, Subject};
use crate::rules::colour::{Colour, Grey, Root, colour};
use crate::rules::delete::{self, Decision, Shown};
use crate::rules::entry::{Actor, Entry, Keeper, Origin, State, Timing};
use crate::rules::policy::{BucketPolicy, UnprovenDelete};
use crate::time::UnixMillis;

/// Retentions that are suggested: the first that is longer than it has been paused is the least change.
const LADDER: [Duration; 5] = [hours(1), hours(6), hours(24), hours(7 * 24), hours(30 * 24)];

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3600)
}

/// What an entry is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The ledger's clock.
    pub now: UnixMillis,
    /// The lengths of time in force.
    pub timing: &'a Timing,
    /// The policy of its bucket.
    pub policy: &'a BucketPolicy,
    /// How long after its end, or the end of its lease, it may be overdue.
    pub overdue_grace: Duration,
}

/// Explains an entry; `past` is what the log says of it.
#[must_use]
pub fn of_entry(entry: &Entry, past: &[Past], facts: &Facts<'_>) -> Explanation {
    let colour = colour(entry, facts.now, facts.timing, facts.policy.ceilings);
    if colour == Colour::Grey(Grey::Dead) {
        return dead(entry, past, facts);
    }
    let (verdict, branch) = branch(entry, colour, facts);
    Explanation { verdict, branch, evidence: evidence(entry, facts), flip: flip(entry, colour, facts) }
}

/// Who ended it stands in the log, for longer than the entry.
fn dead(entry: &Entry, past: &[Past], facts: &Facts<'_>) -> Explanation {
    let told = of_past(past, facts.now);
    if told.verdict == Verdict::Ended {
        return told;
    }
    let (branch, piece) = match entry.state {
        State::Gone { at, proof, .. } => {
            ("it has ended", Piece::new("proof", proof.name(), Source::Ledger, Some(at)))
        }
        _ => ("Cube refused to make it", Piece::new("state", entry.state.name(), Source::Ledger, None)),
    };
    Explanation { verdict: Verdict::Ended, branch: branch.to_owned(), evidence: vec![piece], flip: None }
}

fn branch(entry: &Entry, colour: Colour, facts: &Facts<'_>) -> (Verdict, String) {
    let (verdict, says) = match colour {
        Colour::Black(Root::Operation) if !entry.usable() => {
            (Verdict::OnItsWay, "its create is under way".to_owned())
        }
        Colour::Black(Root::Operation) => (Verdict::Kept, "a call is under way on it".to_owned()),
        Colour::Black(Root::Hold) => (Verdict::Kept, "an operator keeps it".to_owned()),
        Colour::Black(Root::Lease) => (Verdict::Kept, "its holder shows that it lives".to_owned()),
        Colour::Black(Root::Deadline) => (Verdict::Kept, "the end that it was granted is ahead".to_owned()),
        Colour::Black(Root::Import) => (
            Verdict::Kept,
            "it was found, not made here, and nobody has released it for judgement".to_owned(),
        ),
        Colour::Grey(Grey::Ambiguous) => {
            (Verdict::OnItsWay, "the answer to its create was lost; it is looked for".to_owned())
        }
        Colour::Grey(Grey::Condemned) => (Verdict::Ending, condemned(entry)),
        Colour::Grey(Grey::NoRoot) => rootless(entry, facts),
        Colour::Grey(Grey::Dead) => (Verdict::Ended, "it is dead".to_owned()),
    };
    (verdict, format!("{says} ({}: {})", colour.name(), colour.reason()))
}

fn condemned(entry: &Entry) -> String {
    let wanted = entry.kill().map_or("somebody", |kill| kill.actor.name());
    match entry.state {
        State::Quarantined(_) => {
            format!("its end is written down ({wanted} wanted it), and killing it failed too often")
        }
        _ => format!("its end is written down ({wanted} wanted it) and carried out"),
    }
}

/// Nothing keeps it: the bucket's policy alone says what becomes of it. Whether it has traffic is not known here.
fn rootless(entry: &Entry, facts: &Facts<'_>) -> (Verdict, String) {
    let outages = Outages::default();
    let lens = Lens { now: facts.now, timing: facts.timing, outages: &outages, cycle: Duration::ZERO };
    let terms = Terms { retention: facts.policy.retention, overdue_grace: facts.overdue_grace };
    let subject = Subject::of(entry, facts.policy.ceilings, &lens);
    let said = subject.map(|subject| policy::sentence(&subject, Traffic::Unknown, terms, facts.now));
    let (verdict, why) = match said {
        Some(Sentence::End { reason, allowed, .. }) => (Verdict::WouldEnd, ends(reason, allowed)),
        Some(Sentence::Stay { keep, .. }) => (Verdict::Kept, stays(entry, keep, facts)),
        None => (Verdict::Kept, "nothing is known of its sandbox".to_owned()),
    };
    (verdict, format!("no root keeps it, and {why}"))
}

fn ends(reason: Reason, allowed: Duration) -> String {
    let allowed = span(allowed);
    match reason {
        Reason::Retention => format!("it is paused for longer than {allowed}"),
        Reason::LeaseLapsed => "its lease lapsed long ago".to_owned(),
        Reason::OverdueIdle => "its end passed long ago and it is idle".to_owned(),
        Reason::TooIdle => format!("it has shown no sign of life for longer than {allowed}"),
        Reason::TooOld => format!("it is older than {allowed}"),
    }
}

fn stays(entry: &Entry, keep: Keep, facts: &Facts<'_>) -> String {
    match keep {
        Keep::NoRetention => "its bucket keeps paused ones for ever".to_owned(),
        Keep::WithinRetention => {
            format!(
                "its bucket keeps paused ones for {}",
                facts.policy.retention.map_or("ever".to_owned(), span)
            )
        }
        Keep::WithinGrace if entry.lease.is_some() => "its lease lapsed only lately".to_owned(),
        Keep::WithinGrace => "its end passed only lately".to_owned(),
        Keep::UseUnknown => "nobody tells whether it is still in use".to_owned(),
        Keep::Used => "it was used lately".to_owned(),
        Keep::Endless => "it runs without an end".to_owned(),
    }
}

fn evidence(entry: &Entry, facts: &Facts<'_>) -> Vec<Piece> {
    let now = facts.now;
    let mut pieces =
        vec![Piece::new("state", state(entry), Source::Ledger, entry.first_seen.or(entry.dispatched))];
    let mut add = |what, says: String, source, at| pieces.push(Piece::new(what, says, source, at));
    if entry.origin != Origin::Created {
        let released = if entry.released.is_some() { "released for judgement" } else { "not released" };
        add("origin", format!("found, not made here; {released}"), Source::Cube, Some(entry.asked));
    }
    if let Some(hold) = &entry.hold {
        add("hold", hold.reason.clone(), Source::Operator, Some(hold.since));
    }
    if let Some(lease) = &entry.lease {
        let keeper = match lease.keeper {
            Keeper::Heartbeats => "kept by heartbeats",
            Keeper::Calls => "kept by calls",
        };
        let failing = lease.failing.map_or("", |_| "; Cube does not honour its renewals");
        add(
            "lease",
            format!("{keeper}{failing}"),
            Source::Ledger,
            Some(lease.failing.unwrap_or(lease.renewed)),
        );
    }
    add("last sign", "of life that the warden saw".to_owned(), Source::Ledger, Some(entry.last_sign));
    match entry.deadline {
        Some(deadline) => add("deadline", moment(deadline, now), Source::Cube, None),
        None if entry.usable() => add("deadline", "none".to_owned(), Source::Cube, None),
        None => {}
    }
    for operation in entry.operations.iter().filter(|operation| operation.until > now) {
        add(
            "under way",
            format!("{}, until {} at most", operation.kind, operation.until),
            Source::Ledger,
            None,
        );
    }
    if let Some(kill) = entry.kill() {
        let says = format!("{} wanted it; {} failed tries", kill.actor.name(), kill.attempts);
        add("end", says, Source::Ledger, Some(kill.since));
    }
    if entry.usable() {
        let retention = facts.policy.retention.map_or("for ever".to_owned(), span);
        add("retention", format!("paused ones are kept {retention}"), Source::Policy, None);
        add("a DELETE", deleted(entry, facts), Source::Ledger, None);
    }
    pieces
}

fn state(entry: &Entry) -> String {
    match (&entry.state, entry.paused_since()) {
        (_, Some(since)) => format!("live, paused since {since}"),
        (State::Live(_), None) => "live, running".to_owned(),
        (state, _) => state.name().to_owned(),
    }
}

/// What its client's own DELETE by the bare id would do now.
fn deleted(entry: &Entry, facts: &Facts<'_>) -> String {
    match delete::decide(Actor::Client, &Shown::nothing(), entry, facts.now, facts.timing) {
        Decision::Unproven => {
            let does = match facts.policy.unproven_delete {
                UnprovenDelete::Defer => "drops one claim of",
                UnprovenDelete::Refuse => "is refused because of",
            };
            format!("by the bare id {does} {} holders", entry.holders)
        }
        Decision::Allow => "by the bare id ends it".to_owned(),
        _ => "by the bare id does nothing".to_owned(),
    }
}

fn flip(entry: &Entry, colour: Colour, facts: &Facts<'_>) -> Option<String> {
    let name = entry.sandbox.as_ref().map_or(entry.marker.as_str(), |id| id.as_str());
    let now = facts.now;
    match colour {
        Colour::Black(Root::Operation) => {
            let until = entry.operations.iter().map(|operation| operation.until).max();
            Some(until.map_or("its create ends".to_owned(), |until| {
                format!("the calls end, by {}", moment(until, now))
            }))
        }
        Colour::Black(Root::Hold) => {
            let rest = entry.clone().let_go().map(|rest| after(&rest, facts)).unwrap_or_default();
            Some(format!("`cubewarden unhold {name}`; without the hold: {rest}"))
        }
        Colour::Black(Root::Import) => {
            let rest = entry.clone().release(now).map(|rest| after(&rest, facts)).unwrap_or_default();
            Some(format!("`cubewarden release {name}`; once released: {rest}"))
        }
        Colour::Black(Root::Lease) => {
            let silent = entry.last_sign.plus(facts.timing.root_fresh);
            Some(format!("no sign of life until {}", moment(silent, now)))
        }
        Colour::Black(Root::Deadline) => {
            entry.deadline.map(|deadline| format!("it is not renewed until {}", moment(deadline, now)))
        }
        Colour::Grey(Grey::NoRoot) => Some(flip_policy(entry, facts)),
        Colour::Grey(Grey::Ambiguous) => {
            let horizon = entry.dispatched.unwrap_or(entry.asked).plus(facts.timing.horizon);
            Some(format!("Cube's list shows it, or three do not, the last after {}", moment(horizon, now)))
        }
        Colour::Grey(Grey::Condemned | Grey::Dead) => None,
    }
}

/// What it would be then, in one word.
fn after(entry: &Entry, facts: &Facts<'_>) -> &'static str {
    colour(entry, facts.now, facts.timing, facts.policy.ceilings).reason()
}

/// The least change of its bucket's policy, or of what is known, that would change what becomes of a rootless one.
fn flip_policy(entry: &Entry, facts: &Facts<'_>) -> String {
    let (now, bucket) = (facts.now, &entry.bucket);
    match (entry.paused_since(), facts.policy.retention) {
        (Some(since), None) => {
            let paused = now.since(since);
            let longest = LADDER[LADDER.len() - 1];
            let step = LADDER.into_iter().find(|step| *step > paused);
            let when =
                step.map_or("at once".to_owned(), |step| format!("in {}", span(step.saturating_sub(paused))));
            let step = span(step.unwrap_or(longest));
            format!("retention {step} for bucket {bucket} would collect it {when}")
        }
        (Some(since), Some(retention)) => {
            let paused = now.since(since);
            if paused > retention {
                let longer = LADDER.into_iter().find(|step| *step > paused);
                let longer = longer.map_or("0s (for ever)".to_owned(), span);
                format!("a resume, a hold, or retention {longer} for bucket {bucket} would keep it")
            } else {
                format!("time: it would be collected in {}", span(retention.saturating_sub(paused)))
            }
        }
        (None, _) => match entry.lease_lapsed(now, facts.timing) {
            Some(lapsed) => {
                let end = lapsed.plus(facts.overdue_grace);
                if end > now {
                    format!("time: its holder must beat before {}", moment(end, now))
                } else {
                    "a heartbeat of its holder, or a hold, would keep it".to_owned()
                }
            }
            None if entry.deadline.is_some() => {
                "upstream.activity = \"cubeproxy\" would tell whether it is idle".to_owned()
            }
            None => format!(
                "default_timeout or max_timeout for bucket {bucket} gives the next ones an end; this one \
                             ends by `cubewarden kill`"
            ),
        },
    }
}
