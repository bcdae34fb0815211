//! Files that hold what goes in and, after a line of dashes, what must come out.

use std::path::{Path, PathBuf};

const DASHES: &str = "\n----\n";

/// Every file of a folder beside this one, by name.
pub(super) fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// What goes in.
pub(super) fn given(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.split_once(DASHES).map_or(text.trim_end().to_owned(), |(given, _)| given.to_owned())
}

/// Compares what came out, or writes it down.
pub(super) fn compare(file: &Path, came: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(file, format!("{}{DASHES}{came}", given(file))).unwrap();
        return;
    }
    let text = std::fs::read_to_string(file).unwrap();
    let wanted = text.split_once(DASHES).map_or("", |(_, wanted)| wanted);
    assert_eq!(came, wanted, "{}: UPDATE_EXPECT=1 rewrites it", file.display());
}
