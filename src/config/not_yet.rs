//! What the configuration knows and this version does not have: refused with a sentence, never silently ignored.
//!
//! The one place to take such a sentence away.

use super::sheet::Sheet;
use crate::cube::settings::Settings as Cube;

/// Refuses an upstream that this version cannot serve.
pub(super) fn refuse(sheet: &mut Sheet, cube: &Cube) {
    sheet.cross(
        &["upstream.url"],
        cube.base.scheme_str() != Some("https"),
        "this version reaches Cube by http only; wanted http://",
    );
}
