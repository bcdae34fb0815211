//! The command line; the one place where concrete types meet.

pub mod warden;
