//! What the configuration alone says. PURE.

use super::Severity::{Danger, Note, Warning};
use super::{Finding, ill, well};
use crate::calls::settings::{Mode, Tenancy};
use crate::config::Settings;
use crate::rules::policy::BucketPolicy;
use crate::store::settings::Settings as Store;

pub(super) fn look(settings: &Settings) -> Vec<Finding> {
    let mut found = vec![mode(settings.calls.mode), keys(settings)];
    if matches!(settings.store, Store::Memory) {
        let says = "the ledger forgets everything when the warden ends: who owns what, and who holds a slot";
        found.push(ill(Danger, "ledger", says, "set store.kind to \"embedded\" or \"redis\""));
    }
    found.extend(buckets(settings));
    found
}

fn mode(mode: Mode) -> Finding {
    match mode {
        Mode::Enforce => well("mode", "it enforces"),
        Mode::Shadow => ill(
            Note,
            "mode",
            "it only watches, and records what it would have done",
            "read `cubewarden shadow` for some days; when nothing in it surprises you, set mode = \"enforce\"",
        ),
        Mode::Transparent => {
            let says = "everything passes; nothing is decided, counted or recorded";
            ill(Danger, "mode", says, "set mode = \"shadow\" first, and \"enforce\" after some days")
        }
    }
}

fn keys(settings: &Settings) -> Finding {
    match &settings.calls.tenancy {
        Tenancy::Open => ill(
            Warning,
            "keys",
            "there are no tenants: whoever reaches the warden may use and end everything",
            "give each tenant a key (`cubewarden keygen`) and a [[tenant]]; one team alone may leave it so",
        ),
        Tenancy::Tenants(tenants) if settings.cube.api_key.is_none() => ill(
            Warning,
            "keys",
            format!(
                "{} tenants, and no key of Cube's for the warden: tenants' keys go up to Cube",
                tenants.len()
            ),
            "name the variable that holds Cube's own key in upstream.api_key_env",
        ),
        Tenancy::Tenants(tenants) => {
            well("keys", format!("{} tenants, each with its own keys", tenants.len()))
        }
    }
}

/// Everything that holds for any bucket is said once, with the buckets it holds for.
fn buckets(settings: &Settings) -> Vec<Finding> {
    let named = |lacks: fn(&BucketPolicy) -> bool| {
        let policies = settings.calls.policies.named();
        let names: Vec<String> =
            policies.filter(|(_, policy)| lacks(policy)).map(|(bucket, _)| bucket.to_string()).collect();
        names.join(", ")
    };
    let unlimited = if settings.calls.admission.global_limit.is_some() {
        String::new()
    } else {
        named(|policy| policy.limit.is_none())
    };
    let endless = named(|policy| policy.default_timeout.is_none() && policy.max_timeout.is_none());
    let kept = named(|policy| policy.retention.is_none());
    let lacking = [
        (
            unlimited,
            "limits",
            "no limit",
            "set limit for these buckets, or admission.global_limit: until then one client can take every slot",
        ),
        (
            endless,
            "timeouts",
            "a create that names no timeout gets Cube's own default, which is never",
            "set default_timeout (and max_timeout) for these buckets",
        ),
        (
            kept,
            "retention",
            "paused sandboxes are kept for ever, and hold their slots",
            "set retention for these buckets",
        ),
    ];
    let lacking = lacking.into_iter().filter(|(names, ..)| !names.is_empty());
    lacking
        .map(|(names, about, says, remedy)| ill(Warning, about, format!("{names}: {says}"), remedy))
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn found(text: &str) -> Vec<(&'static str, super::super::Severity)> {
        let settings = crate::config::load(text, []).unwrap();
        look(&settings).into_iter().map(|finding| (finding.about, finding.severity)).collect()
    }

    #[test]
    fn the_defaults_are_no_danger_and_say_what_they_leave_open() {
        let found = found("");
        let about: Vec<_> = found.iter().map(|(about, _)| *about).collect();
        assert_eq!(about, ["mode", "keys", "limits", "timeouts", "retention"]);
        assert!(found.iter().all(|(_, severity)| *severity < Danger), "{found:?}");
    }

    #[test]
    fn what_governs_nothing_or_forgets_everything_is_a_danger() {
        let danger = |text| {
            found(text)
                .into_iter()
                .filter(|(_, severity)| *severity == Danger)
                .map(|(about, _)| about)
                .collect::<Vec<_>>()
        };
        assert_eq!(danger("mode = \"transparent\""), ["mode"]);
        assert_eq!(danger("[store]\nkind = \"memory\""), ["ledger"]);
        assert!(found("mode = \"shadow\"").contains(&("mode", Note)));
    }
}
