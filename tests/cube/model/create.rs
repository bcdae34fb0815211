//! Creates: what is refused, where the new sandbox goes, and which labels the system adds.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubewarden::time::{Chance, UnixMillis};

use super::sandbox::{ENVD, Handle, Stamp};
use super::{Cube, OnTimeout, Sandbox, State, Token};
use crate::cube::answer::Answer;
use crate::cube::ask::{Kind, NewSandbox, VolumeMount};

/// Removed from the metadata: it is an order to mount, not a label.
const HOST_MOUNT: &str = "host-mount";
/// Names that a client may not set for all processes of a sandbox.
const DENIED_ENV: [&str; 7] =
    ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "NODE_PATH", "IFS", "BASH_ENV"];

/// A sandbox that a test wants to exist.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub(crate) struct Plant {
    pub(crate) id: Option<String>,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) timeout: Option<i32>,
    #[serde(default)]
    pub(crate) auto_pause: bool,
    #[serde(default)]
    pub(crate) auto_resume: bool,
}

impl Cube {
    pub(super) fn create(
        &mut self,
        new: &NewSandbox,
        token: Option<Token>,
        now: UnixMillis,
        chance: &Chance,
    ) -> Answer {
        let token = token.unwrap_or_else(|| self.census.begin(&Arc::new(new.metadata.clone())));
        match self.refusal(new) {
            Some(refusal) => {
                self.census.end(token);
                refusal
            }
            None => self.admit(new, token, now, chance),
        }
    }

    /// Puts a sandbox there, as if it had been created round everybody; its id.
    pub(crate) fn plant(&mut self, plant: Plant, now: UnixMillis, chance: &Chance) -> String {
        let new = NewSandbox {
            template_id: super::catalog::BASE.to_owned(),
            timeout: plant.timeout,
            metadata: plant.metadata,
            ..NewSandbox::default()
        };
        let token = self.census.begin(&Arc::new(new.metadata.clone()));
        let mut sandbox = self.build(&new, token, now, chance);
        sandbox.id = plant.id.unwrap_or(sandbox.id);
        sandbox.on_timeout = if plant.auto_pause { OnTimeout::Pause } else { OnTimeout::Kill };
        sandbox.auto_resume = plant.auto_resume;
        let id = sandbox.id.clone();
        self.sandboxes.insert(id.clone(), sandbox);
        id
    }

    fn refusal(&self, new: &NewSandbox) -> Option<Answer> {
        let backend = |code, text| Some(Answer::backend(self.profile, Kind::Create, code, text));
        if let Some(timeout) = new.timeout.filter(|timeout| *timeout < -1) {
            return Some(Answer::error(400, &timeout_text(timeout)));
        }
        if let Some(name) = new.env.keys().find(|name| DENIED_ENV.contains(&name.as_str())) {
            return Some(Answer::error(400, &format!("env var name not allowed: {name}")));
        }
        if new.template_id.is_empty() {
            return backend(130_400, "containers param is nil");
        }
        if self.catalog.resolve(&new.template_id, self.profile).is_none() {
            return backend(130_404, "template not found");
        }
        if self.hosts.iter().all(|host| self.world.unreachable.contains(host)) {
            return backend(130_597, "no more resource");
        }
        self.bad_mount(&new.volume_mounts)
    }

