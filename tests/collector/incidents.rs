//! The incidents of the article, replayed.

use std::collections::BTreeSet;

use cubewarden::rules::entry::Entry;
use cubewarden::time::UnixMillis;

use super::{HOUR, old, paced, world};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::{Fault, Rule};

/// July 13: 100 zombies, 93 of them paused and 23 to 41 hours overdue, hold the whole quota.
#[tokio::test]
async fn july_13_the_paused_are_freed_by_their_policy_and_the_working_are_not() {
    let world = paced(Profile::V060, HOUR, "[bucket_defaults]\nlimit = 100\n").await;
    let mut working = Vec::new();
    for _ in 0..7 {
        working.push(world.create(7200, "kill").await);
    }
    let mut paused = 0_usize;
    for hour in 0..41_usize {
        let wanted = if hour < 18 { (93 - paused).div_ceil(18 - hour) } else { 0 };
        for _ in 0..wanted {
            world.create(300, "pause").await;
        }
        paused += wanted;
        for id in &working {
            world.cube.traffic(id);
        }
        world.cycles(1).await;
    }
    assert_eq!((paused, world.warden.held().await), (93, 100));
    let entries = world.warden.entries().await;
    let overdue = |entry: &Entry| world.now().since(entry.deadline.unwrap());
    let of_paused = || entries.iter().filter(|entry| entry.paused_since().is_some());
    assert_eq!(of_paused().count(), 93);
    let (least, most) = (of_paused().map(overdue).min().unwrap(), of_paused().map(overdue).max().unwrap());
    assert!(least > 22 * HOUR && most > 40 * HOUR, "{least:?} to {most:?}");
    assert_eq!(world.try_create().await.status, 429);
    let ends = |rule: fn(&Entry, UnixMillis) -> bool| {
        entries.iter().filter(|entry| rule(entry, world.now())).count()
    };
    assert_eq!(ends(old::leaves_the_overdue_to_cube), 0, "the old rule leaves the quota full for ever");
    assert_eq!(ends(old::ends_all_that_is_overdue), 100, "and its first mend ends those that work, too");

    world.reload("retention = \"24h\"\n");
    for _ in 0..3 {
        for id in &working {
            world.cube.traffic(id);
        }
        world.cycles(1).await;
    }
    assert_eq!(world.warden.held().await, 7);
    assert!(working.iter().all(|id| world.is_there(id)));
    assert_eq!(world.try_create().await.status, 201);
}

/// The second round: 85 and 173 paused ones, each with a lease that expired long ago.
#[tokio::test]
async fn the_second_round_a_lapsed_lease_is_no_root_and_retention_decides() {
    let config = "[[bucket]]\nnamespace = \"builder\"\nenv = \"prod\"\nretention = \"12h\"\n\
                  [[bucket]]\nnamespace = \"dasheng\"\nenv = \"prod\"\nretention = \"0s\"\n";
    let world = paced(Profile::V060, HOUR, config).await;
    for n in 0..85 {
        world.lease("builder/prod", &format!("r{n}"), 300).await;
    }
    for n in 0..173 {
        world.lease("dasheng/prod", &format!("r{n}"), 300).await;
    }
    world.cycles(12).await;
    let entries = world.warden.entries().await;
    assert_eq!(entries.len(), 258);
    assert!(entries.iter().all(|entry| entry.paused_since().is_some() && entry.lease.is_some()));
    let old = entries.iter().filter(|entry| old::keeps_what_holds_a_lease(entry, world.now())).count();
    assert_eq!(old, 0, "the old rule keeps them all for ever");
    world.cycles(1).await;
    let entries = world.warden.entries().await;
    assert_eq!(entries.len(), 258, "they were paused when that was first seen, not quite twelve hours ago");
    world.cycles(1).await;
    let entries = world.warden.entries().await;
    assert_eq!(entries.len(), 173, "exactly those whose bucket says so, all of them");
    assert!(entries.iter().all(|entry| entry.bucket.to_string() == "dasheng/prod"));
    world.cycles(6).await;
    assert_eq!(world.warden.held().await, 173, "retention 0 keeps for ever");
}

/// The third round: the last sandbox goes, the list falls from one to none, and the quota is full.
#[tokio::test]
async fn the_third_round_a_list_that_falls_from_one_to_none_is_settled_by_a_single_get() {
    let world = world(Profile::V060, "[bucket_defaults]\nlimit = 1\n").await;
    let last = world.create(600, "kill").await;
    world.cycles(5).await;
    assert_eq!(world.try_create().await.status, 429);
    assert!(!old::looks_at_a_list(1, 0), "the old rule never looks again");
    assert!(world.cube.let_die(&last));
    world.cycles(1).await;
    assert_eq!(world.warden.held().await, 0);
    assert_eq!(world.try_create().await.status, 201);
}

/// The same, where the last one was paused by Cube and only vanished from its list: it is there, and goes by its retention.
#[tokio::test]
async fn what_is_paused_and_left_out_of_the_list_is_found_by_get_and_locks_nothing() {
    let world = world(Profile::V060, "[bucket_defaults]\nlimit = 1\nretention = \"10m\"\n").await;
    let last = world.create(300, "pause").await;
    world.cycles(4).await;
    world.cube.fault(Fault::Omit { ids: BTreeSet::from([last.clone()]) });
    world.cycles(10).await;
    assert!(world.entry(&last).await.paused_since().is_some(), "a GET says so");
    assert!(world.is_there(&last), "a list that lies frees nothing");
    assert_eq!(world.try_create().await.status, 429);
    world.cycles(4).await;
    assert!(!world.is_there(&last));
    assert_eq!(world.try_create().await.status, 201);
}

