//! The protocol walked to its end: two wardens, two clients, a collector, a Cube whose list may lie.
//!
//! Every interleaving of what the setups allow is visited. The ledger and Cube are models; **every decision is made by the
//! shipped rules** (`cubewarden::rules`). Time is a few ticks, each the shortest period that matters (`setup.rs`).
//! Deliberately absent: HTTP, the stores (the conformance suite holds them to their laws), rates, breakers, more than two
//! sandboxes.

mod actions;
mod calls;
mod checker;
mod cube;
mod ledger;
mod names;
mod scenes;
mod setup;
mod tasks;
mod world;
