//! The skin over real sockets: raw peers on both sides, so that every byte is seen.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod compare;
mod drain;
mod front;
mod govern;
mod pass;
mod peer;
mod transport;
mod upgrade;
