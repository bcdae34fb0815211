//! `cubewarden keygen`: a key that every SDK accepts, and what of it stands in the configuration.

use std::process::ExitCode;

use sha2::{Digest as _, Sha256};

use crate::time::Chance;

/// Length of a key without its prefix, in bytes; guessing 160 bits is hopeless.
const BYTES: usize = 20;

/// Prints a new key and its hash. The key is kept nowhere.
#[expect(clippy::unnecessary_wraps, reason = "every command ends the same way")]
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let key = format!("e2b_{}", Chance::from_os().hex(BYTES));
    println!("# for the client (E2B_API_KEY, CUBE_API_KEY); it is shown this once");
    println!("{key}");
    println!("# for [[tenant]] in the configuration");
    println!("keys_sha256 = [\"{}\"]", hex::encode(Sha256::digest(&key)));
    Ok(ExitCode::SUCCESS)
}
