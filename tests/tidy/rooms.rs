//! Who may name whom: the rooms of `src/`, and the homes of foreign crates.
//!
//! A new line in one of the two tables is a design change; the commit says why.

use std::collections::BTreeSet;

use super::paths::begins;

/// A room, and the rooms that its shipped code may name. `cli` may name everything and `config` is judged apart.
const ROOMS: &[(&str, &[&str])] = &[
    ("ids", &[]),
    ("time", &[]),
    ("verdict", &["ids", "time"]),
    ("rules", &["ids", "time", "verdict"]),
    ("store", &["ids", "time", "rules"]),
    ("ledger", &["ids", "time", "verdict", "rules", "store"]),
    ("cube", &["ids", "time", "rules"]),
    ("telemetry", &["ids", "verdict"]),
    // What calls and tasks both carry out at Cube.
    ("deeds", &["ids", "time", "verdict", "rules", "ledger", "cube", "telemetry"]),
    ("calls", &["ids", "time", "verdict", "rules", "ledger", "cube", "deeds", "telemetry"]),
    ("tasks", &["ids", "time", "verdict", "rules", "ledger", "cube", "deeds", "telemetry"]),
    // The pass-through hands its request to the upstream client, and idle limits are counted on a clock.
    ("proxy", &["ids", "time", "verdict", "calls", "cube", "telemetry"]),
    // What it shows has names and times; what it needs of calls and tasks it is given (`Outlook`).
    ("admin", &["ids", "time", "verdict", "rules", "ledger", "telemetry"]),
];

/// A foreign path, and where shipped code may name it. `src/cli/serve.rs` may name any, to wire them.
const HOMES: &[(&str, &[&str])] = &[
    ("pingora_core", &["src/proxy"]),
    ("hyper::server", &["src/proxy", "src/admin"]),
    ("hyper", &["src/proxy", "src/admin", "src/cube"]),
    ("hyper_util::rt", &["src/cube", "src/proxy", "src/admin"]),
    ("hyper_util", &["src/cube"]),
    ("tower", &["src/cube"]),
    ("redis", &["src/store/redis"]),
    ("redb", &["src/store/embedded"]),
    ("governor", &["src/calls/throttle"]),
    ("prometheus", &["src/telemetry"]),
    ("clap", &["src/cli"]),
    // The listening sockets go from process to process.
    ("rustix", &["src/cli/handover"]),
    ("toml", &["src/config"]),
    ("serde", &["src/config", "src/cube", "src/store/schema", "src/admin", "src/verdict"]),
    // A decision's evidence is data of any shape; mends and completions speak of answers that are JSON.
    (
        "serde_json",
        &[
            "src/config",
            "src/cube",
            "src/store/schema",
            "src/admin",
            "src/verdict",
            "src/ledger/decisions",
            "src/calls/context",
            // What a webhook is sent.
            "src/telemetry/events",
            "src/calls/mends",
            "src/calls/enrich",
            // What a running warden answers, and `--json`.
            "src/cli",
        ],
    ),
    // At the command line errors are read by people; elsewhere a caller matches on them.
    ("anyhow", &["src/cli", "src/main"]),
];

/// What a rule, which only decides, can have no use for.
const NOT_IN_RULES: &[&str] = &["tokio", "tracing"];

/// The room a file belongs to: `src/calls/list.rs` and `src/calls.rs` both are `calls`.
fn room_of(file: &str) -> &str {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').next().unwrap_or(inside)
}

/// Paths into rooms that the file's own room may not name.
pub(super) fn complaints(file: &str, named: &[String]) -> Vec<String> {
    let room = room_of(file);
    let targets = named.iter().filter_map(|path| path.strip_prefix("crate::").map(|inside| (path, inside)));
    let targets = targets.filter(|(_, inside)| {
        let target = inside.split("::").next().unwrap_or(inside);
        is_room(target) && target != room && !may_name(room, target, inside)
    });
    targets
        .map(|(path, _)| format!("names `{path}`: `{room}` has no door there (see tests/tidy/rooms.rs)"))
        .collect()
}

fn is_room(name: &str) -> bool {
    ["cli", "config"].contains(&name) || ROOMS.iter().any(|(room, _)| *room == name)
}

