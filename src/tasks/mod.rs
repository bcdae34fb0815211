//! Background tasks.

pub mod settings;
