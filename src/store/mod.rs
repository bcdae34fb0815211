//! Where the ledger's records are kept.

pub mod settings;
