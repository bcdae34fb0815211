//! The governed calls: one file per intercepted call.

pub mod settings;
