//! Laws of the pure parts, for bytes that nobody would send on purpose and for those that somebody would.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod create_body;
mod filters;
mod mended;
mod paths;
mod recorded_sdks;

use proptest::test_runner::Config;

/// Without a file of regressions beside the source: a failing case prints itself.
fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
