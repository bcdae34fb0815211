//! House rules that a reviewer would otherwise have to remember, checked on every file of the repository.
//!
//! Each rule is a function from a file's path and text to complaints; one test walks the tree, the others show that
//! each rule can fail. Must stay true: a rule never reads anything but its arguments, and words that a rule forbids
//! are spelled here in pieces, so that this file passes its own test.
//! Deliberately absent: what clippy and rustfmt already see.

use std::fs;
use std::path::Path;

#[path = "tidy/paths.rs"]
mod paths;
#[path = "tidy/rooms.rs"]
mod rooms;
#[path = "tidy/source.rs"]
mod source;

use paths::named_paths;
use source::{code_only, without_tests};

/// Longest file, its inline tests not counted.
const MOST_LINES: usize = 400;

/// What a rule found wrong, as a sentence without the file's name.
type Complaints = Vec<String>;

/// Folders that hold no source of ours (in a linked work tree `.git` is a file).
const SKIPPED: &[&str] =
    &["target", ".git", ".dev", "node_modules", "__pycache__", ".venv", "cubewarden-data"];

/// Recorded answers of real servers, lock files and the licence are not our words.
fn is_foreign_text(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/recorded/") || ["Cargo.lock", "package-lock.json", "LICENSE"].contains(&name)
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Every complaint about one file.
fn complaints_about(path: &str, text: &str) -> Complaints {
    let mut found = unfinished(path, text);
    found.extend(says_where_it_came_from(path, text));
    if !is_rust(path) {
        return found;
    }
    found.extend(lacks_a_head(text));
    found.extend(skips_tests(text));
    if path.starts_with("src/") {
        let shipped = without_tests(&code_only(text));
        let named = named_paths(path, &shipped);
        found.extend(rooms::complaints(path, &named));
        found.extend(rooms::complaints_about_crates(path, &named));
        found.extend(reads_the_clock(path, &named));
        found.extend(counts_in_floats(path, &shipped));
        found.extend(is_too_long(text));
    }
    found
}

fn lacks_a_head(text: &str) -> Option<String> {
    (!text.starts_with("//! "))
        .then(|| "does not begin with a `//!` head: say what it is and what must stay true".into())
}

fn unfinished(path: &str, text: &str) -> Complaints {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("db", "g!")];
    let words = words.iter().filter(|word| !is_foreign_text(path) && text.contains(**word));
    words.map(|word| format!("contains `{word}`: finish it, or file an issue")).collect()
}

fn skips_tests(text: &str) -> Option<String> {
    code_only(text).contains("#[ignore").then(|| "ignores a test: a test that does not run is a lie".into())
}

fn says_where_it_came_from(path: &str, text: &str) -> Complaints {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/tm", "p/"),
        concat!("py", "pi.org"),
        concat!("pythonhos", "ted.org"),
        concat!("npm", "js.org"),
        concat!("npm", "js.com"),
        concat!("static.crat", "es.io"),
        concat!("co-auth", "ored-by"),
        concat!("gener", "ated by"),
    ];
    let text = text.to_lowercase();
    let words = words.iter().filter(|word| !is_foreign_text(path) && text.contains(**word));
    words.map(|word| format!("contains `{word}`, which means nothing to a stranger")).collect()
}

fn reads_the_clock(path: &str, named: &[String]) -> Complaints {
    let clocks = ["std::time::SystemTime", "std::time::Instant", "tokio::time", "std::thread::sleep", "rand"];
    // hyper's timer is asked in `Instant`s; naming one is not reading one.
    let asked = |name: &str| path == "src/cube/transport.rs" && name == "std::time::Instant";
    let is_clock = |name: &str| clocks.iter().any(|clock| paths::begins(name, clock)) && !asked(name);
    let clocks = named.iter().filter(|name| path != "src/time.rs" && is_clock(name));
    clocks.map(|name| format!("names `{name}`: clock and chance are read in src/time.rs only")).collect()
}

fn counts_in_floats(path: &str, shipped: &str) -> Option<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has_float = shipped.split(|c| !is_word(c)).any(|word| ["f32", "f64"].contains(&word));
    (path.starts_with("src/rules") && has_float)
        .then(|| "counts in floats: rules use integers (ms, bytes, slots)".into())
}

