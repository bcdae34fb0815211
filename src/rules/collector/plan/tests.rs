//! Plans: capped, shuffled, the same for the same seed.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use super::super::mark::tests::subject;
use super::super::mark::{Doing, Shown as ByCube};
use super::super::mark::{Look, Traffic, Worth, mark};
use super::*;
use crate::time::UnixMillis;

fn ends(of_a: usize, of_b: usize) -> Vec<Item> {
    let length = Duration::from_secs(60);
    let look = Look {
        now: UnixMillis(1_900_000_000_000),
        worth: Worth::Confirms,
        cycle: length,
        confirmations: 2,
        newborn: length,
        root_fresh: length,
    };
    let shown = ByCube { doing: Doing::Running, started: None, end: None };
    let one = |n: usize, bucket: &str| {
        let mut subject = subject();
        subject.marker = Marker::new(&format!("{n:032x}")).unwrap();
        subject.bucket = Bucket::parse(bucket).unwrap();
        let marked = mark(&subject, Some(&shown), Traffic::Unknown, None, &look);
        Item::of(&subject, marked.mark.unwrap(), Reason::Retention, length, length)
    };
    (0..of_a).map(|n| one(n, "a/prod")).chain((0..of_b).map(|n| one(1000 + n, "b/prod"))).collect()
}

fn terms(most_kills: usize, most_kills_per_bucket: usize) -> Terms {
    let length = Duration::from_secs(60);
    Terms {
        cycle: length,
        confirmations: 2,
        overdue_grace: length,
        root_fresh: length,
        skip_cap: 3,
        most_kills,
        most_kills_per_bucket,
    }
}

#[test]
fn no_bucket_and_no_cycle_gets_more_than_its_cap_and_the_rest_is_counted() {
    let plan = plan(ends(40, 5), &terms(20, 16), 1);
    let mut by_bucket: BTreeMap<String, usize> = BTreeMap::new();
    plan.items.iter().for_each(|item| *by_bucket.entry(item.bucket.to_string()).or_default() += 1);
    assert!(plan.items.len() <= 20 && by_bucket["a/prod"] == 16, "{by_bucket:?}");
    assert_eq!(plan.items.len() + plan.later, 45);
    assert_eq!(super::plan(ends(4, 5), &terms(0, 9), 1).later, 9);
}

#[test]
fn the_same_seed_gives_the_same_plan_and_over_many_seeds_everybody_comes_first_once() {
    let of = |seed| plan(ends(8, 0), &terms(1, 1), seed).items[0].marker.clone();
    assert_eq!(of(7), of(7));
    let firsts: BTreeSet<Marker> = (0..200).map(of).collect();
    assert_eq!(firsts.len(), 8);
}
