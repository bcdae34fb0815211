//! The names of log fields, and how logs are written.
//!
//! Must stay true: a field has one name everywhere, with its unit at the end. Never secrets, bodies or personal data.

use tracing_subscriber::filter::EnvFilter;

/// How logs are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A level, or directives such as `info,cubewarden::tasks=debug`.
    pub level: String,
    /// For people or for machines.
    pub format: Format,
}

/// For people or for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of text for each event.
    Text,
    /// One JSON object for each event.
    Json,
}

/// Whether a text can be a [`Settings::level`].
#[must_use]
pub fn is_level(text: &str) -> bool {
    !text.trim().is_empty() && EnvFilter::builder().parse(text).is_ok()
}
