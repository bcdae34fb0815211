//! The commands that end by themselves.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::program::{Site, complaint, run};
use crate::cube::CubeSim;

/// What `check --json` found: its exit code, and a lookup of (result, message) by what was looked at.
fn check(site: &Site) -> (i32, impl Fn(&str) -> (String, String) + use<>) {
    let output = site.run("check", &["--json"]);
    complaint(&output);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(report["ok"], code == 0);
    let find = move |about: &str| {
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["about"] == about);
        let text = |name: &str| found.and_then(|found| found[name].as_str()).unwrap_or("").to_owned();
        (text("result"), text("message"))
    };
    (code, find)
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_holds_and_changes_nothing() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = Site::new(&cube.url(), "[admission]\nglobal_limit = 5");
    let (code, found) = check(&site);
    assert_eq!((code, found("cube").0.as_str(), found("credential").0.as_str()), (0, "ok", "ok"));
    assert!(found("ledger").1.contains("will be made"), "{:?}", found("ledger"));
    assert!(!site.ledger().exists());
    assert_eq!(found("limits").0, "");

    let warden = site.ready().await;
    warden.caller().create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    assert!(check(&site).1("ledger").1.contains("a warden runs on it"));
    warden.stop().await;
    assert!(check(&site).1("ledger").1.contains("1 slots are held"));

    let text = String::from_utf8(site.run("check", &[]).stdout).unwrap();
    assert!(text.contains("admission.global_limit = 5  # file\n"), "{text}");
    assert!(text.contains("proxy.drain = \"30s\"  # default\n") && text.contains("ok       cube:"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_fails_with_what_to_do_when_cube_is_away_or_demands_a_key() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, found) = check(&Site::new(&format!("http://{nobody}"), ""));
    assert_eq!((code, found("cube").0.as_str()), (1, "failed"));
    assert!(found("cube").1.contains("upstream.url"), "{:?}", found("cube"));

    let cube = CubeSim::builder().api_key("cube-key").start().await.unwrap();
    let (code, found) = check(&Site::new(&cube.url(), ""));
    assert_eq!((code, found("cube").0.as_str()), (1, "ok"));
    assert!(found("credential").1.contains("upstream.api_key_env"), "{:?}", found("credential"));
    let keyed = |key: &str| {
        Site::new(&cube.url(), "").env("CUBEWARDEN_UPSTREAM_API_KEY_ENV", "CUBE_KEY").env("CUBE_KEY", key)
    };
    let (code, found) = check(&keyed("wrong"));
    assert!(code == 1 && found("credential").1.contains("CUBE_KEY"), "{:?}", found("credential"));
    assert_eq!(check(&keyed("cube-key")).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_warns_of_what_tenants_could_reach() {
    let cube = CubeSim::builder().listen("0.0.0.0:0".parse().unwrap()).start().await.unwrap();
    let port = cube.addr().port();
    let site = Site::new(&format!("http://127.0.0.1:{port}"), "").env("CUBEWARDEN_LISTEN_ADMIN", "0.0.0.0:0");
    let output = String::from_utf8(site.run("check", &[]).stdout).unwrap();
    assert!(output.contains(&format!("CubeAPI's port {port} listens on 0.0.0.0")), "{output}");
    assert!(output.contains("admin.token_env"), "{output}");
}

#[test]
fn a_new_key_has_the_form_that_sdks_accept_and_its_hash_is_right() {
    let output = String::from_utf8(run(&["keygen"], &[]).stdout).unwrap();
    let key = output.lines().find(|line| line.starts_with("e2b_")).unwrap();
    assert!(
        key[4..].len() == 40 && key[4..].bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
        "{key}"
    );
    let hash = format!("keys_sha256 = [\"{}\"]", hex::encode(Sha256::digest(key)));
    assert!(output.lines().any(|line| line == hash), "{output}");
    assert_ne!(output, String::from_utf8(run(&["keygen"], &[]).stdout).unwrap());
}

#[test]
fn version_and_help_are_there() {
    let text = |args: &[&str]| {
        let output = run(args, &[]);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(text(&["--version"]), format!("cubewarden {}\n", env!("CARGO_PKG_VERSION")));
    let help = text(&["--help"]);
    assert!(["serve", "check", "keygen"].iter().all(|command| help.contains(command)), "{help}");
    assert!(text(&["serve", "--help"]).contains("SIGHUP"));
}
