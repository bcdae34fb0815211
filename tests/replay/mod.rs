//! 18 June 2026 once more: a Cube whose writes all time out, with and without a warden before it.
//!
//! `june_18` is the replay itself and `storm` a crowd ten times too large; `stage` drives the one clock, `people` are the clients and
//! the simple service of that day, `record` what is noted every few seconds, `chart` the picture in the README.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod chart;
mod june_18;
mod people;
mod record;
mod stage;
mod storm;