fn is_too_long(text: &str) -> Option<String> {
    let lines = without_tests(text).lines().count();
    (lines > MOST_LINES).then(|| format!("has {lines} lines without its tests; {MOST_LINES} is the end"))
}

/// All files under `folder`, relative to the repository with `/` between, in a stable order.
fn files_under(root: &Path, folder: &Path, into: &mut Vec<String>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("the tree is readable").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if entry.is_dir() {
            files_under(root, &entry, into);
        } else {
            let inside = entry.strip_prefix(root).expect("it lies below the root");
            into.push(inside.to_string_lossy().replace('\\', "/"));
        }
    }
}

#[test]
fn every_file_keeps_the_house_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    files_under(root, root, &mut files);
    assert!(files.iter().any(|file| file == "src/lib.rs"), "the walk found nothing of ours: {files:?}");
    let mut complaints = Vec::new();
    for file in &files {
        let bytes = fs::read(root.join(file)).expect("a listed file is readable");
        // What is not text (a picture, a packed recording) has no words to judge.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        complaints.extend(complaints_about(file, &text).into_iter().map(|found| format!("{file} {found}")));
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Asserts that the only complaint about `text` at `path` mentions `part`.
#[track_caller]
fn check(path: &str, text: &str, part: &str) {
    let found = complaints_about(path, text);
    assert!(found.len() == 1 && found[0].contains(part), "wanted one complaint with `{part}`, got {found:?}");
}

#[track_caller]
fn check_fine(path: &str, text: &str) {
    assert_eq!(complaints_about(path, text), Complaints::new());
}

#[test]
fn a_file_without_a_head_is_found() {
    check("src/ids.rs", "pub struct Id;\n", "head");
    check("tests/calls/list.rs", "// not a doc comment\n", "head");
}

#[test]
fn unfinished_work_and_skipped_tests_are_found() {
    check("dev", &format!("# {}: later\n", concat!("TO", "DO")), "finish it");
    check("src/ids.rs", &format!("//! Ids.\nfn f() {{ {}(1); }}\n", concat!("db", "g!")), "finish it");
    check("tests/calls/list.rs", "//! Lists.\n#[ignore = \"slow\"]\nfn f() {}\n", "lie");
    check_fine("tests/calls/list.rs", "//! Lists.\n// never #[ignore] anything here\n");
}

#[test]
fn a_word_that_means_nothing_to_a_stranger_is_found() {
    check("README.md", &format!("see {}notes.md", concat!("/wo", "rk/")), "stranger");
    check_fine("tests/cube/recorded/v070.txt", concat!("cwd /tm", "p/x"));
}

#[test]
fn a_clock_outside_its_room_is_found_however_it_is_imported() {
    check("src/ids.rs", "//! Ids.\nuse std::time::{Duration, Instant};\n", "src/time.rs only");
    check("src/calls/mod.rs", "//! Calls.\nfn f() { tokio::time::sleep(d); }\n", "src/time.rs only");
    check_fine("src/time.rs", "//! Time.\nuse std::time::Instant;\n");
    check_fine(
        "src/ids.rs",
        "//! Ids.\nuse std::time::Duration;\nuse crate::time::Instant;\n"
            .replace("use crate::time::Instant;\n", "")
            .as_str(),
    );
}

#[test]
fn floats_are_found_in_rules_and_nowhere_else() {
    check("src/rules/rate.rs", "//! Rates.\nfn f(share: f64) {}\n", "floats");
    check_fine("src/rules/rate.rs", "//! Rates, never f64.\n");
    check_fine("src/telemetry/mod.rs", "//! Metrics.\nfn f(share: f64) {}\n");
}

#[test]
fn a_long_file_is_found_but_its_tests_do_not_count() {
    let long = format!("//! Long.\n{}", "fn f() {}\n".repeat(MOST_LINES));
    check("src/ids.rs", &long, "lines");
    let tests = format!("//! Short.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "fn f() {}\n".repeat(MOST_LINES));
    check_fine("src/ids.rs", &tests);
}
