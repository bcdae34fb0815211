//! 64 clients, ten slots, twenty seconds or until everybody had a turn, and a Cube that loses answers, works late, refuses and drops.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, Stopwatch, WallClock};

use super::world::TEMPLATE;
use crate::cube::ask::Kind;
use crate::cube::faults::{Fault, Rule};
use crate::cube::{CubeSim, Profile};
use crate::support::http::Caller;
use crate::support::{until, warden};

const CLIENTS: usize = 64;
const LIMIT: usize = 10;
const LENGTH: Duration = Duration::from_secs(20);
/// A slow machine takes longer until everybody has had a turn; whoever still had none by then is starved.
const LONGEST: Duration = Duration::from_secs(120);

/// Short, but in the same order as the real ones: what Cube does late comes before the horizon.
pub(super) const SHORT: &str = r#"
[upstream]
call_timeout = "1s"
[bucket_defaults]
limit = 10
[admission]
wait = "5s"
[collector]
cycle = "1s"
heartbeat = "1s"
root_fresh = "2s"
newborn_grace = "1s"
[reconciler]
search = "100ms"
ambiguous_horizon = "3s"
claim = "1s"
delete_retry = "50ms"
delete_retry_max = "500ms"
"#;

/// The next thing that goes wrong, for one request.
pub(super) fn mishap(chance: &Chance) -> Rule {
    let refuse = |status| Fault::Refuse { status, body: String::new(), retry_after: None };
    let kind = if chance.below(3) == 0 { Kind::Delete } else { Kind::Create };
    let rule = match chance.below(8) {
        0 | 1 => Fault::LoseAnswer.on(kind),
        2 => Fault::DropRequest.on(kind),
        3 => Fault::Reset { done: true }.on(kind),
        4 => Fault::TransportError.on(kind),
        5 => refuse(408).on(kind),
        6 => refuse(500).on(kind),
        _ => Fault::NoResource.on(Kind::Create),
    };
    rule.times(1)
}

/// Until when the crowd goes on: all of it, for who waits must wait among others.
struct Day {
    since: Stopwatch,
    /// Clients who have not had a sandbox yet.
    waiting: AtomicUsize,
}

impl Day {
    fn is_over(&self) -> bool {
        let length = if self.waiting.load(SeqCst) == 0 { LENGTH } else { LONGEST };
        self.since.elapsed() >= length
    }
}

/// Creates and deletes until the day is over; how many lives it had.
async fn live(caller: Caller, day: Arc<Day>) -> usize {
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":3600}}"#);
    let mut lives = 0;
    while !day.is_over() {
        let answer = caller.post("/sandboxes", &body).await;
        if answer.status != 201 {
            assert!([429, 500, 504, 408].contains(&answer.status.as_u16()), "{answer:?}");
            WallClock.sleep(Duration::from_millis(20)).await;
            continue;
        }
        if lives == 0 {
            day.waiting.fetch_sub(1, SeqCst);
        }
        lives += 1;
        let path = format!("/sandboxes/{}", answer.text("sandboxID"));
        while ![204, 404].contains(&caller.delete(&path).await.status.as_u16()) {}
    }
    lives
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_never_has_more_than_the_limit_and_leaves_nothing_behind() {
    let cube = CubeSim::builder().profile(Profile::V070).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(SHORT).start().await;
    let day = Arc::new(Day { since: Stopwatch::start(), waiting: AtomicUsize::new(CLIENTS) });
    let client = |_| tokio::spawn(live(warden.caller(), Arc::clone(&day)));
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let chance = Arc::new(Chance::from_os());
    let mut round = 0_u64;
    while !day.is_over() {
        // One at a time: those that struck nobody yet must not pile up until they strike everybody.
        cube.clear_faults();
        cube.fault(mishap(&chance));
        if round.is_multiple_of(20) {
            // Hangs until the warden gives up, and is done meanwhile.
            cube.fault(Fault::Block { late_ms: Some(chance.below(2000)) }.on(Kind::Create).times(1));
        }
        round += 1;
        WallClock.sleep(Duration::from_millis(200)).await;
    }
    cube.clear_faults();
    let mut lives = Vec::new();
    for client in clients {
        lives.push(client.await.unwrap());
    }
    let high = cube.high_water(&[("namespace", "default"), ("env", "dev")]);
    assert!(high <= LIMIT, "{high} were alive or on their way");
    assert!(lives.iter().all(|lives| *lives > 0), "somebody starved: {lives:?}");
    assert!(lives.iter().sum::<usize>() >= 2 * CLIENTS, "creates succeed meanwhile: {lives:?}");
    until("Cube is empty", || cube.alive().is_empty()).await;
    for _ in 0..600 {
        if warden.held().await == 0 {
            break;
        }
        WallClock.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!((warden.held().await, warden.entries().await.len(), cube.alive().len()), (0, 0, 0));
    assert!(cube.high_water(&[]) <= LIMIT, "late creates included");
}
