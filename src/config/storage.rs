//! `[store]`: where the ledger is kept, and how much of its decision log.

use super::kinds::{Kind, any_text, choice, duration, flag, hidden, text, whole};
use super::sheet::Sheet;
use super::span::{HOUR, YEAR};
use crate::ids::LedgerId;
use crate::store::settings::{Redis, Settings};
use crate::tasks::settings::Decisions;

#[derive(Clone, Copy)]
enum StoreKind {
    Embedded,
    Memory,
    Redis,
}

/// Reads the section.
pub(super) fn read(sheet: &mut Sheet) -> (Settings, Option<LedgerId>, Decisions) {
    let kinds =
        [("embedded", StoreKind::Embedded), ("memory", StoreKind::Memory), ("redis", StoreKind::Redis)];
    let (kind, path, redis, lost, decisions) = sheet.section("store", |s| {
        let kind = s.get("kind", "embedded", &choice(kinds));
        let path = s.get("path", "./cubewarden-data", &any_text());
        let url = s.get("url", "", &url());
        let ledger = s.get("name", "main", &name());
        let share = s.get("share_redis", false, &flag());
        let decisions = Decisions {
            age: s.get("decisions_age", "7days", &duration(HOUR..=YEAR)),
            count: s.get("decisions_count", 100_000, &whole(1_000..=100_000_000)).into(),
            ends_age: s.get("ends_age", "60days", &duration(HOUR..=YEAR)),
            ends_count: s.get("ends_count", 200_000, &whole(1_000..=100_000_000)).into(),
        };
        let lost = s.get("lost_ledger", "", &lost_ledger());
        (kind, path, Redis { url, ledger, share }, lost, decisions)
    });
    let embedded = matches!(kind, StoreKind::Embedded);
    sheet.cross(
        &["store.kind", "store.path"],
        !embedded || !path.is_empty(),
        "an embedded store needs a path",
    );
    let shared = matches!(kind, StoreKind::Redis);
    sheet.cross(&["store.kind", "store.url"], !shared || !redis.url.is_empty(), "a Redis store needs a url");
    let settings = match kind {
        StoreKind::Embedded => Settings::Embedded { path: path.into() },
        StoreKind::Memory => Settings::Memory,
        StoreKind::Redis => Settings::Redis(redis),
    };
    (settings, lost, decisions)
}

/// How an address of Redis may begin; the store reads the rest.
const SCHEMES: [&str; 7] =
    ["redis", "rediss", "unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"];

/// The name of a ledger among others in the same Redis.
fn name() -> Kind<String> {
    text("a name of letters, digits, dots, dashes and underscores", |text| {
        let fine = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        (fine && (1..=63).contains(&text.len())).then(|| text.to_owned())
    })
}

/// The id of a ledger (`cw_ledger` in the metadata of its sandboxes), or nothing.
fn lost_ledger() -> Kind<Option<LedgerId>> {
    text("the 16 digits that stand as cw_ledger in the metadata of its sandboxes, or \"\"", |text| {
        if text.is_empty() { Some(None) } else { LedgerId::new(text).ok().map(Some) }
    })
}

/// An address of Redis, or nothing. Never shown unless empty: it may hold a password.
fn url() -> Kind<String> {
    let ok = |text: &str| {
        let known = SCHEMES
            .iter()
            .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://")));
        (text.is_empty() || known).then(|| text.to_owned())
    };
    let wanted = "redis://host:port, rediss://host:port, unix:///path, redis+cluster://host:port,host:port or \
                  redis+sentinel://host:port,host:port/service, or \"\"";
    text(wanted, ok)
        .shown_as(|value| if value.as_str() == Some("") { "\"\"".to_owned() } else { hidden(value) })
}
