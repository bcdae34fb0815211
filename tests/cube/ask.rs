//! A request as the model reads it: what is asked, by which kind of client, and the bodies as `CubeAPI` declares them.
//!
//! The two forms of a create's body stand in `create_body`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The closed list of routes, as faults, latencies and counters name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Health,
    Create,
    List,
    Get,
    Delete,
    Pause,
    Resume,
    Connect,
    Timeout,
    Refreshes,
    Logs,
    Network,
    Snapshot,
    Rollback,
    Snapshots,
    Templates,
    Template,
    NewTemplate,
    PatchTemplate,
    DeleteTemplate,
    Alias,
    Volumes,
    Volume,
    NewVolume,
    DeleteVolume,
}

impl Kind {
    /// The method by which it is asked.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Create
            | Self::Pause
            | Self::Resume
            | Self::Connect
            | Self::Timeout
            | Self::Refreshes
            | Self::Snapshot
            | Self::Rollback
            | Self::NewTemplate
            | Self::NewVolume => "POST",
            Self::Delete | Self::DeleteTemplate | Self::DeleteVolume => "DELETE",
            Self::Network => "PUT",
            Self::PatchTemplate => "PATCH",
            _ => "GET",
        }
    }

    /// Whether it changes anything, and so goes through the backend's write path.
    pub(crate) fn is_write(self) -> bool {
        self.method() != "GET"
    }

    /// The backend's path, as transport errors name it.
    pub(crate) fn backend_path(self) -> &'static str {
        match self {
            Self::List => "/cube/sandbox/list",
            Self::Get | Self::Connect => "/cube/sandbox/info",
            Self::Pause | Self::Resume => "/cube/sandbox/update",
            Self::Snapshot | Self::Rollback | Self::Snapshots => "/cube/snapshot",
            Self::Templates | Self::Template | Self::NewTemplate | Self::DeleteTemplate => "/cube/template",
            _ => "/cube/sandbox",
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Health,
    Create(NewSandbox),
    List(ListQuery),
    Get(String),
    Delete(String),
    Pause(String),
    Resume(String, Option<i32>),
    Connect(String, Option<i32>),
    Timeout(String, i32),
    Refreshes(String, Option<i32>),
    Logs(String, LogsQuery, LogsForm),
    Network(String),
    Snapshot(String, Option<String>),
    Rollback(String, String),
    Snapshots(SnapshotsQuery),
    Templates,
    Template(String),
    NewTemplate(NewTemplate),
    RebuildTemplate(String),
    PatchTemplate,
    DeleteTemplate(String),
    FindAlias(String),
    SetAlias(String, Option<String>),
    Volumes,
    Volume(String),
    NewVolume(Option<String>),
    DeleteVolume(String),
}

impl Ask {
    /// Its kind.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Health => Kind::Health,
            Self::Create(_) => Kind::Create,
            Self::List(_) => Kind::List,
            Self::Get(_) => Kind::Get,
            Self::Delete(_) => Kind::Delete,
            Self::Pause(_) => Kind::Pause,
            Self::Resume(..) => Kind::Resume,
            Self::Connect(..) => Kind::Connect,
            Self::Timeout(..) => Kind::Timeout,
            Self::Refreshes(..) => Kind::Refreshes,
            Self::Logs(..) => Kind::Logs,
            Self::Network(_) => Kind::Network,
            Self::Snapshot(..) => Kind::Snapshot,
            Self::Rollback(..) => Kind::Rollback,
            Self::Snapshots(_) => Kind::Snapshots,
            Self::Templates => Kind::Templates,
            Self::Template(_) => Kind::Template,
            Self::NewTemplate(_) | Self::RebuildTemplate(_) => Kind::NewTemplate,
            Self::PatchTemplate => Kind::PatchTemplate,
            Self::DeleteTemplate(_) => Kind::DeleteTemplate,
            Self::FindAlias(_) | Self::SetAlias(..) => Kind::Alias,
            Self::Volumes => Kind::Volumes,
            Self::Volume(_) => Kind::Volume,
            Self::NewVolume(_) => Kind::NewVolume,
            Self::DeleteVolume(_) => Kind::DeleteVolume,
        }
    }

    /// The sandbox that is meant, as the path names it.
    pub(crate) fn sandbox(&self) -> Option<&str> {
        match self {
            Self::Get(id)
            | Self::Delete(id)
            | Self::Pause(id)
            | Self::Resume(id, _)
            | Self::Connect(id, _)
            | Self::Timeout(id, _)
            | Self::Refreshes(id, _)
            | Self::Logs(id, ..)
            | Self::Network(id)
            | Self::Snapshot(id, _)
            | Self::Rollback(id, _) => Some(id),
            _ => None,
        }
    }
}