/// v0.5.1 refuses to delete what is paused, and its first connect fails.
#[tokio::test]
async fn v0_5_1_refuses_to_delete_the_paused_and_they_are_gone_within_two_cycles() {
    let config = "[bucket_defaults]\nretention = \"1h\"\n[reconciler]\nmax_wakes = 2\n";
    let world = world(Profile::V051, config).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(world.create(300, "pause").await);
    }
    world.cycles(65).await;
    assert_eq!(world.warden.held().await, 8);
    let broken: Rule = Fault::TransportError.on(Kind::Resume).on(Kind::Connect).id(&ids[0]);
    let fault = world.cube.fault(broken.times(2));
    world.cube.forget_requests();
    world.cycles(1).await;
    assert_eq!(world.cube.struck(fault), 2, "resume and connect have failed once");
    assert_eq!(
        world.warden.held().await,
        1,
        "the old rule tried once a round, and a round that fails leaves it"
    );
    assert!(world.is_there(&ids[0]));
    world.cycles(1).await;
    assert_eq!(world.warden.held().await, 0);
    assert!(ids.iter().all(|id| !world.is_there(id)));
    let (mut awake, mut most) = (BTreeSet::new(), 0);
    for seen in world.cube.requests() {
        let Some((id, deed)) = seen
            .head
            .target
            .strip_prefix("/sandboxes/")
            .map(|rest| rest.split_once('/').unwrap_or((rest, "")))
        else {
            continue;
        };
        match (seen.head.method.as_str(), deed) {
            ("POST", "resume") if id != ids[0] => drop(awake.insert(id.to_owned())),
            ("DELETE", _) => drop(awake.remove(id)),
            _ => {}
        }
        most = most.max(awake.len());
    }
    assert!((1..=2).contains(&most), "never more awake at once than the budget: {most}");
}

/// August 13: 106 paused, the oldest for 32 days, and no bucket has a retention: nobody was told.
#[tokio::test]
async fn august_13_what_is_kept_for_ever_is_reported_with_its_cost_from_the_first_day() {
    let six_hours = 6 * HOUR;
    let config = "price_per_vcpu_hour = \"0.05\"\n[bucket_defaults]\nretention = \"0s\"\n";
    let world = paced(Profile::V060, six_hours, config).await;
    let oldest = "cubewarden_oldest_zombie_seconds{bucket=\"default/dev\"}";
    for day in 0..32 {
        for _ in 0..if day == 0 { 13 } else { 3 } {
            world.create(300, "pause").await;
        }
        world.cycles(4).await;
        if day == 1 {
            assert!(world.metric(oldest).await >= 86_400.0, "an alert on this fires once a day has passed");
            let kept = "cubewarden_zombies{age=\"days\",bucket=\"default/dev\",state=\"paused\"}";
            assert!(world.metric(kept).await >= 13.0);
        }
    }
    let entries = world.warden.entries().await;
    assert_eq!(entries.len(), 106);
    let old = entries.iter().filter(|entry| old::reports(entry, 0, world.now())).count();
    assert_eq!(old, 0, "the old rule has nothing to say of them");
    world.cycles(2).await;
    let found = world.admin("/v1/admin/collector").await["found"].clone();
    let kept = &found["kept"][0];
    assert_eq!((&kept["bucket"], &kept["count"]), (&"default/dev".into(), &106.into()));
    assert_eq!(kept["vcpu"], "212.00");
    assert_eq!(kept["reasons"]["no_retention"], 106);
    assert!(kept["oldest_seconds"].as_u64().unwrap() > 31 * 86_400, "{kept}");
    let cost: f64 = kept["cost"].as_str().unwrap().parse().unwrap();
    let hours: f64 = kept["vcpu_hours"].as_str().unwrap().parse().unwrap();
    assert!(hours > 212.0 * 24.0 * 14.0 && (cost - hours * 0.05).abs() < 0.01, "{kept}");
    assert_eq!(kept["retention_frees"]["1h"], 106);
    assert!(kept["retention_frees"]["7days"].as_u64().unwrap() > 70, "{kept}");
    assert_eq!(world.warden.held().await, 106, "and all of it is kept");
    assert!(world.metric("cubewarden_events_total{event=\"kept_though_rootless\"}").await >= 30.0, "daily");
}

/// An outage of half a day is nobody's fault: everybody is given that time again.
#[tokio::test]
async fn an_outage_is_given_back_to_every_clock() {
    let world = world(Profile::V060, "[bucket_defaults]\nretention = \"30m\"\n").await;
    let paused = world.create(300, "pause").await;
    let lease = world.lease("default/dev", "run", 36000).await;
    let leased = lease.text("sandbox_id");
    world.cycles(10).await;
    world.cube.advance(12 * HOUR).unwrap();
    world.cycles(4).await;
    assert!(
        world.is_there(&paused),
        "it has been paused for some minutes, as far as anybody could do anything"
    );
    assert!(world.is_there(&leased));
    world.cycles(12).await;
    assert!(world.is_there(&paused));
    world.cycles(12).await;
    assert!(!world.is_there(&paused), "half an hour after its pause, the outage apart");
}
