//! Files of the repository as tests read them, and tables in its pages that a test writes.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- tables: written by the test that checks them -->\n";
const END: &str = "<!-- end of tables -->\n";

/// A path in the repository.
pub(crate) fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file.
#[track_caller]
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(at(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// Holds the tables of a page equal to these; with `UPDATE_EXPECT=1` writes them there.
#[track_caller]
pub(crate) fn holds_tables(page: &str, tables: &str) {
    let text = read(page);
    let (head, rest) = text.split_once(BEGIN).expect("the page has a place for its tables");
    let (_, tail) = rest.split_once(END).expect("the tables end");
    let wanted = format!("{head}{BEGIN}{tables}{END}{tail}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(at(page), &wanted).unwrap();
        return;
    }
    assert!(text == wanted, "the tables of {page} are out of date: run this test with UPDATE_EXPECT=1");
}
