//! Reads: lists with the filters that Cube really has, GET, logs.
//!
//! A page is a page of hosts, not of sandboxes; there is never a next one; hosts that do not answer are left out without a word.

use cubewarden::time::UnixMillis;
use serde::Serialize;

use super::{Bend, Cube, Listing, Memory, Sandbox, State};
use crate::cube::answer::Answer;
use crate::cube::ask::{Asker, Kind, ListQuery, LogsForm, LogsQuery};

/// Hosts on a page if nothing is said.
const DEFAULT_LIMIT: i32 = 100;
const DEFAULT_LOG_LIMIT: usize = 1000;

#[derive(Serialize)]
struct Line<'a> {
    timestamp: String,
    line: &'a str,
}

#[derive(Serialize)]
struct Entry<'a> {
    timestamp: String,
    message: &'a str,
    level: &'static str,
    fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogsV1<'a> {
    logs: Vec<Line<'a>>,
    log_entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct LogsV2<'a> {
    logs: Vec<Entry<'a>>,
}

impl Cube {
    pub(super) fn list(&self, query: &ListQuery, asker: Asker, bend: &Bend) -> Answer {
        let hosts = usize::try_from(query.limit.unwrap_or(DEFAULT_LIMIT).max(1)).expect("at least one");
        let page = &self.hosts[..hosts.min(self.hosts.len())];
        let pairs = pairs(query.metadata.as_deref().unwrap_or_default());
        let mut hits: Vec<&Sandbox> = self.sandboxes.values().collect();
        hits.retain(|one| page.contains(&one.host) && !self.world.unreachable.contains(&one.host));
        hits.retain(|one| has_state(one, query.state.as_deref()) && one.has_all(&pairs));
        hits.retain(|one| bend.list == Listing::True && !bend.omit.contains(&one.id));
        hits.sort_by_key(|one| std::cmp::Reverse(one.order));
        let items: Vec<_> = hits.iter().map(|one| one.item(self.profile, asker, memory(bend))).collect();
        Answer::json(200, &items)
    }

    pub(super) fn get(&self, id: &str, asker: Asker, bend: &Bend) -> Answer {
        match self.find(id, Kind::Get) {
            Ok(full) => {
                let sandbox = &self.sandboxes[&full];
                Answer::json(200, &sandbox.detail(self.profile, asker, memory(bend), &self.domain))
            }
            Err(lost) => lost.answer(id),
        }
    }

    pub(super) fn logs(&self, id: &str, query: &LogsQuery, form: LogsForm) -> Answer {
        let log: &[(UnixMillis, String)] = match self.find(id, Kind::Logs) {
            Ok(full) => &self.sandboxes[&full].log,
            Err(lost) if self.profile.asks_before_acting() => return lost.answer(id),
            Err(_) => &[],
        };
        let shown = &log[..log.len().min(query.limit.unwrap_or(DEFAULT_LOG_LIMIT))];
        let lines = shown.iter().map(|(at, line)| Line { timestamp: at.to_string(), line });
        let entries = shown.iter().map(|(at, message)| Entry {
            timestamp: at.to_string(),
            message,
            level: "info",
            fields: serde_json::Map::new(),
        });
        match form {
            LogsForm::V1 => {
                Answer::json(200, &LogsV1 { logs: lines.collect(), log_entries: entries.collect() })
            }
            LogsForm::V2 => Answer::json(200, &LogsV2 { logs: entries.collect() }),
        }
    }
}

fn memory(bend: &Bend) -> Memory {
    if bend.forget_labels { Memory::SystemOnly } else { Memory::Whole }
}

/// Only the two exact words filter; everything else, the comma list of the SDKs too, means no filter.
fn has_state(sandbox: &Sandbox, wanted: Option<&str>) -> bool {
    match wanted {
        Some("running") => !matches!(sandbox.state, State::Paused | State::Pausing),
        Some("paused") => sandbox.state == State::Paused,
        _ => true,
    }
}

/// `k=v&k2=v2` after one decoding; a part without `=` says nothing.
fn pairs(filter: &str) -> Vec<(&str, &str)> {
    filter.split('&').filter_map(|part| part.split_once('=')).collect()
}
