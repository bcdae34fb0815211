//! The only test binary; one module per room of `tests/`.

mod cube;
mod cube_answers;
mod proxy;
mod tidy;
