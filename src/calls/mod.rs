//! Governed calls: who asks, for what, and what is said to it.

pub mod classify;
pub mod filter;
pub mod identity;
pub mod mends;
