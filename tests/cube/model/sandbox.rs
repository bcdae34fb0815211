//! One sandbox: its state, its idle window, and how each answer shows it.
//!
//! ```text
//!   create/timeout/refresh        traffic            max(rebased, active) + timeout
//!        rebased ───────────────── active ───────────────── deadline
//!           └── rebased + timeout = endAt (traffic never moves it)
//! ```

use std::time::Duration;

use cubewarden::time::{Chance, UnixMillis};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::census::{Labels, Token};
use crate::cube::ask::{Asker, VolumeMount};
use crate::cube::profile::Profile;

/// The end that e2b is shown where there is none.
const FAR_END: &str = "9999-12-31T23:59:59Z";
/// What a template's envd reports.
pub(crate) const ENVD: &str = "0.5.11";
/// What stands in its place when the real one is lost.
const LOST_ENVD: &str = "0.2.0";

/// A state as the backend holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Running,
    Pausing,
    Paused,
    Stopped,
    Unknown,
}

/// What the sweeper does at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnTimeout {
    Kill,
    Pause,
}

/// A sandbox that exists.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) order: u64,
    pub(crate) token: Token,
    pub(crate) template: String,
    pub(crate) labels: Labels,
    pub(crate) shown: Vec<(String, String)>,
    pub(crate) born: Stamp,
    pub(crate) paused_at: Option<Stamp>,
    pub(crate) rebased: UnixMillis,
    pub(crate) active: UnixMillis,
    /// When `CubeProxy` last carried something to it.
    pub(crate) spoken_to: Option<UnixMillis>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_timeout: OnTimeout,
    pub(crate) auto_resume: bool,
    pub(crate) state: State,
    pub(crate) pause_snapshot: Option<String>,
    pub(crate) log: Vec<(UnixMillis, String)>,
    pub(crate) mounts: Vec<VolumeMount>,
}

/// A time stamp with the nanoseconds that the clock does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    at: UnixMillis,
    nanos: u64,
}

impl Stamp {
    /// `at`, with a random rest of a millisecond.
    pub(crate) fn new(at: UnixMillis, chance: &Chance) -> Self {
        Self { at, nanos: chance.below(1_000_000) }
    }

    /// RFC 3339 with nine digits.
    pub(crate) fn text(self) -> String {
        let whole = self.at.to_string();
        format!("{}{:06}Z", whole.trim_end_matches('Z'), self.nanos)
    }
}

/// One entry of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item<'a> {
    #[serde(rename = "templateID")]
    template_id: &'a str,
    #[serde(rename = "sandboxID")]
    sandbox_id: &'a str,
    #[serde(rename = "clientID")]
    client_id: &'a str,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_at: Option<String>,
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory_mb: u32,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u32,
    metadata: Pairs<'a>,
    state: State,
    envd_version: &'a str,
    #[serde(skip_serializing_if = "<[VolumeMount]>::is_empty")]
    volume_mounts: &'a [VolumeMount],
}

/// The answer of GET.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail<'a> {
    #[serde(rename = "templateID")]
    template_id: &'a str,
    #[serde(rename = "sandboxID")]
    sandbox_id: &'a str,
    #[serde(rename = "clientID")]
    client_id: &'a str,
    started_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_at: Option<String>,
    envd_version: &'a str,
    domain: &'a str,
    cpu_count: u32,
    #[serde(rename = "memoryMB")]
    memory_mb: u32,
    #[serde(rename = "diskSizeMB")]
    disk_size_mb: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Pairs<'a>>,
    state: State,
    #[serde(skip_serializing_if = "<[VolumeMount]>::is_empty")]
    volume_mounts: &'a [VolumeMount],
}

/// The answer of create, connect and resume.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Handle<'a> {
    #[serde(rename = "templateID")]
    pub(crate) template_id: &'a str,
    #[serde(rename = "sandboxID")]
    pub(crate) sandbox_id: &'a str,
    #[serde(rename = "clientID")]
    pub(crate) client_id: &'a str,
    pub(crate) envd_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traffic_access_token: Option<String>,
    pub(crate) domain: &'a str,
}

