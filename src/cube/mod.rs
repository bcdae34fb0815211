//! The Cube API: wire types, client, and one table of its answers.

pub mod settings;
