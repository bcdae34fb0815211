//! What operators are told of a cycle: gauges, and events.
//!
//! Must stay true: the same thing is told once, not with each cycle; what a bucket keeps, once a day.

use std::collections::HashMap;
use std::time::Duration;

use super::super::survey::Inventory;
use super::super::{Kills, Rules, Tasks};
use super::Notes;
use crate::ids::{Bucket, Marker};
use crate::ledger::Decision;
use crate::rules::collector::plan::Item;
use crate::rules::collector::policy::Reason;
use crate::rules::collector::report::{self, Report};
use crate::rules::collector::subject::Phase;
use crate::rules::listing::Verdict;
use crate::telemetry::events::{Event, Told};
use crate::telemetry::{AgeClass, CollectReason, CycleGauges, Delivery, DriftKind, EventKind, ZombieState};
use crate::time::UnixMillis;

/// What a bucket keeps is told again after this.
const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// When each bucket's keeping was told.
pub(super) type KeptTold = HashMap<Bucket, UnixMillis>;

impl Tasks {
    pub(super) fn tell(&self, notes: &mut Notes, report: &Report, inventory: &Inventory, rules: &Rules) {
        self.metrics.cycle_found(&gauges(report, rules));
        self.tell_ends(notes, report, rules);
        self.tell_kept(notes, report);
        self.tell_quarantined(notes, inventory);
        let lies = inventory.verdict == Verdict::Lies;
        if lies && !std::mem::replace(&mut notes.lied, lies) {
            let missing = Some(inventory.drift.not_shown);
            self.event(
                EventKind::ListLies,
                &Event { count: missing, ..because("a GET finds what it leaves out") },
            );
        }
        notes.lied = lies;
        let foreign = self.foreign();
        if std::mem::replace(&mut notes.foreign, foreign) != foreign {
            let event = Event { count: Some(foreign), ..because("another ledger's, or nobody's") };
            self.event(EventKind::Foreign, &event);
        }
    }

    /// Whose end is near, once; where nothing is ended, that is all that comes of it, and it is recorded.
    fn tell_ends(&self, notes: &mut Notes, report: &Report, rules: &Rules) {
        let near: std::collections::HashSet<Marker> =
            report.next.iter().map(|item| item.marker.clone()).collect();
        notes.announced.retain(|marker| near.contains(marker));
        for item in report.next.iter().filter(|item| !notes.announced.contains(&item.marker)) {
            self.event(EventKind::AboutToEnd, &of_item(item));
            if rules.kills == Kills::Withheld {
                let decision = Decision::new("would_collect", &item.why())
                    .with("marker", item.marker.as_str())
                    .with("sandbox_id", item.sandbox.as_str())
                    .with("bucket", item.bucket.to_string())
                    .with("generation", item.mark.generation.0);
                self.ledger.note(decision);
            }
        }
        notes.announced = near;
    }

    fn tell_kept(&self, notes: &mut Notes, report: &Report) {
        notes.kept.retain(|bucket, _| report.kept.contains_key(bucket));
        for (bucket, kept) in report.kept.iter().filter(|(_, kept)| kept.lasting > 0) {
            if notes.kept.get(bucket).is_some_and(|told| report.at.since(*told) < AGAIN) {
                continue;
            }
            notes.kept.insert(bucket.clone(), report.at);
            let reasons: Vec<String> =
                kept.by_reason.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
            let event = Event {
                bucket: Some(bucket.to_string()),
                count: Some(kept.lasting),
                lasted_seconds: Some(report::seconds(kept.oldest)),
                ..because(&reasons.join(", "))
            };
            self.event(EventKind::KeptRootless, &event);
        }
    }

    fn tell_quarantined(&self, notes: &mut Notes, inventory: &Inventory) {
        let quarantined = inventory.subjects.iter().filter(|subject| subject.phase == Phase::Quarantined);
        let now: HashMap<Marker, _> = quarantined.map(|subject| (subject.marker.clone(), subject)).collect();
        for subject in now.values().filter(|subject| !notes.quarantined.contains(&subject.marker)) {
            let event = Event {
                bucket: Some(subject.bucket.to_string()),
                sandbox_id: Some(subject.sandbox.to_string()),
                marker: Some(subject.marker.to_string()),
                ..because("too many attempts to end it failed")
            };
            self.event(EventKind::Quarantined, &event);
        }
        notes.quarantined = now.into_keys().collect();
    }

    /// One was condemned.
    pub(super) fn tell_collected(&self, item: &Item) {
        self.metrics.collected(reason(item.reason));
        self.event(EventKind::Collected, &of_item(item));
    }

    /// Tells of something.
    pub(in crate::tasks) fn event(&self, kind: EventKind, event: &Event) {
        self.metrics.told(kind);
        if self.events.tell(kind, &self.clock.now().to_string(), event) == Told::Lost {
            self.metrics.delivered(Delivery::Lost);
        }
    }
}

/// An event of which only the reason is known.
pub(in crate::tasks) fn because(reason: &str) -> Event {
    Event { reason: reason.to_owned(), ..Event::default() }
}

fn of_item(item: &Item) -> Event {
    Event {
        bucket: Some(item.bucket.to_string()),
        sandbox_id: Some(item.sandbox.to_string()),
        marker: Some(item.marker.to_string()),
        reason: item.why(),
        count: None,
        lasted_seconds: Some(report::seconds(item.lasted)),
    }
}

fn reason(reason: Reason) -> CollectReason {
    match reason {
        Reason::Retention => CollectReason::Retention,
        Reason::LeaseLapsed => CollectReason::LeaseLapsed,
        Reason::OverdueIdle => CollectReason::OverdueIdle,
        Reason::TooIdle => CollectReason::MaxIdle,
        Reason::TooOld => CollectReason::MaxAge,
    }
}

fn gauges(report: &Report, rules: &Rules) -> CycleGauges {
    let label = |bucket: &Bucket| rules.policies.label(bucket).to_owned();
    let zombie = |((bucket, state, age), count): (&(Bucket, report::ZombieState, report::Age), &u64)| {
        let state = match state {
            report::ZombieState::Running => ZombieState::Running,
            report::ZombieState::Paused => ZombieState::Paused,
            report::ZombieState::Quarantined => ZombieState::Quarantined,
        };
        let age = match age {
            report::Age::Minutes => AgeClass::Minutes,
            report::Age::Hours => AgeClass::Hours,
            report::Age::Days => AgeClass::Days,
            report::Age::Weeks => AgeClass::Weeks,
        };
        (label(bucket), state, age, *count)
    };
    let kept =
        |(bucket, kept): (&Bucket, &report::Kept)| (label(bucket), kept.held.cpu_milli, kept.held.memory_mib);
    let oldest = report.zombies.oldest.iter();
    CycleGauges {
        zombies: report.zombies.count.iter().map(zombie).collect(),
        oldest: oldest.map(|(bucket, oldest)| (label(bucket), report::seconds(*oldest))).collect(),
        kept: report.kept.iter().map(kept).collect(),
        drift: vec![
            (DriftKind::NotShown, report.drift.not_shown),
            (DriftKind::NotCharged, report.drift.not_charged),
        ],
    }
}
