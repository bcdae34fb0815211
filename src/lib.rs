//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.

pub mod ids;
pub mod rules;
pub mod store;
pub mod time;
pub mod verdict;
