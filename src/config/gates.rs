//! `[admission]` and `[write_path]`: how creates wait, and when writes are not sent at all.

use std::time::Duration;

use super::background::wide;
use super::kinds::{duration, rate, whole};
use super::sheet::Sheet;
use super::span::{DAY, HOUR, SECOND};
use crate::calls::settings::{Admission, WritePath};

/// How long the clients that were examined wait for an answer, less what the way takes.
const PATIENCE: Duration = Duration::from_secs(55);

/// Reads `[admission]`.
pub(super) fn admission(sheet: &mut Sheet) -> Admission {
    let settings = sheet.section("admission", |s| {
        let global_limit = s.get("global_limit", 0, &whole(0..=10_000_000));
        Admission {
            global_limit: (global_limit > 0).then_some(global_limit),
            wait: s.get("wait", "30s", &duration(Duration::ZERO..=HOUR)),
            max_waiting: wide(s.get("max_waiting", 256, &whole(0..=1_000_000))),
            patience: PATIENCE,
        }
    });
    sheet.cross(
        &["admission.wait"],
        settings.wait < PATIENCE,
        "wait must be below 55s: clients give up after 60s, and a create made for nobody would be deleted again",
    );
    settings
}

/// Reads `[write_path]`; `call_timeout` is the upstream's.
pub(super) fn write_path(sheet: &mut Sheet, call_timeout: Duration) -> WritePath {
    let settings = sheet.section("write_path", |s| WritePath {
        max_writes: wide(s.get("max_writes", 256, &whole(2..=100_000))),
        failures: s.get("failures", 5, &whole(1..=10_000)),
        failure_percent: s.get("failure_percent", 50, &whole(1..=100)),
        window: s.get("window", "120s", &duration(SECOND..=DAY)),
        probe_interval: s.get("probe_interval", "15s", &duration(SECOND..=HOUR)),
        probe_interval_max: s.get("probe_interval_max", "60s", &duration(SECOND..=HOUR)),
        upstream_calls_per_second: s.get("upstream_calls_per_second", "none", &rate(1_000_000).or_none()),
    });
    sheet.cross(
        &["write_path.window", "upstream.call_timeout"],
        settings.window >= call_timeout * 2,
        "window must be at least twice call_timeout, else calls that time out never meet in it",
    );
    sheet.cross(
        &["write_path.probe_interval", "write_path.probe_interval_max"],
        settings.probe_interval <= settings.probe_interval_max,
        "probe_interval must not exceed probe_interval_max",
    );
    settings
}
