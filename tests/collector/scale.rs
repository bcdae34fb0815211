//! What one cycle's own work costs: reading the ledger, judging everybody, planning. Linear, and without a call per sandbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Bucket, OwnerId, SandboxId};
use cubewarden::ledger::{Import, Ledger, Settings};
use cubewarden::rules::collector::Terms;
use cubewarden::rules::collector::mark::{Colour, Doing, Look, Mark, Shown, Traffic, Worth, mark};
use cubewarden::rules::collector::outage::Outages;
use cubewarden::rules::collector::plan::{Item, plan};
use cubewarden::rules::collector::policy::{self, Sentence, sentence};
use cubewarden::rules::collector::subject::{Lens, Subject};
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::entry::{Activity, Origin, Shape, Timing};
use cubewarden::time::{Chance, Clock as _, ManualClock, Stopwatch, UnixMillis};

use super::HOUR;
use crate::crash::plain::Plain;
use crate::support::faulty_store::FaultyStore;

/// A ledger with so many paused sandboxes.
async fn filled(count: usize, clock: &ManualClock) -> (Ledger, Arc<FaultyStore>) {
    let store = FaultyStore::wrap(Arc::new(Plain::new(clock.clone())));
    let settings =
        Settings { upstream: cubewarden::ids::UpstreamName::new("cube").unwrap(), timing: Timing::default() };
    let ledger = Ledger::open(Arc::clone(&store) as _, settings, Chance::seeded(1)).await.unwrap();
    let bucket = Bucket::parse("a/prod").unwrap();
    for n in 0..count {
        let import = Import {
            sandbox: SandboxId::new(&format!("{n:032x}")).unwrap(),
            marker: Some(ledger.new_marker()),
            bucket: bucket.clone(),
            owner: OwnerId::new(&format!("a.prod.p.{n}")).unwrap(),
            template: "tpl".to_owned(),
            shape: Shape { cpu_milli: 2000, memory_mib: 2048 },
            activity: Activity::Paused(clock.now()),
            origin: Origin::Imported,
            deadline: None,
        };
        ledger.import(&import).await.unwrap();
    }
    (ledger, store)
}

fn terms() -> Terms {
    let cycle = Duration::from_secs(60);
    Terms {
        cycle,
        confirmations: 2,
        overdue_grace: cycle,
        root_fresh: cycle,
        skip_cap: 3,
        most_kills: 50,
        most_kills_per_bucket: 50,
    }
}

/// One cycle's work; how long it took, and how many would end.
async fn cycle(ledger: &Ledger, now: UnixMillis, marks: &mut HashMap<String, Mark>) -> (Duration, usize) {
    let (terms, timing, outages) = (terms(), Timing::default(), Outages::default());
    let watch = Stopwatch::start();
    let lens = Lens { now, timing: &timing, outages: &outages, cycle: terms.cycle };
    let mut subjects = Vec::new();
    ledger
        .each_charged_here(|entry| subjects.extend(Subject::of(&entry, Ceilings::default(), &lens)))
        .await
        .unwrap();
    let look = Look {
        now,
        worth: Worth::Confirms,
        cycle: terms.cycle,
        confirmations: 2,
        newborn: terms.cycle,
        root_fresh: terms.cycle,
    };
    let shown = Shown { doing: Doing::Paused, started: None, end: None };
    let policy = policy::Terms { retention: Some(HOUR), overdue_grace: HOUR };
    let mut ends = Vec::new();
    for subject in &subjects {
        let before = marks.get(subject.marker.as_str());
        let marked = mark(subject, Some(&shown), Traffic::Unknown, before, &look);
        if let (Colour::White, Some(mark), Sentence::End { reason, lasted, allowed }) =
            (marked.colour, marked.mark, sentence(subject, Traffic::Unknown, policy, now))
        {
            ends.push(Item::of(subject, mark, reason, lasted, allowed));
        }
        marks.extend(marked.mark.map(|mark| (subject.marker.to_string(), mark)));
    }
    let plan = plan(ends, &terms, 7);
    (watch.elapsed(), plan.items.len() + plan.later)
}

#[tokio::test]
async fn the_work_of_a_cycle_grows_with_the_sandboxes_and_no_faster() {
    let mut took = Vec::new();
    for count in [1_000, 4_000, 16_000] {
        let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
        let (ledger, store) = filled(count, &clock).await;
        clock.advance(2 * HOUR);
        let mut marks = HashMap::new();
        let commits = store.commits();
        let (first, ends) = cycle(&ledger, clock.now(), &mut marks).await;
        assert_eq!(ends, 0, "once is not enough");
        clock.advance(Duration::from_secs(60));
        let (second, ends) = cycle(&ledger, clock.now(), &mut marks).await;
        assert_eq!((ends, marks.len()), (count, count));
        assert_eq!(store.commits(), commits, "to look at everybody writes nothing");
        println!("{count} sandboxes: {first:?}, then {second:?}");
        took.push(first.min(second));
    }
    // Sixteen times as many: with a margin for whoever else uses this machine, and far from a square.
    assert!(took[2] < took[0] * 16 * 4, "{took:?}");
}
