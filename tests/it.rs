//! The only test binary; one module per room of `tests/`.

mod conformance;
mod support;
