//! One file per intercepted call, over HTTP, against the simulator; each story ends with balanced books.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod create;
mod delete;
mod first_light;
mod forwarding;
mod idempotency;
mod identity;
mod list;
mod reconcile;
mod stage;
mod touch;
