//! Governed calls: text becomes a [`classify::Call`] once; one file per intercepted call tells its story.

pub mod classify;
pub mod filter;
pub mod identity;
pub mod mends;
pub mod seam;
pub mod settings;
mod throttle;
mod waiting;
