//! Pure decisions: values in, value out. `now` is an argument; so is anything random.
//!
//! Must stay true: nothing here reads a clock, waits, logs, or knows how state is stored; integers only.

pub mod admission;
pub mod breaker;
pub mod collector;
pub mod colour;
pub mod delete;
pub mod entry;
pub mod explain;
pub mod lanes;
pub mod latency;
pub mod limits;
pub mod listing;
pub mod policy;
pub mod rebuild;
pub mod recovery;
pub mod window;
pub mod write_path;
