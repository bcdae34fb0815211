//! Real wardens on one Redis under load while everything that can break does: never more than the limit, nothing killed that
//! its client holds, and in the end the ledger is what Cube has.
//!
//! `wardens` are the processes, `crowd` their clients, who notice what must not happen; `storm` breaks Redis, the way to it
//! and wardens by a seeded schedule, `failover` has a Sentinel lose the last writes, `rolling` restarts wardens in order and
//! out of order behind a `balancer`. `CHAOS_SECONDS` makes the storm longer (`./dev chaos`), `CHAOS_SEED` lives one again.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod balancer;
mod crowd;
mod failover;
mod rolling;
mod storm;
mod wardens;

use std::time::Duration;

/// The template of every create here.
const TEMPLATE: &str = "tpl-000000000000000000000001";
const LIMIT: usize = 20;
const CLIENTS: usize = 60;

/// How long a storm lasts: short in the suite, as long as `CHAOS_SECONDS` says by hand.
fn length() -> Duration {
    Duration::from_secs(number("CHAOS_SECONDS").unwrap_or(16))
}

/// `CHAOS_SEED`, else a new one; printed, so that a failure can be lived again.
fn seed() -> u64 {
    let seed = number("CHAOS_SEED").unwrap_or_else(|| cubewarden::time::Chance::from_os().below(u64::MAX));
    println!("CHAOS_SEED={seed}");
    seed
}

#[expect(clippy::disallowed_methods, reason = "how long and which: said by whoever starts the test")]
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
