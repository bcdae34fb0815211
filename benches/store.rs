//! How many durable commits a second the embedded store makes, beside what the disk itself can sync. About four seconds.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use cubewarden::ids::Bucket;
use cubewarden::store::embedded::Embedded;
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Appointment, Batch, Committed, Store};
use cubewarden::time::{Stopwatch, UnixMillis, WallClock};

const ENTRY_BYTES: usize = 600;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir_in(std::env::current_dir()?)?;
    let sync = sync_time(directory.path())?;
    println!("the disk: one sync takes {sync:?}, {:.0} a second", 1.0 / sync.as_secs_f64());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for callers in [1, 8, 64] {
        let store =
            Arc::new(Embedded::open(&directory.path().join(callers.to_string()), Arc::new(WallClock))?);
        runtime.block_on(measure(&store, callers))?;
    }
    Ok(())
}

/// The median of a hundred overwrites of one page, each made durable.
fn sync_time(directory: &Path) -> std::io::Result<Duration> {
    let mut file = File::create(directory.join("page"))?;
    let mut times = Vec::new();
    for _ in 0..100 {
        let watch = Stopwatch::start();
        file.rewind()?;
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(watch.elapsed());
    }
    times.sort_unstable();
    Ok(times[50])
}

async fn measure(store: &Arc<Embedded>, callers: u64) -> Result<(), tokio::task::JoinError> {
    let (length, commits) = (Duration::from_secs(1), Arc::new(AtomicU64::new(0)));
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let (store, commits) = (store.clone(), commits.clone());
            tokio::spawn(async move {
                let mut slowest = Duration::ZERO;
                while watch.elapsed() < length {
                    let began = Stopwatch::start();
                    let number = caller + callers * commits.fetch_add(1, Relaxed);
                    let done = store.commit(reservation(number)).await;
                    assert!(matches!(done, Ok(Committed::Done(_))), "{done:?}");
                    slowest = slowest.max(began.elapsed());
                }
                slowest
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for task in tasks {
        slowest = slowest.max(task.await?);
    }
    let each =
        |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / watch.elapsed().as_secs_f64();
    let groups = store.groups();
    println!(
        "{callers:>3} callers: {:.0} commits/s in {:.0} syncs/s, at most {} in one; slowest {slowest:?}",
        each(groups.batches),
        each(groups.groups),
        groups.largest,
    );
    Ok(())
}

/// What a reservation writes: an entry, its sets, its appointment, a line of the log.
fn reservation(number: u64) -> Batch {
    let member = format!("{number:032x}");
    let bucket = Bucket::parse("default/dev").expect("it is well formed");
    let key = Key::Idempotency(member.clone());
    let sets = [
        Set::Slots(bucket.clone()),
        Set::AllSlots,
        Set::State("reserved", bucket),
        Set::AllState("reserved"),
    ];
    Batch {
        expect: vec![(key.clone(), 0)],
        room: vec![(Set::AllSlots, u64::MAX)],
        put: vec![(key, vec![b'x'; ENTRY_BYTES])],
        join: sets.map(|set| (set, member.clone())).into(),
        appointments: vec![Appointment { member, was: None, is: Some(UnixMillis(number)) }],
        log: vec![vec![b'y'; 200]],
        ..Batch::default()
    }
}
