//! With whose credential Cube is asked. It is in memory only, and never shown.

use std::fmt;

use http::HeaderMap;

/// With whose credential Cube is asked.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The warden's own (Cube's key, or none).
    Own,
    /// A client's, in memory only.
    Lent(HeaderMap),
}

impl Credential {
    /// Whether it is the warden's own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_own() { "Own" } else { "Lent(..)" })
    }
}
