//! `[collector]` and `[reconciler]`: the times and caps of the background tasks.

use super::kinds::{duration, whole};
use super::sheet::Sheet;
use super::span::{DAY, HOUR, MILLISECOND, MINUTE, SECOND, YEAR};
use crate::tasks::settings::{Collector, Deletes, Reconciler};

/// Reads `[collector]`.
pub(super) fn collector(sheet: &mut Sheet) -> Collector {
    let settings = sheet.section("collector", |s| Collector {
        cycle: s.get("cycle", "60s", &duration(SECOND..=DAY)),
        heartbeat: s.get("heartbeat", "30s", &duration(SECOND..=DAY)),
        root_fresh: s.get("root_fresh", "120s", &duration(SECOND..=DAY)),
        newborn_grace: s.get("newborn_grace", "180s", &duration(SECOND..=YEAR)),
        confirmations: s.get("confirmations", 2, &whole(2..=100)),
        overdue_grace: s.get("overdue_grace", "30m", &duration(SECOND..=YEAR)),
        listing_skip_cap: s.get("listing_skip_cap", 3, &whole(0..=100)),
        listing_drop_floor: s.get("listing_drop_floor", 10, &whole(0..=1_000_000)),
        listing_drop_percent: s.get("listing_drop_percent", 20, &whole(0..=100)),
        max_kills_per_cycle: s.get("max_kills_per_cycle", 50, &whole(0..=100_000)),
        max_kills_per_bucket: s.get("max_kills_per_bucket", 25, &whole(0..=100_000)),
    });
    sheet.cross(
        &["collector.root_fresh", "collector.heartbeat"],
        settings.root_fresh >= settings.heartbeat * 2,
        "root_fresh must be at least twice heartbeat, so that one lost beat kills nobody",
    );
    sheet.cross(
        &["collector.newborn_grace", "collector.cycle"],
        settings.newborn_grace >= settings.cycle,
        "newborn_grace must be at least one cycle, so that no sandbox is judged by the first look at it",
    );
    settings
}

/// Reads `[reconciler]`.
pub(super) fn reconciler(sheet: &mut Sheet) -> (Reconciler, Deletes) {
    let (reconciler, deletes) = sheet.section("reconciler", |s| {
        let reconciler = Reconciler {
            search: s.get("search", "5s", &duration(MILLISECOND..=HOUR)),
            ambiguous_horizon: s.get("ambiguous_horizon", "10m", &duration(SECOND..=DAY)),
            claim: s.get("claim", "120s", &duration(SECOND..=DAY)),
            deadline_grace: s.get("deadline_grace", "5s", &duration(MILLISECOND..=HOUR)),
        };
        let deletes = Deletes {
            client_wait: s.get("delete_wait", "25s", &duration(SECOND..=MINUTE)),
            retry: s.get("delete_retry", "2s", &duration(MILLISECOND..=HOUR)),
            retry_max: s.get("delete_retry_max", "60s", &duration(MILLISECOND..=DAY)),
            quarantine_after: s.get("quarantine_after", 10, &whole(1..=1_000)),
            quarantine_retry: s.get("quarantine_retry", "10m", &duration(SECOND..=DAY)),
            max_wakes: wide(s.get("max_wakes", 4, &whole(1..=1_000))),
        };
        (reconciler, deletes)
    });
    sheet.cross(
        &["reconciler.ambiguous_horizon", "reconciler.search"],
        reconciler.ambiguous_horizon >= reconciler.search * 3,
        "ambiguous_horizon must be at least three times search: only three listings prove that nothing came to be",
    );
    sheet.cross(
        &["reconciler.delete_retry", "reconciler.delete_retry_max"],
        deletes.retry <= deletes.retry_max,
        "delete_retry must not exceed delete_retry_max",
    );
    (reconciler, deletes)
}

/// A count as the machine counts.
pub(super) fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
