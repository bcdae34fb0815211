//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.

pub mod admin;
pub mod calls;
pub mod cli;
pub mod config;
pub mod cube;
pub mod deeds;
pub mod ids;
pub mod ledger;
pub mod proxy;
pub mod rules;
pub mod store;
pub mod tasks;
pub mod telemetry;
pub mod time;
pub mod verdict;
