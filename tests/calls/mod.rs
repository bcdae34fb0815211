//! One file per intercepted call, over HTTP, against the simulator; each story ends with balanced books.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod counted;
mod create;
mod credentials;
mod delete;
mod first_light;
mod forwarding;
mod idempotency;
mod identity;
mod leases;
mod list;
mod pages;
mod reconcile;
mod reload;
mod reuse;
mod stage;
mod told;
mod touch;
mod unwritten;
mod words;
