//! What the configuration knows and this version does not have: refused with a sentence, or told at the start; never
//! silently ignored.
//!
//! Refused is what an operator would rely on and this version would not do: https. Told is what only waits for its part of a later version and does no harm until then,
//! so that a file written for that version can be used today.
//! The one place to take such a sentence away.

use super::sheet::{Effective, Sheet};
use crate::cube::settings::Settings as Cube;

/// Refuses an upstream that this version cannot serve.
pub(super) fn refuse(sheet: &mut Sheet, cube: &Cube) {
    sheet.cross(
        &["upstream.url"],
        cube.base.scheme_str() != Some("https"),
        "this version reaches Cube by http only; wanted http://",
    );
}

/// One sentence for each value that has no effect yet and is not the default.
pub(super) fn unheeded(effective: &[Effective], defaults: &[Effective]) -> Vec<String> {
    let default = |key: &str| defaults.iter().find(|value| value.key == key).map(|value| &value.value);
    let waits = effective.iter().filter_map(|value| {
        let for_what = awaited(&value.key)?;
        let differs = default(&value.key) != Some(&value.value);
        differs.then(|| {
            format!(
                "{} = {} takes effect with {for_what}, which this version does not have yet",
                value.key, value.value
            )
        })
    });
    waits.collect()
}

/// What a key waits for, if it waits.
fn awaited(key: &str) -> Option<&'static str> {
    key.starts_with("write_path.").then_some("the write-path guard")
}
