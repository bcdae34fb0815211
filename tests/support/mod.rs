//! What several rooms of the tests need: a warden on a free port, a client without manners, a store that fails on purpose.

pub(crate) mod faulty_store;
pub(crate) mod http;
pub(crate) mod redis;
pub(crate) mod relay;
pub(crate) mod repository;
pub(crate) mod warden;

use std::time::Duration;

use cubewarden::time::{Clock as _, WallClock};

/// Waits until `true` is returned; a minute of real time is the bound after which the test fails.
#[track_caller]
pub(crate) fn until<'a>(
    what: &'a str,
    mut condition: impl FnMut() -> bool + Send + 'a,
) -> impl Future<Output = ()> + Send + 'a {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..6000 {
            if condition() {
                return;
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("{caller}: waited a minute in vain for: {what}");
    }
}
