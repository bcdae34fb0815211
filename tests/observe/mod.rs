//! What operators look at: the page of metrics, dashboards, alerts, and a real Prometheus that reads them all.
//!
//! Must stay true: the registry is asked, never a list beside it; a missing prometheus or promtool fails the test.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod dashboards;
mod live;
mod page;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use crate::support::warden::before;

/// One metric of the registry.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    /// Values by label, in the order of the exposition.
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// Every metric that a warden shows at its start.
async fn registry() -> BTreeMap<String, Family> {
    let warden = before("http://127.0.0.1:1").without_tasks().start().await;
    let (mut families, mut name) = (BTreeMap::<String, Family>::new(), String::new());
    for line in warden.warden.metrics.render(None).lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, help) = help.split_once(' ').unwrap();
            family.clone_into(&mut name);
            let family = Family { help: help.to_owned(), ..Family::default() };
            families.insert(name.clone(), family);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (_, kind) = kind.split_once(' ').unwrap();
            kind.clone_into(&mut families.get_mut(&name).unwrap().kind);
        } else if let Some((_, labels)) = line.split_once('{') {
            let labels = labels.rsplit_once('}').unwrap().0;
            for (label, value) in labels.split(',').filter_map(|pair| pair.split_once('=')) {
                // The bounds of a histogram are no label of ours.
                if label != "le" {
                    let values = families.get_mut(&name).unwrap().labels.entry(label.to_owned()).or_default();
                    values.insert(value.trim_matches('"').to_owned());
                }
            }
        }
    }
    families
}

/// Names of metrics that a text uses.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split(|c| !is_name(c)).filter(|word| word.starts_with("cubewarden_")).collect()
}

/// What of `text` names no metric of the registry.
fn strangers<'a>(text: &'a str, registry: &BTreeMap<String, Family>) -> Vec<&'a str> {
    let known = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        let whole =
            parts.iter().find_map(|part| name.strip_suffix(part)).and_then(|whole| registry.get(whole));
        registry.contains_key(name) || whole.is_some_and(|family| family.kind == "histogram")
    };
    metrics_in(text).into_iter().filter(|name| !known(name)).collect()
}

#[tokio::test]
async fn a_metric_that_does_not_exist_is_found() {
    let registry = registry().await;
    let text =
        "rate(cubewarden_calls_total[5m]) + cubewarden_upstream_seconds_bucket + cubewarden_zebras{a=\"b\"}";
    assert_eq!(strangers(text, &registry), ["cubewarden_zebras"]);
    assert_eq!(strangers("cubewarden_calls_total_count", &registry), ["cubewarden_calls_total_count"]);
}
