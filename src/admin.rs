//! Health, metrics and the operator's view, on a listener of their own.

pub mod settings;
