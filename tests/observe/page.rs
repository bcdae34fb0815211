//! `docs/metrics.md` says of each metric what the registry says, and of no other. `UPDATE_EXPECT=1` rewrites its tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Family, registry};
use crate::support::repository::holds_tables;

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
    holds_tables("docs/metrics.md", &tables(&registry().await));
}
