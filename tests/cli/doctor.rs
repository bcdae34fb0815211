//! `doctor`: what is found in a deployment that is well, one that is not, and one that runs.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Served, cubewarden};
use crate::cube::CubeSim;
use crate::support::http::Caller;
use crate::support::redis::RedisServer;
use crate::support::warden::before;

const TEMPLATE: &str = "tpl-000000000000000000000001";
const NOBODY: &str = "http://127.0.0.1:1";

/// Severity, message and remedy of what was found about something.
type Found = Vec<(String, String, String, Option<String>)>;

async fn doctor(admin: &str, config: &str) -> (i32, bool, Found) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("cubewarden.toml");
    std::fs::write(&file, config).unwrap();
    let output = cubewarden(admin, &["doctor", "--json", "--config", file.to_str().unwrap()], &[]).await;
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |finding: &Value, name: &str| finding[name].as_str().map(str::to_owned);
    let findings = report["findings"].as_array().unwrap().iter().map(|finding| {
        let need = |name| text(finding, name).unwrap();
        (need("about"), need("severity"), need("message"), text(finding, "remedy"))
    });
    (output.status.code().unwrap(), report["safe_to_enforce"].as_bool().unwrap(), findings.collect())
}

fn severities<'a>(found: &'a Found, about: &str) -> Vec<&'a str> {
    found.iter().filter(|found| found.0 == about).map(|found| found.1.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_finding_that_is_not_well_has_a_remedy_and_dangers_end_with_a_failure() {
    let cube = CubeSim::builder().start().await.unwrap();
    let site = TempDir::new().unwrap();
    let path = site.path().join("ledger");
    let config = format!("[upstream]\nurl = \"{}\"\n[store]\npath = \"{}\"\n", cube.url(), path.display());
    let (_, _, found) = doctor(NOBODY, &config).await;
    assert!(found.iter().all(|(_, severity, _, remedy)| (severity == "ok") == remedy.is_none()), "{found:?}");
    assert_eq!(severities(&found, "cube"), ["ok"]);
    assert_eq!(severities(&found, "credential"), ["ok"]);
    assert_eq!(severities(&found, "clocks"), ["ok"]);
    assert_eq!(severities(&found, "warden"), ["note"]);
    assert_eq!(severities(&found, "version"), ["note"]);
    assert!(!path.exists(), "it changes nothing");
    let writes = cube.requests().into_iter().filter(|seen| seen.head.method != "GET");
    assert!(writes.into_iter().all(|seen| seen.head.target.contains(&"0".repeat(32))));

    let memory =
        format!("mode = \"transparent\"\n[upstream]\nurl = \"{}\"\n[store]\nkind = \"memory\"\n", cube.url());
    let (code, safe, found) = doctor(NOBODY, &memory).await;
    assert_eq!((code, safe), (1, false));
    assert_eq!((severities(&found, "mode"), severities(&found, "ledger")), (vec!["danger"], vec!["danger"]));

    let (code, _, found) = doctor(NOBODY, "[upstream]\nurl = \"http://127.0.0.1:1\"\n").await;
    assert_eq!((code, severities(&found, "cube")), (1, vec!["danger"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_an_append_only_file_is_a_danger() {
    let (cube, redis) = (CubeSim::builder().start().await.unwrap(), RedisServer::start());
    let config = format!(
        "[upstream]\nurl = \"{}\"\n[store]\nkind = \"redis\"\nurl = \"{}\"\n",
        cube.url(),
        redis.url()
    );
    let (code, _, found) = doctor(NOBODY, &config).await;
    assert_eq!((code, severities(&found, "ledger")), (1, vec!["danger"]), "{found:?}");
    assert!(
        found.iter().any(|found| found.3.as_deref().is_some_and(|remedy| remedy.contains("appendonly yes")))
    );
    assert_eq!(severities(&found, "clocks"), ["ok", "ok"], "Cube's, and Redis's");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_running_warden_has_seen_is_half_of_the_answer() {
    let cube = CubeSim::builder().start().await.unwrap();
    let direct = Caller::new(&cube.url());
    let body = |more: Value| {
        let mut body = json!({ "templateID": TEMPLATE });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    direct.create(&body(json!({ "timeout": 300 }))).await;
    let warden = before(&cube.url()).without_tasks().start().await;
    warden.warden.tasks.tick_inventory().await.unwrap();
    direct.create(&body(json!({ "timeout": 300 }))).await;
    warden.warden.tasks.tick_inventory().await.unwrap();
    let paused = warden.caller().create(&body(json!({ "timeout": 300 }))).await;
    warden.caller().post(&format!("/sandboxes/{paused}/pause"), "").await;
    let admin = Served::of(&warden).await;
    let config = format!("[upstream]\nurl = \"{}\"\n", cube.url());
    let (code, safe, found) = doctor(&admin.url(), &config).await;
    assert_eq!((code, safe), (1, false));
    assert_eq!(severities(&found, "ways round"), ["danger"], "{found:?}");
    assert_eq!(severities(&found, "imports"), ["note"]);
    assert_eq!(severities(&found, "owners"), ["warning"]);
    let kept = found.iter().any(|found| found.0 == "retention" && found.2.starts_with("1 paused sandboxes"));
    assert!(kept, "{found:?}");

    let directory = TempDir::new().unwrap();
    let file = directory.path().join("c.toml");
    std::fs::write(&file, &config).unwrap();
    let words = cubewarden(&admin.url(), &["doctor", "--config", file.to_str().unwrap()], &[]).await;
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(words.starts_with("danger") && words.contains("\n         -> "), "{words}");
    assert!(words.trim_end().ends_with("dangers to mend first"), "{words}");
}