    fn bad_mount(&self, mounts: &[VolumeMount]) -> Option<Answer> {
        let mut names: Vec<&str> = mounts.iter().map(|mount| mount.name.as_str()).collect();
        names.sort_unstable();
        if let Some([twice, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(Answer::error(400, &format!("duplicate volume mount: {twice}")));
        }
        let unknown = names.into_iter().find(|name| !self.catalog.has_volume(name));
        unknown.map(|name| Answer::error(404, &format!("volume {name} not found")))
    }

    fn admit(&mut self, new: &NewSandbox, token: Token, now: UnixMillis, chance: &Chance) -> Answer {
        let sandbox = self.build(new, token, now, chance);
        let answer = Answer::json(
            201,
            &Handle {
                template_id: &new.template_id,
                sandbox_id: &sandbox.id,
                client_id: &uuid(chance),
                envd_version: ENVD,
                traffic_access_token: (new.public_traffic == Some(false)).then(|| chance.hex(16)),
                domain: &self.domain,
            },
        );
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
        answer
    }

    fn build(&mut self, new: &NewSandbox, token: Token, now: UnixMillis, chance: &Chance) -> Sandbox {
        self.orders += 1;
        let template = self.catalog.resolve(&new.template_id, self.profile).unwrap_or_default();
        let (on_timeout, auto_resume) = self.lifecycle_of(new);
        Sandbox {
            id: uuid(chance).replace('-', ""),
            host: self.emptiest_host(),
            order: self.orders,
            token,
            shown: shuffled(labels(new, &template, now), chance),
            labels: Arc::new(new.metadata.clone()),
            template,
            born: Stamp::new(now, chance),
            paused_at: None,
            rebased: now,
            active: now,
            spoken_to: None,
            timeout: new.timeout.and_then(|s| u64::try_from(s).ok()).map(std::time::Duration::from_secs),
            on_timeout,
            auto_resume,
            state: State::Running,
            pause_snapshot: None,
            log: vec![(now, "created".to_owned())],
            mounts: new.volume_mounts.clone(),
        }
    }

    fn lifecycle_of(&self, new: &NewSandbox) -> (OnTimeout, bool) {
        let pause = |yes: bool| {
            if yes { OnTimeout::Pause } else { OnTimeout::Kill }
        };
        match &new.lifecycle {
            Some(lifecycle) => {
                (pause(lifecycle.on_timeout.as_deref() == Some("pause")), lifecycle.auto_resume)
            }
            None if self.profile.reads_flat_auto_pause() => {
                let resume = new.auto_resume.as_ref();
                let enabled = resume.and_then(|v| v.as_bool().or_else(|| v.get("enabled")?.as_bool()));
                (pause(new.auto_pause == Some(true)), enabled == Some(true))
            }
            None => (OnTimeout::Kill, false),
        }
    }

    fn emptiest_host(&self) -> String {
        let load = |host: &String| self.sandboxes.values().filter(|one| one.host == *host).count();
        let reachable = self.hosts.iter().filter(|host| !self.world.unreachable.contains(*host));
        reachable.min_by_key(|host| load(host)).cloned().unwrap_or_default()
    }
}

/// The validator's sentence on a timeout below never.
pub(super) fn timeout_text(timeout: i32) -> String {
    format!(
        "timeout: Validation error: timeout_must_be_non_negative_or_never [{{\"value\": Number({timeout})}}]"
    )
}

fn labels(new: &NewSandbox, template: &str, now: UnixMillis) -> BTreeMap<String, String> {
    let mut all = new.metadata.clone();
    all.remove(HOST_MOUNT);
    // The system's labels win over the client's of the same name.
    all.extend(
        [
            ("X-Caller", "X-Caller".to_owned()),
            ("cube.master.runtime.snapshot.attached_at", now.to_string()),
            ("cube.master.instance.type", "cubebox".to_owned()),
            ("cube.master.runtime.snapshot.id", template.to_owned()),
            ("cube.master.appsnapshot.template.id", template.to_owned()),
            ("cube.numa_node", "0".to_owned()),
            ("cube.master.components.envd.version", ENVD.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    all
}

/// Cube's maps come in any order; here it is any, but one per sandbox, so that two reads can be compared.
fn shuffled(map: BTreeMap<String, String>, chance: &Chance) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = map.into_iter().collect();
    for upper in (1..pairs.len()).rev() {
        let other = chance.below(upper as u64 + 1);
        pairs.swap(upper, usize::try_from(other).expect("below a length"));
    }
    pairs
}

/// A random UUID, version 4.
pub(super) fn uuid(chance: &Chance) -> String {
    let hex = chance.hex(16);
    let variant = ["8", "9", "a", "b"][usize::try_from(chance.below(4)).expect("below four")];
    format!("{}-{}-4{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}
