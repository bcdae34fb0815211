//! Draws.

use super::record::Note;

pub(super) fn draw(_article: &[Note], _warden: &[Note]) -> String {
    String::new()
}
