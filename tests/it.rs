//! The only test binary; one module per room of `tests/`.

mod config;
mod proxy;
mod pure;
