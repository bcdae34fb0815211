//! `[store]`: where the ledger is kept, and how much of its decision log.

use super::kinds::{Kind, any_text, choice, duration, hidden, text, whole};
use super::sheet::Sheet;
use super::span::{HOUR, YEAR};
use crate::store::settings::Settings;
use crate::tasks::settings::Decisions;

#[derive(Clone, Copy)]
enum StoreKind {
    Embedded,
    Memory,
    Redis,
}

/// Reads the section.
pub(super) fn read(sheet: &mut Sheet) -> (Settings, Decisions) {
    let kinds =
        [("embedded", StoreKind::Embedded), ("memory", StoreKind::Memory), ("redis", StoreKind::Redis)];
    let (kind, path, url, decisions) = sheet.section("store", |s| {
        let kind = s.get("kind", "embedded", &choice(kinds));
        let path = s.get("path", "./cubewarden-data", &any_text());
        let url = s.get("url", "", &url());
        let decisions = Decisions {
            age: s.get("decisions_age", "7days", &duration(HOUR..=YEAR)),
            count: s.get("decisions_count", 100_000, &whole(1_000..=100_000_000)).into(),
        };
        (kind, path, url, decisions)
    });
    let embedded = matches!(kind, StoreKind::Embedded);
    sheet.cross(
        &["store.kind", "store.path"],
        !embedded || !path.is_empty(),
        "an embedded store needs a path",
    );
    let redis = matches!(kind, StoreKind::Redis);
    sheet.cross(&["store.kind", "store.url"], !redis || !url.is_empty(), "a Redis store needs a url");
    let settings = match kind {
        StoreKind::Embedded => Settings::Embedded { path: path.into() },
        StoreKind::Memory => Settings::Memory,
        StoreKind::Redis => Settings::Redis { url },
    };
    (settings, decisions)
}

/// An address of Redis, or nothing. Never shown unless empty: it may hold a password.
fn url() -> Kind<String> {
    let ok = |text: &str| {
        let known = ["redis://", "rediss://", "unix://"].iter().any(|scheme| text.starts_with(scheme));
        (text.is_empty() || known).then(|| text.to_owned())
    };
    text("redis://host:port, rediss://host:port or unix:///path, or \"\"", ok)
        .shown_as(|value| if value.as_str() == Some("") { "\"\"".to_owned() } else { hidden(value) })
}