/// Which of the pairs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Whole,
    /// The client's own labels are forgotten.
    SystemOnly,
}

/// Metadata in its own order.
struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Sandbox {
    /// When the idle window closes; `None`: never.
    pub(crate) fn deadline(&self) -> Option<UnixMillis> {
        self.timeout.map(|length| self.rebased.max(self.active).plus(length))
    }

    /// What the control plane says of the end; traffic does not move it.
    pub(crate) fn end_at(&self) -> Option<UnixMillis> {
        self.timeout.map(|length| self.rebased.plus(length))
    }

    /// A new window of `seconds` from `now`; negative: never.
    pub(crate) fn rebase(&mut self, seconds: i32, now: UnixMillis) {
        self.timeout = u64::try_from(seconds).ok().map(Duration::from_secs);
        self.rebased = now;
        self.active = now;
    }

    /// Runs again, with a fresh idle window of the old length.
    pub(crate) fn wake(&mut self, now: UnixMillis) {
        self.state = State::Running;
        self.active = now;
        self.paused_at = None;
        self.pause_snapshot = None;
    }

    /// When the sweeper will act on it; `None`: never.
    pub(crate) fn swept_at(&self, profile: Profile) -> Option<UnixMillis> {
        let paused = matches!(self.state, State::Paused | State::Pausing);
        let spared = paused && !(profile.sweeps_paused() && self.on_timeout == OnTimeout::Kill);
        self.deadline().filter(|_| !spared)
    }

    /// Does the metadata, system labels included, contain all these pairs?
    pub(crate) fn has_all(&self, pairs: &[(&str, &str)]) -> bool {
        let held = |key: &str, value: &str| self.shown.iter().any(|(k, v)| k == key && v == value);
        pairs.iter().all(|(key, value)| held(key, value))
    }

    /// How a list shows it.
    pub(crate) fn item(&self, profile: Profile, asker: Asker, memory: Memory) -> Item<'_> {
        // Only these three ever show; what the backend cannot name is called running.
        let state = match self.state {
            State::Paused | State::Pausing => self.state,
            _ => State::Running,
        };
        Item {
            template_id: &self.template,
            sandbox_id: &self.id,
            client_id: &self.host,
            started_at: self.born.text(),
            end_at: self.end_text(profile, asker),
            cpu_count: 2,
            memory_mb: 2148,
            disk_size_mb: 0,
            metadata: self.pairs(memory),
            state,
            envd_version: ENVD,
            volume_mounts: &self.mounts,
        }
    }

    /// How GET shows it.
    pub(crate) fn detail<'a>(
        &'a self,
        profile: Profile,
        asker: Asker,
        memory: Memory,
        domain: &'a str,
    ) -> Detail<'a> {
        let state = if self.state == State::Paused { State::Paused } else { State::Running };
        let lost = state == State::Paused && profile.loses_view_on_pause();
        Detail {
            template_id: if lost { "" } else { &self.template },
            sandbox_id: &self.id,
            client_id: &self.host,
            started_at: self.paused_at.filter(|_| lost).unwrap_or(self.born).text(),
            end_at: self.end_text(profile, asker),
            envd_version: if lost { LOST_ENVD } else { ENVD },
            domain,
            cpu_count: if lost { 0 } else { 2 },
            memory_mb: if lost { 0 } else { 2048 },
            disk_size_mb: 0,
            metadata: (!lost).then(|| self.pairs(memory)),
            state,
            volume_mounts: &self.mounts,
        }
    }

    fn end_text(&self, profile: Profile, asker: Asker) -> Option<String> {
        let far = profile.shows_far_end_to_e2b() && asker == Asker::E2b;
        let known = self.end_at().map(|at| at.to_string());
        known.or_else(|| far.then(|| FAR_END.to_owned()))
    }

    fn pairs(&self, memory: Memory) -> Pairs<'_> {
        let kept = |key: &str| memory == Memory::Whole || !self.labels.contains_key(key);
        let shown = self.shown.iter().filter(|(key, _)| kept(key));
        Pairs(shown.map(|(key, value)| (key.as_str(), value.as_str())).collect())
    }
}
