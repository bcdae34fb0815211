//! The Cube API: what is said to it and what it answers.

pub mod api;
pub mod outcome;
pub mod profile;
