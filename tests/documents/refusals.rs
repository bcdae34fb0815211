//! `docs/refusals.md` lists what the program can say: every reason with its status, and no other.

use std::collections::BTreeSet;

use cubewarden::verdict::Reason;

use crate::support::repository::read;

/// (reason, status) of every row that begins with a reason.
fn rows(page: &str) -> BTreeSet<(String, u16)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let rows = rows.filter(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
    let rows = rows.filter_map(|(name, rest)| Some((name.to_owned(), rest.split(' ').next()?.parse().ok()?)));
    rows.collect()
}

#[test]
fn the_page_of_refusals_has_every_reason_with_its_status_and_the_readme_no_other() {
    let all: BTreeSet<_> = Reason::all().map(|reason| (reason.name().to_owned(), reason.status())).collect();
    assert_eq!(rows(&read("docs/refusals.md")), all);
    let readme = rows(&read("README.md"));
    assert!(readme.len() > 10 && readme.is_subset(&all), "{:?}", readme.difference(&all));
}
