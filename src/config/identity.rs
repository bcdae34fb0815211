//! `mode`, `[identity]`, `[adopt]`, `[compat]` and `[log]`: who is who, and small switches.

use super::kinds::{Kind, choice, flag, list, text};
use super::sheet::Sheet;
use crate::calls::settings::{Adopt, Compat, IdentityKeys, Mode, Tenancy};
use crate::ids::Bucket;
use crate::telemetry::logs;

/// Reads `mode`.
pub(super) fn mode(sheet: &mut Sheet) -> Mode {
    let words = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("transparent", Mode::Transparent)];
    sheet.top(|s| s.get("mode", "enforce", &choice(words)))
}

/// Reads `[identity]`.
pub(super) fn identity(sheet: &mut Sheet) -> IdentityKeys {
    let keys = || {
        list("metadata keys in quotes, none of them empty", |key| (!key.is_empty()).then(|| key.to_owned()))
    };
    sheet.section("identity", |s| IdentityKeys {
        project_keys: s.get("project_keys", vec!["project", "project_id"], &keys()),
        run_keys: s.get("run_keys", vec!["run", "run_id", "session_id", "thread_id"], &keys()),
        metadata_prefix: s.get("metadata_prefix", "", &prefix()),
    })
}

/// What may stand before our metadata keys: E2B's list filter mangles other characters.
fn prefix() -> Kind<String> {
    text("up to 32 of [A-Za-z0-9_.-]", |text| {
        let safe = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        (safe && text.len() <= 32).then(|| text.to_owned())
    })
}

/// Reads `[adopt]`. Where tenants are, nobody gets what was there before us unless the file says so.
pub(super) fn adopt(sheet: &mut Sheet, tenancy: &Tenancy) -> Adopt {
    let default = match tenancy {
        Tenancy::Open => "default/dev",
        Tenancy::Tenants(_) => "none",
    };
    let bucket = text("\"none\" or namespace/env", |text| match text {
        "none" => Some(Adopt::Nobody),
        text => Bucket::parse(text).ok().map(Adopt::Into),
    });
    let adopt = sheet.section("adopt", |s| s.get("bucket", default, &bucket));
    let known = match (&adopt, tenancy) {
        (Adopt::Into(bucket), Tenancy::Tenants(tenants)) => {
            tenants.iter().any(|t| t.buckets.contains(bucket))
        }
        _ => true,
    };
    sheet.cross(
        &["adopt.bucket"],
        known || !sheet.is_sound("tenant"),
        "no [[tenant]] has this bucket, so nobody could reach what is adopted; wanted a tenant's bucket or \"none\"",
    );
    adopt
}

/// Reads `[compat]`.
pub(super) fn compat(sheet: &mut Sheet) -> Compat {
    sheet.section("compat", |s| Compat {
        v2_create: s.get("v2_create", true, &flag()),
        lifecycle: s.get("lifecycle", true, &flag()),
        error_bodies: s.get("error_bodies", true, &flag()),
        missing_end_at: s.get("missing_end_at", true, &flag()),
        pausing_state: s.get("pausing_state", true, &flag()),
        capacity_answers: s.get("capacity_answers", true, &flag()),
    })
}

/// Reads `[log]`.
pub(super) fn log(sheet: &mut Sheet) -> logs::Settings {
    let level = text(
        "a level (error, warn, info, debug, trace), or directives such as \"info,access=debug\"",
        |text| logs::is_level(text).then(|| text.to_owned()),
    );
    sheet.section("log", |s| logs::Settings {
        level: s.get("level", "info", &level),
        format: s.get(
            "format",
            "text",
            &choice([("text", logs::Format::Text), ("json", logs::Format::Json)]),
        ),
    })
}
