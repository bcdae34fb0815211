//! A warden put in front of a Cube that is not empty: nobody who works there notices, and nothing is touched.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod full_house;
mod strangers;

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};

use crate::cube::model::{Plant, State};
use crate::cube::{CubeSim, Profile};
use crate::support::warden::Running;

const HOUR: i32 = 3600;

fn clock() -> ManualClock {
    ManualClock::at(UnixMillis(1_790_000_000_000))
}

/// A Cube with three hosts and `count` sandboxes of all kinds, and their ids. Same profile, same sandboxes.
async fn inhabited(profile: Profile, clock: &ManualClock, count: usize) -> (CubeSim, Vec<String>) {
    let cube =
        CubeSim::builder().profile(profile).seed(7).clock(clock.clone()).hosts(3).start().await.unwrap();
    let ids = (0..count).map(|n| plant(&cube, n)).collect();
    (cube, ids)
}

/// Every fifth is paused, every third never ends; of the others some end within the hour, by pause or by death.
fn plant(cube: &CubeSim, n: usize) -> String {
    let timeout = match n % 6 {
        0 | 3 => None,
        1 => Some(HOUR / 2),
        _ => Some(12 * HOUR),
    };
    let metadata: BTreeMap<String, String> = match n % 4 {
        0 => BTreeMap::new(),
        1 => [("user".to_owned(), format!("u{n} ü/%20")), ("env".to_owned(), "my env".to_owned())].into(),
        _ => [("session_id".to_owned(), format!("s{n}"))].into(),
    };
    let id = cube.plant(Plant {
        timeout,
        metadata,
        auto_pause: n.is_multiple_of(2),
        auto_resume: n.is_multiple_of(2),
        ..Plant::default()
    });
    if n.is_multiple_of(5) {
        cube.set_state(&id, State::Paused);
    }
    id
}

/// So many minutes of the clock, and what a warden does after them.
async fn minutes(count: usize, clock: &ManualClock, cube: &CubeSim, warden: &Running) {
    clock.advance(Duration::from_secs(60 * count as u64));
    cube.tick();
    warden.warden.tasks.tick_due().await.unwrap();
    warden.warden.tasks.tick_inventory().await.unwrap();
    warden.warden.tasks.tick_notes(0).await.unwrap();
}

/// The paths of what was asked of a Cube by a method, by the warden itself or by everybody.
fn asked(cube: &CubeSim, method: &str, by_warden: bool) -> Vec<String> {
    let own =
        |headers: &[(String, String)]| headers.iter().any(|(_, value)| value.starts_with("cubewarden/"));
    let seen = cube.requests();
    let of = seen.iter().filter(|seen| seen.head.method == method && (!by_warden || own(&seen.head.headers)));
    of.map(|seen| seen.head.target.clone()).collect()
}

/// How many slots are held.
async fn slots(warden: &Running) -> usize {
    usize::try_from(warden.held().await).unwrap()
}
