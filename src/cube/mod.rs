//! The Cube API as the upstream: how bytes get there and back.

pub mod transport;
