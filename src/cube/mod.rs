//! The Cube API: client, wire types, one table of answers.

pub mod activity;
pub mod api;
pub mod client;
mod credential;
pub mod guard;
pub mod outcome;
pub mod profile;
pub mod settings;
pub mod transport;
