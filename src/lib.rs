//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.

pub mod calls;
pub mod cube;
pub mod ids;
pub mod time;
pub mod verdict;
