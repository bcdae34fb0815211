//! Which store keeps the ledger.

use std::fmt;
use std::path::PathBuf;

/// Which store keeps the ledger.
#[derive(Clone, PartialEq, Eq)]
pub enum Settings {
    /// Durable, one process.
    Embedded {
        /// Its directory.
        path: PathBuf,
    },
    /// Forgets everything with the process.
    Memory,
    /// Shared by several wardens.
    Redis {
        /// redis://, rediss:// or unix://; may hold a password.
        url: String,
    },
}

impl fmt::Debug for Settings {
    /// Without the address of Redis, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { path } => f.debug_struct("Embedded").field("path", path).finish(),
            Self::Memory => f.write_str("Memory"),
            Self::Redis { .. } => f.debug_struct("Redis").finish_non_exhaustive(),
        }
    }
}
