//! The incident of 18 June 2026, twice from the same state.
//!
//! 704 sandboxes on the node that never time out: 385 of a warm pool, 319 of five instances that no longer exist. The write path is
//! full of writes that nobody waits for any more, 140 clients want sandboxes and come again after each failure, and a reclaimer finds
//! up to 216 candidates a round.
//! First as it was: everybody calls Cube, nothing holds creates back, and kills are awaited one after the other.
//! Then with a warden before it: default settings, no limit of any kind. The same clients; the reclaimer no longer waits for one kill
//! before it asks for the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cubewarden::time::Chance;

use super::chart;
use super::people::{Habits, INSTANCE, Person};
use super::record::{self, Note};
use super::stage::Stage;
use crate::cube::WritePath;
use crate::cube::faults::Fault;

const SEED: u64 = 18;
const WARM_POOL: usize = 385;
const UNOWNED: usize = 319;
const CANDIDATES: usize = 216;
const CLIENTS: u64 = 140;
/// Writes under way at the beginning that nobody waits for.
const ABANDONED: u32 = 250;
const LENGTH: Duration = Duration::from_secs(15 * 60);

const HABITS: Habits = Habits {
    enters: (Duration::ZERO, Duration::from_secs(5)),
    works: (Duration::from_secs(60), Duration::from_secs(120)),
    rests: (Duration::from_secs(5), Duration::from_secs(30)),
};

/// Everything that was there before.
fn before_the_day(seed: u64) -> Stage {
    let stage = Stage::new(seed);
    let labels = |key: &str, value: String| BTreeMap::from([(key.to_owned(), value)]);
    stage.cube.seed_sandboxes(WARM_POOL, &labels("pool", "warm".to_owned()));
    for nth in 0..UNOWNED {
        stage.cube.seed_sandboxes(1, &labels(INSTANCE, format!("gone-{}", nth % 5)));
    }
    stage
}

fn somebody(stage: &Stage, seed: u64) -> Person {
    Person {
        caller: stage.caller(),
        clock: stage.clock.clone(),
        tally: Arc::clone(&stage.tally),
        chance: Chance::seeded(seed),
    }
}

/// From here on it is the day.
fn the_day(stage: &Stage, seed: u64, kills_at_once: usize, length: Duration) -> Vec<Note> {
    stage.cube.fault(Fault::StrainedWrites(WritePath::JUNE_18));
    stage.cube.overrun(ABANDONED);
    for nth in 1..=CLIENTS {
        stage.enters(somebody(stage, seed.wrapping_mul(1000) + nth).live(HABITS));
    }
    stage.enters(somebody(stage, seed).reclaim(CANDIDATES, kills_at_once));
    record::watch(stage, length)
}

fn as_in_the_article(seed: u64, length: Duration) -> Vec<Note> {
    the_day(&before_the_day(seed), seed, 1, length)
}

fn with_a_warden(seed: u64, length: Duration) -> Vec<Note> {
    let mut stage = before_the_day(seed);
    stage.start_warden(seed);
    // It has seen what is there: whoever is there before a day begins to go wrong has had that minute.
    stage.pass(Duration::from_secs(60));
    the_day(&stage, seed, 32, length)
}

/// When it was over: nothing is left that no instance owns, and for a minute no call has failed.
fn recovered(notes: &[Note]) -> Option<Duration> {
    let minute = 60 / usize::try_from(record::EVERY.as_secs()).unwrap();
    let over = notes.windows(minute + 1).find(|minute| {
        let (first, last) = (minute[0], minute[minute.len() - 1]);
        last.unowned == 0 && last.created > first.created && last.failed() == first.failed()
    });
    over.map(|minute| minute[minute.len() - 1].at)
}

fn at(notes: &[Note], seconds: u64) -> &Note {
    notes.iter().find(|note| note.at.as_secs() == seconds).unwrap()
}

#[test]
fn june_18_stays_stuck_by_itself_and_recovers_with_the_warden() {
    let article = as_in_the_article(SEED, LENGTH);
    let warden = with_a_warden(SEED, LENGTH);
    println!("{}", record::table(&article, &warden));
    let over = recovered(&warden);
    println!("recovered: as in the article {:?}, with cubewarden {over:?}", recovered(&article));
    if let Some(path) = std::env::var_os("REPLAY_CHART") {
        std::fs::write(path, chart::draw(&article, &warden)).unwrap();
    }

    let (first, last) = (article[0], article[article.len() - 1]);
    assert_eq!((first.residents, first.unowned), (704, 319));
    assert_eq!(
        (last.deleted, last.created, last.unowned),
        (0, 0, 319),
        "nothing is deleted, nothing created"
    );
    assert!(article.is_sorted_by_key(|note| note.residents), "nothing leaves");
    assert!(last.residents > first.residents, "creates that were too late for their clients leave orphans");
    assert!(article.windows(7).all(|minute| minute[6].creates_failed > minute[0].creates_failed));
    assert!(last.kills_failed > 10 && recovered(&article).is_none());

    let (window, later, last) = (at(&warden, 120), at(&warden, 240), warden[warden.len() - 1]);
    assert!(window.unowned < 319 && later.unowned < window.unowned, "from the first window on: {window:?}");
    let over = over.unwrap();
    assert!(over <= Duration::from_secs(600), "{over:?}");
    assert!(last.residents < 704 - 319 + CLIENTS + 1, "no orphan is left: {last:?}");
    assert!(last.created > later.created + CLIENTS, "creates flow: {last:?}");
    assert_eq!(last.failed(), at(&warden, over.as_secs()).failed(), "and nothing fails any more");
}

#[test]
fn the_same_seed_is_the_same_day() {
    let length = Duration::from_secs(100);
    assert_eq!(as_in_the_article(3, length), as_in_the_article(3, length));
    assert_ne!(as_in_the_article(3, length), as_in_the_article(4, length));
    assert_eq!(with_a_warden(3, length), with_a_warden(3, length));
}
