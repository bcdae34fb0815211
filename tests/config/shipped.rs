//! The files under `config/` are what they say.

use std::time::Duration;

use cubewarden::calls::settings::Tenancy;
use cubewarden::config::Source;
use cubewarden::rules::policy::{OnTimeout, Permission};

use super::{bucket, good};

const COMPLETE: &str = include_str!("../../config/cubewarden.toml");
const STRICT: &str = include_str!("../../config/strict.toml");
const DEMO: &str = include_str!("../../config/demo.toml");

#[test]
fn the_complete_form_has_every_key_and_says_what_an_empty_file_means() {
    let (written, silent) = (good(COMPLETE), good(""));
    for (ours, theirs) in silent.effective.iter().zip(&written.effective) {
        assert_eq!((&ours.key, &ours.value), (&theirs.key, &theirs.value));
        // Two defaults depend on the mode; written out, they would outlive the day on which tenants come.
        let (_, key) = theirs.key.split_once('.').unwrap_or(("", &theirs.key));
        let shown = COMPLETE.contains(&format!("\n# {key} = {} ", theirs.value));
        assert!(theirs.source == Source::File || shown, "{} is missing from the complete form", theirs.key);
    }
    assert_eq!(silent.effective.len(), written.effective.len());
    assert_eq!(silent.calls, written.calls);
    assert_eq!(silent.tasks, written.tasks);
}

#[test]
fn what_the_complete_form_shows_as_a_comment_can_be_used_as_it_stands() {
    let example = |line: &str| {
        let line = line.strip_prefix("# ").filter(|rest| rest.starts_with('[') || rest.contains(" = "));
        line.map(str::to_owned)
    };
    let uncommented: Vec<_> =
        COMPLETE.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned())).collect();
    let settings = good(&uncommented.join("\n"));
    assert!(matches!(settings.calls.tenancy, Tenancy::Tenants(tenants) if tenants.len() == 1));
    assert_eq!(settings.calls.policies.of(&bucket("default/dev")).limit, Some(200));
    assert_eq!(settings.calls.policies.of(&bucket("x/prod")).retention, Some(Duration::from_hours(24)));
}

#[test]
fn the_strict_form_leaves_nothing_unlimited() {
    let settings = good(STRICT);
    assert!(settings.calls.admission.global_limit.is_some());
    let unnamed = bucket("any/where");
    let named = settings.calls.policies.named().map(|(_, policy)| policy);
    for policy in named.chain([settings.calls.policies.of(&unnamed)]) {
        assert!(policy.limit.is_some() && policy.retention.is_some() && policy.creates.is_some());
        assert!(policy.default_timeout.is_some() && policy.max_timeout.is_some());
        assert_eq!((policy.host_mount, policy.on_timeout), (Permission::Deny, OnTimeout::Pause));
    }
    let Tenancy::Tenants(tenants) = settings.calls.tenancy else { panic!("a governed platform has tenants") };
    assert!(tenants.iter().any(|tenant| tenant.admin) && tenants.iter().any(|tenant| !tenant.admin));
}

#[test]
fn the_demo_is_open_and_small() {
    let settings = good(DEMO);
    assert_eq!(settings.calls.tenancy, Tenancy::Open);
    assert_eq!(settings.calls.policies.of(&bucket("default/dev")).limit, Some(3));
}
