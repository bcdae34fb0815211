//! Snapshots and volumes: both outlive their sandbox, and belong to nobody.

use cubewarden::time::{Chance, UnixMillis};
use serde::Serialize;

use super::Cube;
use super::catalog::operation;
use super::create::uuid;
use crate::cube::answer::Answer;
use crate::cube::ask::{Kind, SnapshotsQuery};

const MAX_SNAPSHOTS: usize = 100;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshot {
    #[serde(rename = "snapshotID")]
    pub(super) id: String,
    names: Vec<String>,
    status: &'static str,
    #[serde(rename = "originSandboxID")]
    origin: String,
    created_at: String,
    updated_at: String,
}

#[derive(Serialize)]
struct VolumeView<'a> {
    #[serde(rename = "volumeID")]
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl Cube {
    pub(super) fn snapshot(
        &mut self,
        id: &str,
        name: Option<&str>,
        now: UnixMillis,
        chance: &Chance,
    ) -> Answer {
        #[derive(Serialize)]
        struct Taken<'a> {
            #[serde(rename = "snapshotID")]
            snapshot: &'a str,
            names: &'a [String],
        }
        let origin = match self.find(id, Kind::Snapshot) {
            Ok(full) => full,
            Err(lost) => return lost.answer(id),
        };
        let id = format!("snap-{}", chance.hex(12));
        let names = vec![name.unwrap_or(&id).to_owned()];
        let answer = Answer::json(201, &Taken { snapshot: &id, names: &names });
        let at = now.to_string();
        let snapshot =
            Snapshot { id, names, status: "READY", origin, created_at: at.clone(), updated_at: at };
        self.catalog.snapshots.push(snapshot);
        answer
    }

    pub(super) fn rollback(&mut self, id: &str, snapshot: &str, chance: &Chance) -> Answer {
        #[derive(Serialize)]
        struct RolledBack<'a> {
            #[serde(rename = "sandboxID")]
            sandbox: &'a str,
            #[serde(rename = "snapshotID")]
            snapshot: &'a str,
            #[serde(rename = "operationID")]
            operation: String,
            status: &'static str,
        }
        let sandbox = match self.find(id, Kind::Rollback) {
            Ok(full) => full,
            Err(lost) => return lost.answer(id),
        };
        if !self.catalog.snapshots.iter().any(|one| one.id == snapshot) {
            return Answer::error(404, &format!("snapshot {snapshot} not found"));
        }
        let operation = operation(chance);
        Answer::json(200, &RolledBack { sandbox: &sandbox, snapshot, operation, status: "READY" })
    }

    pub(super) fn snapshots(&self, query: &SnapshotsQuery) -> Answer {
        let skip = query.next_token.as_deref().and_then(|token| token.parse().ok()).unwrap_or(0);
        let limit = query.limit.unwrap_or(MAX_SNAPSHOTS).clamp(1, MAX_SNAPSHOTS);
        let wanted = |one: &&Snapshot| query.sandbox_id.as_ref().is_none_or(|id| one.origin == *id);
        let all: Vec<&Snapshot> = self.catalog.snapshots.iter().rev().filter(wanted).collect();
        let page: Vec<&&Snapshot> = all.iter().skip(skip).take(limit).collect();
        let answer = Answer::json(200, &page);
        let next = skip + page.len();
        if next < all.len() { answer.with_header("x-next-token", next.to_string()) } else { answer }
    }

    pub(super) fn volumes(&self) -> Answer {
        let ids = self.catalog.volumes.keys();
        let views: Vec<_> = ids.map(|id| VolumeView { id, name: id, token: None }).collect();
        Answer::json(200, &views)
    }

    pub(super) fn volume(&self, id: &str) -> Answer {
        match self.catalog.volumes.get(id) {
            Some(token) => Answer::json(200, &VolumeView { id, name: id, token: Some(token) }),
            None => no_volume(id),
        }
    }

    pub(super) fn new_volume(&mut self, name: Option<&str>, chance: &Chance) -> Answer {
        let name = name.map_or_else(|| uuid(chance), str::to_owned);
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 128 || !name.chars().all(legal) {
            return Answer::error(400, &format!("invalid volume name: {name}"));
        }
        if self.catalog.has_volume(&name) {
            return Answer::error(409, &format!("volume {name} already exists"));
        }
        let answer = Answer::json(201, &VolumeView { id: &name, name: &name, token: Some("") });
        self.catalog.volumes.insert(name, String::new());
        answer
    }

    pub(super) fn delete_volume(&mut self, id: &str) -> Answer {
        let used = self.sandboxes.values().any(|one| one.mounts.iter().any(|mount| mount.name == id));
        if used {
            return Answer::error(409, &format!("volume {id} is in use"));
        }
        self.catalog.volumes.remove(id).map_or_else(|| no_volume(id), |_token| Answer::done())
    }
}

fn no_volume(id: &str) -> Answer {
    Answer::error(404, &format!("volume {id} not found"))
}
