//! The configuration: what a file means, what is said when it means nothing, and which files the repository ships.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod messages;
mod properties;
mod shipped;

use cubewarden::config::{Settings, load};
use cubewarden::ids::Bucket;

/// Loads a text with variables.
fn with_env(text: &str, env: &[(&str, &str)]) -> Result<Settings, String> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    load(text, env).map_err(|problems| problems.to_string())
}

/// Loads a text that is well formed.
fn good(text: &str) -> Settings {
    with_env(text, &[]).unwrap_or_else(|problems| panic!("{problems}"))
}

fn bucket(text: &str) -> Bucket {
    Bucket::parse(text).unwrap()
}

/// A tenant with a key of one repeated digit.
fn tenant(name: &str, digit: &str, buckets: &str) -> String {
    format!("[[tenant]]\nname = \"{name}\"\nkeys_sha256 = [\"{}\"]\nbuckets = {buckets}\n", digit.repeat(64))
}
