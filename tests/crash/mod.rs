//! Crashes, races and long days: what must hold through all of them (I1 to I4 of the design).
//!
//! `world` is the stage: a Cube, a ledger and a warden that can be killed between any two of its steps, on a clock that only the test
//! moves. `steps` kills at each step of create and delete, `races` sets two calls against each other, `holders` lets a sandbox
//! change hands while somebody else acts on it, `handover` kills at each step of that, `late` has what belongs to an earlier
//! holder come after it. `days` lives seeded days, `crowd` lets 64 clients loose on ten slots in real time, `binary` kills the
//! shipped program.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod binary;
mod crowd;
mod days;
mod handover;
mod holders;
mod late;
pub(crate) mod plain;
mod races;
mod steps;
pub(crate) mod world;
