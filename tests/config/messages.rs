//! What is wrong is said in one sentence that names the key, what was given and what is wanted; and all of it at once.

use std::time::Duration;

use cubewarden::calls::settings::{Adopt, Mode, Tenancy};
use cubewarden::config::{Settings, Source};
use cubewarden::cube::settings::ApiKey;
use cubewarden::rules::policy::Permission;

use super::{bucket, good, tenant, with_env};

/// The text has exactly these problems, one on each line.
fn check(text: &str, problems: &str) {
    let found = with_env(text, &[]).err().unwrap_or_else(|| "nothing is wrong".to_owned());
    assert_eq!(found, problems, "of {text:?}");
}

/// The variables have exactly these problems.
fn check_env(env: &[(&str, &str)], problems: &str) {
    let found = with_env("", env).err().unwrap_or_else(|| "nothing is wrong".to_owned());
    assert_eq!(found, problems, "of {env:?}");
}

#[test]
fn a_value_that_cannot_be_is_answered_with_what_could() {
    check(
        "[collector]\ncycle = 60",
        r#"collector.cycle = 60: wanted a duration with its unit, such as "60s": a bare number has none"#,
    );
    check(
        "[collector]\ncycle = \"60\"",
        r#"collector.cycle = "60": wanted a duration with its unit, such as "60s": a bare number has none"#,
    );
    check(
        "[admission]\nwait = \"soon\"",
        r#"admission.wait = "soon": wanted a duration such as "30s" or "10m", from 0s to 1h"#,
    );
    check(
        "[collector]\nconfirmations = 1",
        "collector.confirmations = 1: wanted a whole number from 2 to 100",
    );
    check(
        "[proxy]\nbody_limit = 2048",
        r#"proxy.body_limit = 2048: wanted a size with its unit (B, KiB, MiB), such as "2MiB": a bare number has none; from 1024 to 67108864 bytes"#,
    );
    check("mode = \"on\"", r#"mode = "on": wanted "enforce" or "shadow" or "transparent""#);
    check(
        "[bucket_defaults]\nlimit = -1",
        r#"bucket_defaults.limit = -1: wanted a whole number from 0 to 10000000, or "none""#,
    );
    check(
        "[listen]\nproxy = \"localhost:3000\"",
        r#"listen.proxy = "localhost:3000": wanted an IP address and a port, such as "127.0.0.1:3000" or "[::]:3000""#,
    );
    check("[adopt]\nbucket = \"dev\"", r#"adopt.bucket = "dev": wanted "none" or namespace/env"#);
    check("listen = 3000", "listen = 3000: wanted a section, [listen]");
    check("[tenant]\nname = \"a\"", "tenant = a section: wanted sections, [[tenant]]");
    check("mode = enforce", "line 1 is not TOML: string values must be quoted, expected literal string");
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_right_one() {
    check(
        "[bucket_defaults]\nlmit = 3",
        "bucket_defaults.lmit is unknown; did you mean bucket_defaults.limit?",
    );
    check("[admision]\nwait = \"1s\"", "admision is unknown; did you mean admission?");
    check("limit = 3", "limit is unknown here; it stands under [bucket_defaults]");
    check("[listen]\nxyz = 3", "listen.xyz is unknown; the nearest right key is listen.proxy");
    check(
        "[[bucket]]\nnamespace = \"a\"\nenv = \"b\"\nretension = \"1h\"",
        "bucket.a/b.retension is unknown; did you mean bucket.a/b.retention?",
    );
    check_env(
        &[("CUBEWARDEN_LISTEN_PROXI", "x"), ("OTHER", "y"), ("CUBEWARDEN_CONFIG", "z")],
        "CUBEWARDEN_LISTEN_PROXI overrides nothing; did you mean CUBEWARDEN_LISTEN_PROXY?",
    );
}

#[test]
fn all_problems_are_told_at_once_and_none_that_only_follows_from_another() {
    let text =
        "[collector]\nheartbeat = 30\nroot_fresh = \"1s\"\nconfirmation = 3\n[admission]\nwait = \"55s\"\n";
    let found = with_env(text, &[]).unwrap_err();
    let lines: Vec<_> = found.lines().collect();
    assert_eq!(lines.len(), 3, "{found}");
    assert!(lines[0].starts_with("collector.heartbeat = 30: wanted a duration"));
    assert!(lines[1].starts_with("admission.wait = \"55s\": wait must be below 55s"));
    assert!(lines[2].starts_with("collector.confirmation is unknown; did you mean collector.confirmations?"));
}

#[test]
fn values_that_do_not_fit_together_are_both_named() {
    check(
        "[collector]\nroot_fresh = \"59s\"",
        r#"collector.root_fresh = "59s" and collector.heartbeat = "30s": root_fresh must be at least twice heartbeat, so that one lost beat kills nobody"#,
    );
    check(
        "[collector]\nnewborn_grace = \"59s\"",
        r#"collector.newborn_grace = "59s" and collector.cycle = "60s": newborn_grace must be at least one cycle, so that no sandbox is judged by the first look at it"#,
    );
    check(
        "[listen]\nproxy = \"0.0.0.0:9300\"",
        r#"listen.proxy = "0.0.0.0:9300" and listen.admin = "127.0.0.1:9300": the two must not be one address: tenants would reach the operator's view"#,
    );
    check(
        "[bucket_defaults]\nmax_timeout = \"1h\"\n[[bucket]]\nnamespace = \"a\"\nenv = \"b\"\ndefault_timeout = \"2h\"",
        "bucket.a/b: default_timeout is 2h and max_timeout is 1h here: default_timeout must not exceed max_timeout",
    );
    check(
        "[bucket_defaults]\ncreate_burst = 5",
        "bucket_defaults: create_burst is set and creates_per_minute is not: a burst belongs to a rate",
    );
    check(
        "[write_path]\nwindow = \"59s\"",
        r#"write_path.window = "59s" and upstream.call_timeout = "30s": window must be at least twice call_timeout, else calls that time out never meet in it"#,
    );
}

#[test]
fn an_upstream_is_an_address_that_does_not_lead_back() {
    for given in
        ["127.0.0.1:3001", "ftp://cube", "http://", "http://cube:3001/?a", "http://cube/#a", "http://cube:0"]
    {
        let found = with_env(&format!("[upstream]\nurl = \"{given}\""), &[]).unwrap_err();
        assert!(found.starts_with(&format!("upstream.url = {given:?}: wanted http://host:port")), "{found}");
    }
    for (given, listen) in [
        ("http://localhost:3000", "0.0.0.0:3000"),
        ("http://127.0.0.1:3000/v1", "127.0.0.1:3000"),
        ("http://[::1]", "[::]:80"),
        ("http://10.0.0.9:3000", "10.0.0.9:3000"),
    ] {
        let text = format!("[upstream]\nurl = \"{given}\"\n[listen]\nproxy = \"{listen}\"");
        let found = with_env(&text, &[]).unwrap_err();
        assert!(found.contains("upstream.url must not lead back to the warden itself"), "{found}");
    }
    good("[upstream]\nurl = \"http://10.0.0.9:3000/cube\"");
    let hidden = with_env("[upstream]\nurl = \"http://me:secret@cube:3001\"", &[]).unwrap_err();
    assert!(!hidden.contains("secret") && hidden.contains("..@cube:3001"), "{hidden}");
}

#[test]
fn a_tenant_has_keys_and_buckets_of_its_own() {
    check(
        "[[tenant]]\nname = \"a\"\nbuckets = []\n",
        "tenant.a.keys_sha256 is missing: wanted a list of the SHA-256 of each key, 64 of [0-9a-f] each: printf %s \"$KEY\" | sha256sum\n\
         tenant.a.buckets = []: wanted at least one of buckets, each written namespace/env, such as \"shop/prod\"",
    );
    check(
        &(tenant("a", "1", r#"["a/prod"]"#) + &tenant("b", "1", r#"["b/prod"]"#)),
        "tenant.a.keys_sha256 and tenant.b.keys_sha256 share a key: a key belongs to one tenant only",
    );
    check(
        &(tenant("a", "1", r#"["a/prod"]"#) + &tenant("b", "2", r#"["b/prod", "a/prod"]"#)),
        "tenant.a.buckets and tenant.b.buckets share a/prod: a bucket belongs to one tenant only, else each would see the other's usage",
    );
    check(
        &(tenant("a", "1", r#"["a/prod"]"#) + &tenant("a", "2", r#"["b/prod"]"#)),
        "tenant.a: two [[tenant]] have this name; wanted one each",
    );
    check(
        &tenant("a", "1", r#"["prod"]"#),
        r#"tenant.a.buckets = ["prod"]: wanted a list of buckets, each written namespace/env, such as "shop/prod""#,
    );
    check(
        &(tenant("a", "1", r#"["shop/prod"]"#) + "[[bucket]]\nnamespace = \"shpo\"\nenv = \"prod\""),
        "bucket.shpo/prod: no [[tenant]] has this bucket; did you mean shop/prod?",
    );
    check(
        "[[bucket]]\nnamespace = \"a\"\nenv = \"b\"\n[[bucket]]\nnamespace = \"a\"\nenv = \"b\"",
        "bucket.a/b: two [[bucket]] have this name; wanted one each",
    );
    check(
        &(tenant("a", "1", r#"["a/prod"]"#) + "[adopt]\nbucket = \"default/dev\""),
        r#"adopt.bucket = "default/dev": no [[tenant]] has this bucket, so nobody could reach what is adopted; wanted a tenant's bucket or "none""#,
    );
}

#[test]
fn what_may_be_a_secret_is_never_shown() {
    let key = "e2b_0123456789abcdef0123456789abcdef01234567";
    let files = [
        format!("[[tenant]]\nname = \"a\"\nkeys_sha256 = [\"{key}\"]\nbuckets = [\"a/b\"]"),
        format!("[upstream]\napi_key_env = \"{key}\""),
        format!("[store]\nkind = \"redis\"\nurl = \"redis://:{key}@localhost\"\nname = \"a b\""),
        format!("[store]\nurl = \"http://:{key}@localhost\""),
    ];
    for text in files {
        let found = with_env(&text, &[]).unwrap_err();
        assert!(!found.contains(key) && !found.is_empty(), "{found}");
    }
    let env = [("CUBE_KEY", key), ("ADMIN_TOKEN", key)];
    let text = "[upstream]\napi_key_env = \"CUBE_KEY\"\n[admin]\ntoken_env = \"ADMIN_TOKEN\"";
    let settings = with_env(text, &env).unwrap();
    assert_eq!(settings.cube.api_key, Some(ApiKey(key.to_owned())));
    assert!(!format!("{settings:?}").contains(key));
}

#[test]
fn a_variable_that_should_hold_a_key_must_hold_one() {
    for env in [&[][..], &[("CUBE_KEY", "")], &[("CUBE_KEY", "two words")]] {
        let found = with_env("[upstream]\napi_key_env = \"CUBE_KEY\"", env).unwrap_err();
        assert_eq!(
            found,
            r#"upstream.api_key_env = "CUBE_KEY": wanted the name of an environment variable that holds a key of printable characters; it is not set so"#
        );
    }
    let ours =
        [("CUBEWARDEN_UPSTREAM_KEY", "k"), ("CUBEWARDEN_UPSTREAM_API_KEY_ENV", "CUBEWARDEN_UPSTREAM_KEY")];
    assert_eq!(with_env("", &ours).unwrap().cube.api_key, Some(ApiKey("k".to_owned())));
}

#[test]
fn what_this_version_does_not_have_is_refused_and_not_ignored() {
    check(
        "[upstream]\nurl = \"https://cube\"",
        r#"upstream.url = "https://cube": this version reaches Cube by http only; wanted http://"#,
    );
    check(
        "[upstream]\nactivity = \"cubeproxy\"\nactivity_urls = []",
        r#"upstream.activity = "cubeproxy" and upstream.activity_urls = []: somebody must be asked: give the admin address of each CubeProxy"#,
    );
    let unusable =
        with_env("[bucket_defaults]\nreuse = true\nunproven_delete = \"refuse\"", &[]).unwrap_err();
    assert!(unusable.contains("wanted ids = \"qualified\" or unproven_delete = \"defer\""), "{unusable}");
}

#[test]
fn a_variable_overrides_the_file_and_every_value_remembers_who_wrote_it() {
    let env = [
        ("CUBEWARDEN_MODE", "shadow"),
        ("CUBEWARDEN_LISTEN_PROXY", "127.0.0.1:0"),
        ("CUBEWARDEN_UPSTREAM_URL", "http://127.0.0.1:4001"),
        ("CUBEWARDEN_BUCKET_DEFAULTS_LIMIT", "7"),
        ("CUBEWARDEN_IDENTITY_RUN_KEYS", "job, task"),
        ("CUBEWARDEN_COMPAT_LIFECYCLE", "false"),
    ];
    let settings = with_env("mode = \"transparent\"\n[admission]\nwait = \"1s\"", &env).unwrap();
    assert_eq!(settings.calls.mode, Mode::Shadow);
    assert_eq!(settings.proxy.listen.port(), 0);
    assert_eq!(settings.cube.base.to_string(), "http://127.0.0.1:4001/");
    assert_eq!(settings.calls.policies.of(&bucket("any/where")).limit, Some(7));
    assert_eq!(settings.calls.identity.run_keys, ["job", "task"]);
    assert!(!settings.calls.compat.lifecycle);
    let shown = |key: &str| settings.effective.iter().find(|value| value.key == key).unwrap().to_string();
    assert_eq!(shown("mode"), "mode = \"shadow\"  # environment");
    assert_eq!(shown("admission.wait"), "admission.wait = \"1s\"  # file");
    assert_eq!(shown("admission.max_waiting"), "admission.max_waiting = 256  # default");
    assert_eq!(shown("identity.run_keys"), "identity.run_keys = [\"job\", \"task\"]  # environment");
    assert!(settings.effective.iter().any(|value| value.source == Source::Default));
    check_env(
        &[("CUBEWARDEN_ADMISSION_MAX_WAITING", "many")],
        r#"admission.max_waiting = "many" (from CUBEWARDEN_ADMISSION_MAX_WAITING): wanted a whole number from 0 to 1000000"#,
    );
}

#[test]
fn a_bucket_lives_by_the_defaults_then_its_environment_then_its_own_section() {
    let settings = good(
        "[bucket_defaults]\nlimit = 5\nretention = \"1h\"\ncreates_per_minute = 600\n\
         [env_defaults.prod]\nretention = \"2h\"\nlimit = 50\n\
         [[bucket]]\nnamespace = \"a\"\nenv = \"prod\"\nlimit = \"none\"\ncreate_burst = 7\n",
    );
    let of = |text: &str| settings.calls.policies.of(&bucket(text)).clone();
    assert_eq!((of("a/prod").limit, of("a/prod").retention), (None, Some(Duration::from_hours(2))));
    assert_eq!((of("b/prod").limit, of("b/prod").retention), (Some(50), Some(Duration::from_hours(2))));
    assert_eq!((of("b/dev").limit, of("b/dev").retention), (Some(5), Some(Duration::from_hours(1))));
    let burst = |text: &str| of(text).creates.map(|rate| (rate.per_minute.get(), rate.burst.get()));
    assert_eq!((burst("a/prod"), burst("b/dev")), (Some((600, 7)), Some((600, 50))));
    let unlimited = good(
        "[bucket_defaults]\ncreates_per_minute = 60\ncreate_burst = 3\n[env_defaults.x]\ncreates_per_minute = \"none\"",
    );
    assert_eq!(unlimited.calls.policies.of(&bucket("a/x")).creates, None);
    let labels: Vec<_> = settings.calls.policies.labels().collect();
    assert_eq!(labels, ["a/prod", "default/dev", "other"]);
}

#[test]
fn tenants_close_what_open_mode_leaves_open() {
    let open = good("");
    assert_eq!(open.calls.tenancy, Tenancy::Open);
    assert_eq!(open.calls.adopt, Adopt::Into(bucket("default/dev")));
    assert_eq!(open.calls.policies.of(&bucket("a/b")).host_mount, Permission::Allow);
    let governed = good(
        &(tenant("a", "1", r#"["a/prod"]"#)
            + "[[bucket]]\nnamespace = \"a\"\nenv = \"prod\"\nhost_mount = \"allow\""),
    );
    assert_eq!(governed.calls.adopt, Adopt::Nobody);
    let policy = governed.calls.policies.of(&bucket("a/prod"));
    assert_eq!((policy.host_mount, policy.distribution_scope), (Permission::Allow, Permission::Deny));
    let Tenancy::Tenants(tenants) = governed.calls.tenancy else { panic!("there is a tenant") };
    assert_eq!(tenants[0].keys_sha256, [[0x11; 32]]);
}

#[test]
fn a_reload_says_what_holds_at_once_and_what_waits_for_a_restart() {
    let old = good(&tenant("a", "1", r#"["a/prod"]"#));
    let new = good(
        &(tenant("a", "2", r#"["a/prod"]"#)
            + "[listen]\nproxy = \"127.0.0.1:4000\"\n[bucket_defaults]\nlimit = 3"),
    );
    let difference = Settings::reloadable_difference(&old, &new);
    assert_eq!(difference.at_once, ["bucket_defaults.limit", "tenant.a.keys_sha256"]);
    assert_eq!(difference.after_restart, ["listen.proxy"]);
    // Shown alike, and yet two keys.
    let other = good(&tenant("a", "1", r#"["a/prod"]"#).replacen("11\"]", "12\"]", 1));
    assert_eq!(Settings::reloadable_difference(&old, &other).at_once, ["tenant.a.keys_sha256"]);
    let gone = Settings::reloadable_difference(&old, &good(""));
    assert!(gone.at_once.contains(&"tenant.a.buckets".to_owned()) && gone.after_restart.is_empty());
}
