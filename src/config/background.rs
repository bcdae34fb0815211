//! `[collector]` and `[reconciler]`: the times and caps of the background tasks.

use http::Uri;

use super::kinds::{Kind, duration, text, variable, whole};
use super::sheet::{Section, Sheet};
use super::span::{DAY, HOUR, MILLISECOND, MINUTE, SECOND, YEAR};
use crate::tasks::settings::{Collector, Deletes, Prices, Reconciler, Webhook};

/// Reads `[collector]`.
pub(super) fn collector(sheet: &mut Sheet) -> Collector {
    let settings = sheet.section("collector", |s| {
        let secret = s.get("webhook_secret_env", "", &variable());
        let webhook = s.get("webhook_url", "", &webhook_url());
        let prices = Prices {
            vcpu_hour: s.get("price_per_vcpu_hour", "", &price()),
            gb_hour: s.get("price_per_gb_hour", "", &price()),
        };
        let secret = s.content_of("webhook_secret_env", &secret);
        times(s, prices, webhook.map(|url| Webhook { url, secret }))
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

fn times(s: &mut Section<'_>, prices: Prices, webhook: Option<Webhook>) -> Collector {
    Collector {
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
        prices,
        webhook,
    }
}

/// An amount of money, or nothing; in millionths.
fn price() -> Kind<Option<u64>> {
    text("an amount such as \"0.05\", with at most six decimals, or \"\"", |text| {
        if text.is_empty() { Some(None) } else { millionths(text).map(Some) }
    })
}

fn millionths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    Some(whole.parse::<u64>().ok()? * 1_000_000 + format!("{part:0<6}").parse::<u64>().ok()?)
}

/// Where events are posted, or nowhere.
fn webhook_url() -> Kind<Option<Uri>> {
    text("http://host[:port][/path], or \"\"", |text| {
        if text.is_empty() {
            return Some(None);
        }
        let uri: Uri = text.parse().ok()?;
        let plain = uri.scheme_str() == Some("http") && !uri.authority()?.as_str().contains('@');
        plain.then_some(Some(uri))
    })
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

#[cfg(test)]
mod tests {
    use super::millionths;

    #[test]
    fn money_is_read_exactly_or_not_at_all() {
        assert_eq!(millionths("0.05"), Some(50_000));
        assert_eq!(millionths("12"), Some(12_000_000));
        assert_eq!(millionths("0.000001"), Some(1));
        for bad in ["", ".5", "1.", "-1", "1e3", "0.0000001", "1,5", " 1"] {
            assert_eq!(millionths(bad), None, "{bad}");
        }
    }
}
