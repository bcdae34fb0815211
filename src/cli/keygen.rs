//! `cubewarden keygen`: a key that every SDK accepts, and what of it stands in the configuration.

use std::process::ExitCode;

use sha2::{Digest as _, Sha256};

use super::say;
use crate::time::Chance;

/// Length of a key without its prefix, in bytes; guessing 160 bits is hopeless.
const BYTES: usize = 20;

/// Prints a new key and its hash. The key is kept nowhere.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let key = format!("e2b_{}", Chance::from_os().hex(BYTES));
    let hash = hex::encode(Sha256::digest(&key));
    say(&format!(
        "# for the client (E2B_API_KEY, CUBE_API_KEY); it is shown this once\n{key}\n\
         # for [[tenant]] in the configuration\nkeys_sha256 = [\"{hash}\"]\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
