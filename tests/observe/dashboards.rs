//! The Grafana dashboards: what their script writes, what each panel must have, and that they name only what exists.

use std::process::Command;

use serde_json::Value;

use super::{registry, strangers};
use crate::support::repository::{at, read};

pub(super) const DASHBOARDS: [&str; 4] = ["overview", "quota", "leaks", "writes"];

/// One query of one panel.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) panel: String,
    pub(super) expr: String,
}

fn dashboard(name: &str) -> Value {
    serde_json::from_str(&read(&format!("dashboards/{name}.json"))).unwrap()
}

/// Every query of every panel, as it stands in the file.
pub(super) fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for name in DASHBOARDS {
        for panel in dashboard(name)["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            for target in panel["targets"].as_array().unwrap() {
                let expr = target["expr"].as_str().unwrap().to_owned();
                queries.push(Query { panel: format!("{name}: {title}"), expr });
            }
        }
    }
    queries
}

#[test]
fn the_dashboards_are_what_their_script_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let run = Command::new("python3").arg(at("dashboards/make.py")).arg(scratch.path()).output();
    let run = run.expect("the tests need python3 on the PATH");
    assert!(run.status.success(), "{run:?}");
    for name in DASHBOARDS {
        let made = std::fs::read_to_string(scratch.path().join(format!("{name}.json"))).unwrap();
        assert!(
            made == read(&format!("dashboards/{name}.json")),
            "{name}.json: run python3 dashboards/make.py"
        );
    }
}

#[tokio::test]
async fn every_metric_in_a_dashboard_exists() {
    let registry = registry().await;
    for query in queries() {
        let strangers = strangers(&query.expr, &registry);
        assert!(strangers.is_empty(), "{}: {strangers:?} in {}", query.panel, query.expr);
    }
}

#[test]
fn every_panel_says_what_to_do_and_follows_the_variables() {
    for name in DASHBOARDS {
        let dashboard = dashboard(name);
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let variables: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(variables, ["datasource", "job", "bucket"], "{name}");
        assert_eq!(dashboard["uid"], format!("cubewarden-{name}"));
        let (mut taken, mut titles) = (Vec::new(), Vec::new());
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let says = panel["description"].as_str().unwrap();
            assert!(says.len() > 60 && says.ends_with('.'), "{name}: {title}: {says}");
            let defaults = &panel["fieldConfig"]["defaults"];
            assert!(defaults["unit"].is_string() && defaults["thresholds"]["steps"].is_array(), "{title}");
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
                assert!(target["expr"].as_str().unwrap().contains("job=\"$job\""), "{title}");
            }
            let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            let cells = (place("x")..place("x") + place("w"))
                .flat_map(|x| (place("y")..place("y") + place("h")).map(move |y| (x, y)));
            for cell in cells {
                assert!(cell.0 < 24 && !taken.contains(&cell), "{name}: {title} lies upon another panel");
                taken.push(cell);
            }
            assert!(!titles.contains(&title), "{name} has two panels {title}");
            titles.push(title);
        }
    }
}
