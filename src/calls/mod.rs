//! Governed calls: text becomes a [`classify::Call`] once; one file per intercepted call tells its story.

mod admit;
pub mod answers;
pub mod classify;
mod connect;
mod context;
mod create_sandbox;
mod delete_sandbox;
mod enrich;
pub mod filter;
pub mod governor;
pub mod identity;
mod lane;
mod list_sandboxes;
pub mod mends;
mod objects;
mod ownership;
mod pages;
mod read_sandbox;
pub mod seam;
pub mod settings;
mod shadow;
mod throttle;
mod touch;
mod transparent;
mod waiting;
mod wish;