fn may_name(room: &str, target: &str, inside: &str) -> bool {
    match room {
        "cli" | "lib" | "main" => true,
        "config" => target != "cli" && is_plain_settings(target, inside),
        _ => ROOMS.iter().any(|(name, doors)| *name == room && doors.contains(&target)),
    }
}

/// Reading the file must not reach into what it configures: only names, policies and rooms' settings are plain data.
fn is_plain_settings(target: &str, inside: &str) -> bool {
    let module = inside.split("::").nth(1);
    let last = inside.rsplit("::").next().unwrap_or(inside);
    ["ids", "time"].contains(&target)
        || matches!(
            (target, module),
            (_, None | Some("settings")) | ("rules", Some("policy")) | ("telemetry", Some("logs"))
        )
        || last.ends_with("Settings")
        || last.ends_with("Limits")
}

/// Foreign crates away from their homes, each once.
pub(super) fn complaints_about_crates(file: &str, named: &[String]) -> Vec<String> {
    let strangers: BTreeSet<&str> = named.iter().filter_map(|path| stranger(file, path)).collect();
    strangers
        .iter()
        .map(|krate| format!("names `{krate}`, which is not at home here (see tests/tidy/rooms.rs)"))
        .collect()
}

/// What of the path is not at home in the file; the longest entry that fits decides, `hyper::server` before `hyper`.
fn stranger(file: &str, path: &str) -> Option<&'static str> {
    let unruly = NOT_IN_RULES.iter().find(|krate| room_of(file) == "rules" && begins(path, krate));
    let at_home = |home: &&str| file.strip_prefix(*home).is_some_and(|rest| rest.starts_with(['/', '.']));
    let entry = HOMES.iter().filter(|(krate, _)| begins(path, krate)).max_by_key(|(krate, _)| krate.len());
    let homeless = entry.filter(|(_, homes)| file != "src/cli/serve.rs" && !homes.iter().any(at_home));
    unruly.copied().or(homeless.map(|(krate, _)| *krate))
}

#[test]
fn a_door_that_is_not_in_the_table_is_found() {
    use super::{check, check_fine};
    check(
        "src/rules/lease.rs",
        "//! Leases.\nuse crate::{ids::Owner, store::Store};\n",
        "`rules` has no door",
    );
    check(
        "src/calls/list.rs",
        "//! Lists.\nfn f() -> super::super::config::Settings {}\n",
        "`calls` has no door",
    );
    check(
        "src/config/mod.rs",
        "//! Settings.\nuse crate::calls::{Settings, create};\n",
        "`crate::calls::create`",
    );
    check_fine(
        "src/calls/list.rs",
        "//! See [`crate::store`].\nuse crate::ledger::Ledger;\nuse super::context::Context;\n",
    );
    check_fine("src/cli/serve.rs", "//! Wiring.\nuse crate::{calls, config, store};\nuse redb::Database;\n");
    check_fine(
        "src/calls/list.rs",
        "//! Lists.\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::store::embedded;\n}\n",
    );
}

#[test]
fn a_foreign_crate_away_from_home_is_found() {
    use super::{check, check_fine};
    check("src/ledger/mod.rs", "//! Ledger.\nfn f(db: &redb::Database) {}\n", "not at home");
    check("src/cube/client.rs", "//! Client.\nuse hyper::server::conn::http1;\n", "not at home");
    check(
        "src/proxy/mod.rs",
        "//! Skin.\nuse hyper_util::{rt::TokioIo, client::legacy::Client};\n",
        "`hyper_util`",
    );
    check("src/rules/rate.rs", "//! Rates.\nuse tokio::sync::Mutex;\n", "not at home");
    check("src/calls/throttled.rs", "//! Not throttle.\nuse governor::Quota;\n", "not at home");
    check_fine("src/calls/throttle.rs", "//! Throttle.\nuse governor::Quota;\n");
    check_fine("src/store/mod.rs", "//! Stores.\npub mod redis;\npub use redis::RedisStore;\n");
    check_fine(
        "src/cube/client.rs",
        "//! Client.\nuse hyper::client::conn::http1;\nlet redis = \"redis::x\";\n",
    );
}
