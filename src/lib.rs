//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.

pub mod calls;
pub mod cube;
pub mod ids;
pub mod ledger;
pub mod proxy;
pub mod rules;
pub mod store;
pub mod time;
pub mod verdict;
