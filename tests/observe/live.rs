//! A real Prometheus scrapes the real program under a little load; every panel's query gets data from it.
//!
//! Must stay true: it listens on a free port, keeps its data in a directory of its own, and ends with the value that started it.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cubewarden::time::{Clock as _, WallClock};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::dashboards::queries;
use crate::cube::CubeSim;
use crate::process::program::{Serving, Site};
use crate::support::http::{Answer, Caller};
use crate::support::repository::{at, read};

const CONFIG: &str =
    "[admission]\nwait = \"0s\"\n[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 3\n";
const CREATE: &str = r#"{"templateID":"tpl-000000000000000000000001","timeout":300}"#;

struct Prometheus {
    child: Child,
    _directory: TempDir,
    api: Caller,
}

impl Prometheus {
    /// Scrapes this address four times a second, with the alert rules of the repository.
    async fn start(target: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = format!(
            "global:\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n  evaluation_interval: 500ms\n\
             rule_files: ['{}']\n\
             scrape_configs:\n  - job_name: cubewarden\n    static_configs: [{{targets: ['{target}']}}]\n",
            at("dashboards/alerts.yml").display()
        );
        std::fs::write(directory.path().join("prometheus.yml"), config).unwrap();
        let log = directory.path().join("log");
        let child = Command::new("prometheus")
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--web.listen-address=127.0.0.1:0",
            ])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .expect("the tests need prometheus on the PATH (apt: prometheus)");
        let mut started = Self { child, _directory: directory, api: Caller::new("") };
        for _ in 0..6000 {
            let said = std::fs::read_to_string(&log).unwrap();
            let told =
                said.lines().find_map(|line| line.split_once("\"Listening on\" address=").map(|(_, at)| at));
            if let Some(address) = told {
                started.api = Caller::new(&format!("http://{address}"));
                return started;
            }
            assert!(started.child.try_wait().unwrap().is_none(), "prometheus ended:\n{said}");
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("prometheus did not listen within a minute:\n{}", std::fs::read_to_string(&log).unwrap());
    }

    async fn ask(&self, path: &str) -> Value {
        let answer: Answer = self.api.get(path).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["status"]),
            (200, &json!("success")),
            "{path}: {answer:?}"
        );
        answer.json()["data"].clone()
    }

    /// The series that an expression gives now.
    async fn query(&self, expr: &str) -> Vec<Value> {
        let query: String = form_urlencoded::byte_serialize(expr.as_bytes()).collect();
        self.ask(&format!("/api/v1/query?query={query}")).await["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself; then the test has said so.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// As Grafana fills the variables in.
fn filled(expr: &str) -> String {
    let filled =
        expr.replace("$job", "cubewarden").replace("$bucket", ".*").replace("$__rate_interval", "20s");
    assert!(!filled.contains('$'), "an unknown variable: {filled}");
    filled
}

/// Creates, deletes, a refusal for want of room, a strange write, a read and something that only passes; two stay.
async fn a_little_load(warden: &Serving) {
    let caller = warden.caller();
    let held = warden.held().await;
    let mut made = Vec::new();
    for _ in held..3 {
        made.push(caller.create(CREATE).await);
    }
    assert_eq!(caller.post("/sandboxes", CREATE).await.text("error_code"), "CAPACITY_EXCEEDED");
    assert_eq!(caller.get("/sandboxes").await.status, 200);
    assert_eq!(caller.get("/health").await.status, 200);
    let last = made.pop().unwrap();
    assert_eq!(caller.post(&format!("/sandboxes/{last}/fork"), "{}").await.status, 422);
    assert_eq!(caller.delete(&format!("/sandboxes/{last}")).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_of_every_dashboard_gets_data_from_a_real_prometheus() {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = Site::new(&cube.url(), CONFIG).ready().await;
    let prometheus = Prometheus::start(warden.admin.strip_prefix("http://").unwrap()).await;
    let mut waiting = queries();
    assert!(waiting.len() > 40);
    // Some need two scrapes with load between them; a minute is the end.
    for _ in 0..240 {
        a_little_load(&warden).await;
        let mut empty = Vec::new();
        for query in waiting {
            if prometheus.query(&filled(&query.expr)).await.is_empty() {
                empty.push(query);
            }
        }
        waiting = empty;
        if waiting.is_empty() {
            break;
        }
        WallClock.sleep(Duration::from_millis(250)).await;
    }
    assert!(waiting.is_empty(), "no data for {waiting:#?}");

    let value = async |panel: &str| {
        let query = queries().into_iter().find(|query| query.panel == panel).unwrap();
        let series = prometheus.query(&filled(&query.expr)).await;
        let values = series.iter().map(|series| series["value"][1].as_str().unwrap().parse::<f64>().unwrap());
        values.fold(f64::MIN, f64::max)
    };
    // The last scrape may be older than the last delete.
    let is = |one: f64, other: f64| (one - other).abs() < 1e-9;
    let mut held = value("overview: Slots held").await;
    for _ in 0..240 {
        if is(held, 2.0) {
            break;
        }
        WallClock.sleep(Duration::from_millis(250)).await;
        held = value("overview: Slots held").await;
    }
    let full = value("overview: Fullest buckets").await;
    assert!(is(held, 2.0) && is(full, 2.0 / 3.0), "{held} held, {full} full");
    assert!(
        value("quota: Refusals by reason").await > 0.0 && value("overview: Governed and passed").await > 0.0
    );

    let groups = prometheus.ask("/api/v1/rules").await["groups"].clone();
    let rules = groups[0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), read("dashboards/alerts.yml").matches("- alert: ").count());
    assert!(rules.iter().all(|rule| rule["health"] == "ok" || rule["health"] == "unknown"), "{rules:#?}");
}
