//! What people see: tables and JSON, with everything that a terminal would obey written out. PURE.
//!
//! Must stay true: no byte of what clients or operators wrote reaches the terminal as a command, a new line, or a change of
//! direction; JSON that is shown is still the same JSON.

use serde_json::Value;

/// Whether a terminal, or a reader's eye, would take the character for something else than itself.
fn is_treacherous(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line, harmless.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if is_treacherous(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Several lines, each harmless.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(|line| plain(line) + "\n").collect()
}

/// JSON over several lines, harmless: what must not be shown as it is stands as its number.
pub(super) fn json(value: &Value) -> String {
    harmless(&format!("{value:#}\n"))
}

/// JSON on one line, harmless too.
pub(super) fn json_line(value: &Value) -> String {
    harmless(&format!("{value}\n"))
}

fn harmless(written: &str) -> String {
    let mut safe = String::with_capacity(written.len());
    for c in written.chars() {
        if c == '\n' || !is_treacherous(c) {
            safe.push(c);
        } else {
            let mut units = [0; 2];
            // Only inside texts can it have stood, and there this is the same character.
            safe.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    safe
}

/// A scalar as a cell; nothing at all as a dash.
pub(super) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A table under its heads, columns as wide as they need be.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| plain(cell))).collect();
    let mut widths = heads.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line: Vec<String> = padded.collect();
        line.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(heads);
    text.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    text
}

/// A table of objects whose members are not known here: the scalar ones, under their own names.
pub(super) fn table_of(objects: &[Value]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in objects.iter().filter_map(Value::as_object).flatten() {
        if !names.contains(&name.as_str()) && !value.is_object() && !value.is_array() {
            names.push(name);
        }
    }
    let mut rows = vec![names.iter().map(|name| plain(&name.to_uppercase())).collect::<Vec<_>>()];
    rows.extend(
        objects.iter().map(|object| names.iter().map(|name| plain(&cell(object.get(*name)))).collect()),
    );
    let width = |at: usize| rows.iter().map(|row: &Vec<String>| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    const NASTY: &str = "a\u{1b}[2J\u{9b}31m\r\n\u{202e}evil\u{200b}\u{7f}\u{e0041}";

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let shown = plain(NASTY);
        assert_eq!(shown, "a\\u{1b}[2J\\u{9b}31m\\r\\n\\u{202e}evil\\u{200b}\\u{7f}\\u{e0041}");
        assert!(!shown.chars().any(is_treacherous));
        assert_eq!(plain("Zürich 東京 🦀"), "Zürich 東京 🦀");
        let table =
            table(["A", "LONG"], &[[NASTY.to_owned(), "x".to_owned()], ["b".to_owned(), "y".to_owned()]]);
        assert_eq!(table.lines().count(), 3, "{table}");
    }

    #[test]
    fn json_that_is_shown_is_the_same_json() {
        let value = serde_json::json!({ NASTY: [NASTY, "\"\\"], "plain": 1 });
        for shown in [json(&value), json_line(&value)] {
            assert!(!shown.chars().any(|c| c != '\n' && is_treacherous(c)), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }

    #[test]
    fn objects_become_a_table_under_their_own_names() {
        let objects = serde_json::json!([{ "a": 1, "b": [1] }, { "c": NASTY }]);
        let text = table_of(objects.as_array().unwrap());
        let first = text.lines().next().unwrap();
        assert_eq!((first, text.lines().count()), ("A  C", 3));
    }
}
