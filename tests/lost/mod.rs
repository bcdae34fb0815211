//! A ledger that loses what it had confirmed: nothing is admitted, nothing is killed, and what was there comes back.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod ahead;
mod apart;
mod deleted;
mod emptied;
mod failover;
mod moving;
mod stage;
