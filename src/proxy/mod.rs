//! The skin: text to call, verdict to bytes, pass-through.

pub mod settings;
