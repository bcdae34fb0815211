//! What the documents show is tried: TOML is loaded, `sh` is run against a warden and the Cube simulator, Python and
//! JavaScript run through the real SDKs, links lead somewhere, the table of keys is the configuration's own.
//!
//! Must stay true: a block whose kind nobody tries is a failure, not a gap. Blocks marked `operator` change a machine; of
//! those the syntax is checked, and that the files which they name exist.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod deployment;
mod keys;
mod pages;
mod refusals;
mod shown;

use std::path::Path;

use crate::support::repository::{at, read};

/// One fenced block.
#[derive(Clone, Debug)]
struct Block {
    page: String,
    line: usize,
    /// What stands behind the fence: `sh`, `sh operator`, `toml`, ...
    kind: String,
    text: String,
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{} ({})\n{}", self.page, self.line, self.kind, self.text)
    }
}

/// The pages under `docs/`, in order.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(at("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = names.filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "md"));
    let mut pages: Vec<_> = names.map(|name| format!("docs/{name}")).collect();
    pages.sort();
    assert!(pages.len() > 8, "{pages:?}");
    pages
}

/// The fenced blocks of a page, in order.
fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block>);
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(kind), None) => {
                let kind = kind.trim().to_owned();
                open = Some(Block { page: page.to_owned(), line: number + 1, kind, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a fence is not closed");
    blocks
}

/// Every block of every page.
fn blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| blocks_of(page, &read(page))).collect()
}

#[test]
fn fenced_blocks_are_found_with_their_kind_and_line() {
    let blocks = blocks_of("p", "a\n```sh operator\nx\ny\n```\nb\n```\nz\n```\n");
    let seen: Vec<_> = blocks.iter().map(|b| (b.line, b.kind.as_str(), b.text.as_str())).collect();
    assert_eq!(seen, [(2, "sh operator", "x\ny\n"), (7, "", "z\n")]);
}
