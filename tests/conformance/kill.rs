//! Kill -9: a child commits as fast as it can and says what was confirmed; the parent kills it somewhere in between.
//!
//! The child is this same test binary, told by a variable to run one test of it. Each strike writes two records, a
//! membership, an appointment and a line of the log: after the death all five are there, or none.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use cubewarden::store::embedded::Embedded;
use cubewarden::store::schema::Set;
use cubewarden::store::{Appointment, Batch, Committed, Log, Store};
use cubewarden::time::{Chance, UnixMillis, WallClock};

use super::place::{slots, volume};

const DIRECTORY: &str = "CUBEWARDEN_TEST_HAMMER";
const FIRST: &str = "CUBEWARDEN_TEST_HAMMER_FIRST";
const ROUNDS: u64 = 20;
const HANDS: usize = 16;

fn strike(number: u64) -> Batch {
    let member = format!("{number:09}");
    let at = Some(UnixMillis(number));
    Batch {
        put: vec![
            (volume(&format!("l{member}")), vec![b'x'; 300]),
            (volume(&format!("r{member}")), vec![b'y'; 30]),
        ],
        join: vec![(anvil(), member.clone())],
        appointments: vec![Appointment { member: member.clone(), was: None, is: at }],
        log: vec![member.into_bytes()],
        ..Batch::default()
    }
}

fn anvil() -> Set {
    slots("a/b")
}

/// Alone it strikes a hundred times and looks whether they are there; as a child it strikes until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hammer_strikes_until_it_is_killed_or_a_hundred_times() {
    if let Some(directory) = variable(DIRECTORY) {
        let first = variable(FIRST).unwrap().parse().unwrap();
        hammer(Path::new(&directory), first, u64::MAX).await;
    } else {
        let directory = tempfile::tempdir().unwrap();
        hammer(directory.path(), 0, 100).await;
        let store = Embedded::open(directory.path(), Arc::new(WallClock)).unwrap();
        assert_eq!(whole(&store, 0..100).await, (0..100).collect::<Vec<_>>());
    }
}

#[expect(clippy::disallowed_methods, reason = "how the parent tells the child what to do")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

async fn hammer(directory: &Path, first: u64, end: u64) {
    let store = Arc::new(Embedded::open(directory, Arc::new(WallClock)).unwrap());
    let next = Arc::new(AtomicU64::new(first));
    let hands: Vec<_> = (0..HANDS)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, SeqCst);
                    if number >= end {
                        break;
                    }
                    assert!(matches!(store.commit(strike(number)).await, Ok(Committed::Done(_))));
                    println!("\nconfirmed {number}");
                }
            })
        })
        .collect();
    for hand in hands {
        hand.await.unwrap();
    }
}

/// Which of `numbers` are there; none of them may be there in part.
async fn whole(store: &Embedded, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let members = store.members(&anvil(), None, usize::MAX).await.unwrap();
    let due = store.due(UnixMillis(u64::MAX), usize::MAX).await.unwrap();
    let logged = store.log(Log::Calls, 0, usize::MAX).await.unwrap();
    let mut log: Vec<_> = logged.into_iter().map(|line| String::from_utf8(line.value).unwrap()).collect();
    log.sort_unstable();
    assert_eq!(members, due, "members and appointments");
    assert_eq!(members, log, "members and log");
    assert_eq!(store.sizes(&[anvil()]).await.unwrap(), [members.len() as u64]);
    let mut found = Vec::new();
    for number in numbers {
        let member = format!("{number:09}");
        let keys = [volume(&format!("l{member}")), volume(&format!("r{member}"))];
        let records = store.read(&keys).await.unwrap().records;
        let parts = records.iter().filter(|record| record.version > 0).count();
        let is_member = members.binary_search(&member).is_ok();
        assert!(parts == if is_member { 2 } else { 0 }, "strike {number} is there in part");
        assert_eq!(records[0].version, records[1].version);
        found.extend(is_member.then_some(number));
    }
    found
}

fn child(directory: &Path, first: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "conformance::kill::the_hammer_strikes_until_it_is_killed_or_a_hundred_times",
        ])
        .env(DIRECTORY, directory)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a child strike, kills it when it has confirmed `strikes`, and returns all that it confirmed.
fn confirmed_until_killed(directory: &Path, first: u64, strikes: usize) -> Vec<u64> {
    let mut child = child(directory, first);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = lines.filter_map(|line| Some(line.strip_prefix("confirmed ")?.parse().unwrap()));
    let mut confirmed: Vec<u64> = said.by_ref().take(strikes).collect();
    assert_eq!(confirmed.len(), strikes, "the child ended by itself");
    child.kill().unwrap();
    // What it still said before it died was confirmed too.
    confirmed.extend(said);
    child.wait().unwrap();
    confirmed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_kill_9_everything_confirmed_is_there_and_nothing_is_there_in_part() {
    let directory = tempfile::tempdir().unwrap();
    let seed = Chance::from_os().below(u64::MAX);
    let chance = Chance::seeded(seed);
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let first = round * 1_000_000;
        let strikes = 1 + usize::try_from(chance.below(200)).unwrap();
        let confirmed = confirmed_until_killed(directory.path(), first, strikes);
        let end = confirmed.iter().max().unwrap() + HANDS as u64 + 1;
        all.extend(confirmed);
        let store = Embedded::open(directory.path(), Arc::new(WallClock)).unwrap();
        whole(&store, first..end).await;
        let members = store.members(&anvil(), None, usize::MAX).await.unwrap();
        let lost: Vec<_> =
            all.iter().filter(|number| members.binary_search(&format!("{number:09}")).is_err()).collect();
        assert!(lost.is_empty(), "seed {seed}, round {round}: confirmed and lost: {lost:?}");
    }
}
