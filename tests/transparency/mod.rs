//! Nobody notices a warden that has nothing to say: the same raw requests directly and through it, byte by byte.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod enforced;
mod request;
mod table;
mod transparent;
mod world;
