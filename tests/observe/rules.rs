//! The alert rules: promtool accepts and proves them, each has its section in the runbook, and they name only what exists.

use std::collections::BTreeSet;
use std::process::Command;

use super::{registry, strangers};
use crate::support::repository::{at, read};

const ALERTS: &str = "dashboards/alerts.yml";

/// The values of every line `key: value`, whatever its depth.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
}

/// The anchor that a heading gets when the page is shown.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-'].contains(c))
        .collect::<String>();
    kept.replace(' ', "-")
}

fn promtool(args: &[&str]) {
    let run = Command::new("promtool").args(args).current_dir(at("dashboards")).output();
    let run = run.expect("the tests need promtool on the PATH (apt: prometheus)");
    assert!(run.status.success(), "promtool {args:?}: {run:?}");
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);
}

#[tokio::test]
async fn every_metric_in_an_alert_exists() {
    let (rules, tests) = (read(ALERTS), read("dashboards/alerts_test.yml"));
    let registry = registry().await;
    assert_eq!(strangers(&rules, &registry), [""; 0]);
    assert_eq!(strangers(&tests, &registry), [""; 0]);
}

#[test]
fn every_alert_is_tested_both_ways_and_is_complete() {
    let (rules, tests) = (read(ALERTS), read("dashboards/alerts_test.yml"));
    let alerts = values(&rules, "alert");
    assert!(alerts.len() > 10);
    for alert in &alerts {
        let fires = [
            format!("exp_samples:\n          - {{labels: 'ALERTS{{alertname=\"{alert}\""),
            format!("- alertname: {alert}\n"),
        ];
        assert!(fires.iter().any(|fires| tests.contains(fires)), "no test sees {alert} fire");
        let silent = tests.lines().any(|line| line.contains(alert) && line.ends_with("exp_samples: []}"));
        assert!(silent, "no test sees {alert} silent");
    }
    for key in ["summary", "description", "runbook_url"] {
        assert_eq!(values(&rules, key).len(), alerts.len(), "each alert has one {key}");
    }
    assert_eq!(rules.matches("labels: {severity: ").count(), alerts.len());
}

#[test]
fn each_alert_has_its_section_in_the_runbook_and_each_section_its_alert() {
    let (rules, runbook) = (read(ALERTS), read("docs/runbook.md"));
    let wanted =
        values(&rules, "runbook_url").into_iter().map(|url| url.strip_prefix("docs/runbook.md#").unwrap());
    let wanted: BTreeSet<String> = wanted.map(str::to_owned).collect();
    let sections: BTreeSet<String> =
        runbook.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
    assert_eq!(sections, wanted);
    for (heading, body) in runbook.split("\n## ").skip(1).filter_map(|section| section.split_once('\n')) {
        for part in ["**Meaning.**", "**Look at.**", "**Do.**"] {
            assert!(body.contains(part), "{heading} lacks {part}");
        }
        for alert in values(&rules, "alert") {
            let of_section = rules
                .split("- alert: ")
                .any(|rule| rule.starts_with(alert) && rule.contains(&format!("#{}\n", anchor(heading))));
            assert_eq!(of_section, body.contains(&format!("`{alert}`")), "{heading} and {alert}");
        }
    }
}
