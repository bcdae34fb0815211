//! The real binary, in front of the Cube simulator.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod commands;
mod drain;
pub(crate) mod program;
mod reload;
mod start;
