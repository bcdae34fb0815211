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
    Redis(Redis),
}

/// Where in Redis the ledger is.
#[derive(Clone, PartialEq, Eq)]
pub struct Redis {
    /// See `store::redis::Address`; may hold a password.
    pub url: String,
    /// Which ledger: several may share a database.
    pub ledger: String,
    /// Whether it may share a database with Cube itself.
    pub share: bool,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { path } => f.debug_struct("Embedded").field("path", path).finish(),
            Self::Memory => f.write_str("Memory"),
            Self::Redis(redis) => redis.fmt(f),
        }
    }
}

impl fmt::Debug for Redis {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Redis");
        shown.field("ledger", &self.ledger).field("share", &self.share).finish_non_exhaustive()
    }
}
