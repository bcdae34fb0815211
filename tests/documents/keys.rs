//! The table of keys in `docs/configuration.md` is `config/cubewarden.toml` in another form. `UPDATE_EXPECT=1` rewrites it.

use std::fmt::Write as _;

use crate::support::repository::{holds_tables, read};

const HEADER: &str = "\n\n| key | default | meaning |\n|---|---|---|\n";

/// Text as it must be written within a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// A table for each section of the complete form.
fn tables(complete: &str) -> String {
    let mut text = format!("\nAt the head:{HEADER}");
    let mut before = "";
    for line in complete.lines() {
        // Two keys depend on whether there are tenants, and so stand there as comments.
        let shown = ["# host_mount", "# distribution_scope"].iter().any(|key| line.starts_with(key));
        let line = if shown { &line[2..] } else { line };
        let (code, says) = line.split_once(" #").map_or((line, ""), |(code, says)| (code, says.trim()));
        if code.trim().is_empty() && !says.is_empty() && text.ends_with(" |\n") {
            // A sentence that went on.
            text.truncate(text.len() - " |\n".len());
            writeln!(text, " {} |", cell(says)).unwrap();
            continue;
        }
        if code.starts_with('[') {
            let colon = if says.is_empty() { "" } else { ": " };
            write!(text, "\n`{}`{colon}{}{HEADER}", code.trim(), cell(says)).unwrap();
        } else if let Some((key, value)) = code.split_once(" = ").filter(|_| !code.starts_with('#')) {
            let says = cell(if says.is_empty() { before } else { says });
            let default = if shown { "see there" } else { value.trim() };
            writeln!(text, "| `{key}` | `{default}` | {says} |").unwrap();
        }
        before = line.strip_prefix("# ").unwrap_or_default();
    }
    text
}

#[test]
fn the_page_of_keys_and_the_complete_form_are_equal() {
    holds_tables("docs/configuration.md", &format!("{}\n", tables(&read("config/cubewarden.toml"))));
}
