//! `docs/metrics.md` says of each metric what the registry says, and of no other. UPDATE_EXPECT=1 rewrites its tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Family, at, read, registry};

const PAGE: &str = "docs/metrics.md";
const BEGIN: &str = "<!-- tables: written by the test that checks them -->\n";
const END: &str = "<!-- end of tables -->\n";

fn tables(registry: &BTreeMap<String, Family>) -> String {
    let mut text = String::from("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    for (name, family) in registry {
        let labels: Vec<_> = family.labels.keys().map(|label| format!("`{label}`")).collect();
        let (kind, labels, help) = (&family.kind, labels.join(", "), family.help.replace('|', "\\|"));
        writeln!(text, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    text.push_str("\n| metric | label | values |\n|---|---|---|\n");
    for (name, family) in registry {
        for (label, values) in family.labels.iter().filter(|(label, _)| *label != "bucket") {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            writeln!(text, "| `{name}` | `{label}` | {} |", values.join(" ")).unwrap();
        }
    }
    text
}

#[tokio::test]
async fn the_page_of_metrics_and_the_registry_are_equal() {
    let page = read(PAGE);
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for its tables");
    let (_, tail) = rest.split_once(END).expect("the tables end");
    let wanted = format!("{head}{BEGIN}{}{END}{tail}", tables(&registry().await));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(at(PAGE), &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "{PAGE} differs from the registry: run this test with UPDATE_EXPECT=1");
}
