//! The only test binary; one module per room of `tests/`.

mod admin;
mod adopt;
mod bad_input;
mod calls;
mod chaos;
mod config;
mod conformance;
mod crash;
mod cube;
mod cube_answers;
mod guard;
mod ledger;
mod lost;
mod process;
mod protocol;
mod proxy;
mod pure;
mod redis;
mod replay;
mod sdk;
mod shadow;
mod support;
mod tasks;
mod tidy;
mod transparency;
