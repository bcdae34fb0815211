//! What the configuration knows and this version does not have: refused with a sentence, or told at the start; never
//! silently ignored.
//!
//! Refused is what an operator would rely on and this version would not do: https, somebody who
//! tells whether a sandbox is in use. Told is what only waits for its part of a later version and does no harm until then,
//! so that a file written for that version can be used today: whoever sets `retention` keeps paused sandboxes longer than
//! meant, and loses none.
//! The one place to take such a sentence away.

use super::sheet::{Effective, Sheet};
use crate::cube::settings::{Activity, Settings as Cube};

/// Refuses an upstream that this version cannot serve.
pub(super) fn refuse(sheet: &mut Sheet, cube: &Cube) {
    sheet.cross(
        &["upstream.url"],
        cube.base.scheme_str() != Some("https"),
        "this version reaches Cube by http only; wanted http://",
    );
    sheet.cross(
        &["upstream.activity"],
        cube.activity == Activity::None,
        "this version asks nobody whether a running sandbox is in use; wanted \"none\"",
    );
}

/// One sentence for each value that has no effect yet and is not the default.
pub(super) fn unheeded(effective: &[Effective], defaults: &[Effective]) -> Vec<String> {
    let default = |key: &str| defaults.iter().find(|value| value.key == key).map(|value| &value.value);
    let waits = effective.iter().filter_map(|value| {
        let (for_what, as_default) = awaited(&value.key)?;
        let differs = default(&as_default) != Some(&value.value);
        differs.then(|| {
            format!(
                "{} = {} takes effect with {for_what}, which this version does not have yet",
                value.key, value.value
            )
        })
    });
    waits.collect()
}

/// What a key waits for, if it waits, and the key under which its default stands.
fn awaited(key: &str) -> Option<(&'static str, String)> {
    let (section, _) = key.split_once('.')?;
    let (_, name) = key.rsplit_once('.')?;
    match (section, name) {
        // The inventory, and how long a 404 proves nothing, go by these two already.
        ("collector", "cycle" | "newborn_grace") => None,
        ("collector", _) => Some(("the collector", key.to_owned())),
        ("bucket_defaults" | "env_defaults" | "bucket", _) => {
            let for_what = match name {
                "retention" => "the collector",
                _ => return None,
            };
            Some((for_what, format!("bucket_defaults.{name}")))
        }
        _ => None,
    }
}
