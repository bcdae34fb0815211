//! What the configuration knows and this version does not have: refused with a sentence, never silently ignored.
//!
//! The one place to take such a refusal away.

use super::sheet::Sheet;
use crate::cube;
use crate::rules::policy::BucketPolicy;

/// Refuses an upstream that this version cannot serve.
pub(super) fn refuse(sheet: &mut Sheet, cube: &cube::settings::Settings) {
    sheet.cross(
        &["upstream.url"],
        cube.base.scheme_str() != Some("https"),
        "this version reaches Cube by http only; wanted http://",
    );
}

/// Why a policy cannot be carried out by this version.
pub(super) fn policy(policy: &BucketPolicy) -> Option<&'static str> {
    policy
        .reuse
        .then_some("reuse is true here: this version does not reuse sandboxes yet; wanted reuse = false")
}
