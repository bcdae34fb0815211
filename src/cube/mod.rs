//! The Cube API: client, wire types, one table of answers.

pub mod settings;
pub mod transport;
