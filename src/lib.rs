//! cubewarden: governance between E2B-compatible SDK clients and the Cube API.

pub mod cube;
pub mod proxy;
pub mod time;