/// Whose models want an `endAt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    E2b,
    Other,
}

impl Asker {
    /// By its user agent, as `CubeAPI` tells them apart.
    pub(crate) fn of(user_agent: &str) -> Self {
        let marks = ["e2b-python-sdk/", "e2b-js-sdk/", "e2b-code-interpreter/"];
        if marks.iter().any(|mark| user_agent.contains(mark)) { Self::E2b } else { Self::Other }
    }
}

/// The two forms in which a log is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogsForm {
    V1,
    V2,
}

/// Query of the v1 list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct OldListQuery {
    pub(crate) metadata: Option<String>,
}

/// Query of the v2 list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ListQuery {
    pub(crate) metadata: Option<String>,
    pub(crate) state: Option<String>,
    pub(crate) limit: Option<i32>,
}

/// Query of both logs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct LogsQuery {
    pub(crate) limit: Option<usize>,
}

/// Query of the snapshot list; the token is the place of the next snapshot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotsQuery {
    #[serde(rename = "sandboxID")]
    pub(crate) sandbox_id: Option<String>,
    pub(crate) limit: Option<usize>,
    pub(crate) next_token: Option<String>,
}

/// A create, whichever form it came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewSandbox {
    pub(crate) template_id: String,
    pub(crate) timeout: Option<i32>,
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) auto_pause: Option<bool>,
    pub(crate) auto_resume: Option<Value>,
    pub(crate) public_traffic: Option<bool>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) volume_mounts: Vec<VolumeMount>,
}

/// `lifecycle` of a create.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lifecycle {
    #[serde(alias = "on_timeout")]
    pub(crate) on_timeout: Option<String>,
    #[serde(alias = "auto_resume", default)]
    pub(crate) auto_resume: bool,
}

/// `network` of a create, as far as an answer depends on it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Network {
    pub(crate) allow_public_traffic: Option<bool>,
}

/// One of `volumeMounts`: `name` is the volume's id.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct VolumeMount {
    pub(crate) name: String,
    pub(crate) path: String,
    #[serde(rename = "readOnly", default)]
    pub(crate) read_only: bool,
}

/// The mounts of a create of v0.6.0, where they are not among the counted fields.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mounts {
    #[serde(default)]
    pub(crate) volume_mounts: Vec<VolumeMount>,
}

/// Body of connect and resume; both fields of both may be missing.
#[derive(Debug, Deserialize)]
pub(crate) struct MaybeTimeout {
    pub(crate) timeout: Option<i32>,
}

/// Body of timeout.
#[derive(Debug, Deserialize)]
pub(crate) struct NewTimeout {
    pub(crate) timeout: i32,
}

/// Body of refreshes.
#[derive(Debug, Deserialize)]
pub(crate) struct Refresh {
    pub(crate) duration: Option<i32>,
}

/// Body of snapshots and of volumes.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: Option<String>,
}

/// Body of rollback.
#[derive(Debug, Deserialize)]
pub(crate) struct RollbackTo {
    #[serde(rename = "snapshotID")]
    pub(crate) snapshot_id: String,
}

/// Body of a template's create.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NewTemplate {
    pub(crate) image: String,
    pub(crate) alias: Option<String>,
}

/// Body of a template's alias.
#[derive(Debug, Deserialize)]
pub(crate) struct NewAlias {
    pub(crate) alias: Option<String>,
}
