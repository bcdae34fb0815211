//! Verbs on one sandbox: find, delete, pause, wake, time out, and what the sweeper and traffic do without being asked.

use std::time::Duration;

use cubewarden::time::{Chance, UnixMillis};

use super::create::timeout_text;
use super::sandbox::{ENVD, Handle, Stamp};
use super::{Bend, Cube, Later, OnTimeout, Sandbox, State};
use crate::cube::answer::Answer;
use crate::cube::ask::Kind;

const IN_TRANSITION: &str = "sandbox lifecycle operation is in progress; retry DELETE after 2 seconds";

/// What became of a request on the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Traffic {
    Served,
    Woken,
    Refused,
    Unknown,
}

/// Why an id found nothing.
pub(super) enum Lost {
    Unknown,
    /// The answer says all.
    Told(Answer),
}

impl Cube {
    /// The full id for an id as asked.
    pub(super) fn find(&self, id: &str, kind: Kind) -> Result<String, Lost> {
        let found = if self.profile.takes_id_prefixes() {
            self.find_by_prefix(&id.to_lowercase(), kind)?
        } else {
            self.sandboxes.contains_key(id).then(|| id.to_owned())
        };
        let found = found.ok_or(Lost::Unknown)?;
        if self.world.unreachable.contains(&self.sandboxes[&found].host) {
            return Err(Lost::Told(Answer::backend(self.profile, kind, 130_408, "CubeletUnHealthy")));
        }
        Ok(found)
    }

    fn find_by_prefix(&self, id: &str, kind: Kind) -> Result<Option<String>, Lost> {
        let hits: Vec<&String> = self.sandboxes.keys().filter(|key| key.starts_with(id)).collect();
        match hits.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some((*one).clone())),
            many if many.iter().any(|hit| *hit == id) => Ok(Some(id.to_owned())),
            many => {
                let text = format!("ambiguous sandbox id prefix: \"{id}\" matches {} sandboxes", many.len());
                Err(Lost::Told(Answer::backend(self.profile, kind, 130_400, &text)))
            }
        }
    }

    fn found(&mut self, id: &str, kind: Kind) -> Result<&mut Sandbox, Lost> {
        let full = self.find(id, kind)?;
        Ok(self.sandboxes.get_mut(&full).expect("it was just found"))
    }

    pub(super) fn delete(&mut self, id: &str, bend: &Bend, now: UnixMillis) -> Answer {
        let profile = self.profile;
        let full = match self.find(id, Kind::Delete) {
            Ok(full) => full,
            Err(lost) => return lost.answer(id),
        };
        match self.sandboxes[&full].state {
            State::Paused if !profile.deletes_paused() => {
                return Answer::backend(profile, Kind::Delete, 130_593, "sandbox not in normal state");
            }
            State::Pausing => {
                return Answer::backend(profile, Kind::Delete, 130_490, IN_TRANSITION);
            }
            _ => {}
        }
        let gone = self.remove(&full).expect("it was just found");
        if let Some(after) = bend.resurrect_after {
            self.schedule(now.plus(after), Later::Return(Box::new(gone)));
        }
        Answer::done()
    }

    pub(super) fn put_back(&mut self, mut sandbox: Sandbox) {
        sandbox.token = self.census.begin(&sandbox.labels);
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    pub(super) fn pause(&mut self, id: &str, now: UnixMillis, chance: &Chance) -> Answer {
        let profile = self.profile;
        let sandbox = match self.found(id, Kind::Pause) {
            Ok(sandbox) => sandbox,
            Err(lost) => return lost.at_pause_or_resume(self, id, Kind::Pause),
        };
        match (sandbox.state, &sandbox.pause_snapshot) {
            (State::Paused, Some(snapshot)) if profile.loses_view_on_pause() => {
                let text = format!(
                    "begin pause snapshot: sandbox {} already has pause snapshot {snapshot}",
                    sandbox.id
                );
                return Answer::backend(profile, Kind::Pause, 130_400, &text);
            }
            (State::Paused, _) => {
                return Answer::backend(profile, Kind::Pause, 130_490, "sandbox is already paused");
            }
            (State::Pausing, _) => {
                return Answer::error(409, "sandbox lifecycle operation in progress; retry later");
            }
            _ => {}
        }
        let full = sandbox.id.clone();
        let takes = self.begin_pause(&full, now, chance);
        let after = if profile.pauses_synchronously() { takes } else { Duration::ZERO };
        Answer { after, ..Answer::done() }
    }

    fn begin_pause(&mut self, id: &str, now: UnixMillis, chance: &Chance) -> Duration {
        let takes = self.world.pause_takes;
        if takes.is_zero() {
            self.finish_pause(id, now, chance);
        } else {
            self.set_state(id, State::Pausing);
            self.schedule(now.plus(takes), Later::PauseDone(id.to_owned()));
        }
        takes
    }

    pub(super) fn finish_pause(&mut self, id: &str, at: UnixMillis, chance: &Chance) {
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.state = State::Paused;
            sandbox.paused_at = Some(Stamp::new(at, chance));
            sandbox.pause_snapshot = Some(format!("snap-{}", chance.hex(12)));
        }
    }

    pub(super) fn resume(&mut self, id: &str, timeout: Option<i32>, now: UnixMillis) -> Answer {
        let profile = self.profile;
        let sandbox = match self.found(id, Kind::Resume) {
            Ok(sandbox) => sandbox,
            Err(lost) => return lost.at_pause_or_resume(self, id, Kind::Resume),
        };
        match sandbox.state {
            State::Paused => {}
            State::Pausing => {
                return Answer::error(409, "sandbox lifecycle operation in progress; retry later");
            }
            _ if profile.loses_view_on_pause() => {
                let text = format!("no pause snapshot for sandbox {}", sandbox.id);
                return Answer::backend(profile, Kind::Resume, 130_400, &text);
            }
            _ => return Answer::backend(profile, Kind::Resume, 130_490, "sandbox already running"),
        }
        sandbox.wake(now);
        if let Some(timeout) = timeout.filter(|timeout| *timeout != 0) {
            sandbox.rebase(timeout, now);
        }
        self.handle(201, id, Kind::Resume)
    }

    pub(super) fn connect(&mut self, id: &str, timeout: Option<i32>, now: UnixMillis) -> Answer {
        let extends = self.profile.connect_extends();
        if let Some(timeout) = timeout.filter(|timeout| extends && *timeout < -1) {
            return Answer::error(400, &timeout_text(timeout));
        }
        let sandbox = match self.found(id, Kind::Connect) {
            Ok(sandbox) => sandbox,
            Err(lost) => return lost.answer(id),
        };
        let woken = sandbox.state == State::Paused;
        if woken {
            sandbox.wake(now);
        }
        let asked = timeout.filter(|timeout| *timeout != 0);
        if let Some(timeout) = asked.filter(|timeout| woken || (extends && lengthens(sandbox, *timeout, now)))
        {
            sandbox.rebase(timeout, now);
        }
        self.handle(200, id, Kind::Connect)
    }

    /// The answer names the id as it was asked for, which may be a prefix.
    fn handle(&self, status: u16, id: &str, kind: Kind) -> Answer {
        let full = match self.find(id, kind) {
            Ok(full) => full,
            Err(lost) => return lost.answer(id),
        };
        let sandbox = &self.sandboxes[&full];
        let handle = Handle {
            template_id: &sandbox.template,
            sandbox_id: id,
            client_id: &sandbox.host,
            envd_version: ENVD,
            traffic_access_token: None,
            domain: &self.domain,
        };
        Answer::json(status, &handle)
    }

    pub(super) fn set_timeout(&mut self, id: &str, timeout: i32, now: UnixMillis) -> Answer {
        if timeout < -1 {
            return Answer::error(400, &timeout_text(timeout));
        }
        match self.found(id, Kind::Timeout) {
            Ok(sandbox) => {
                sandbox.rebase(timeout, now);
                sandbox.log.push((now, format!("timeout {timeout}")));
                Answer::done()
            }
            Err(lost) => lost.at_timeout(self, id, Kind::Timeout),
        }
    }

    pub(super) fn refresh(&mut self, id: &str, duration: Option<i32>, now: UnixMillis) -> Answer {
        let Some(duration) = duration.filter(|duration| *duration > 0) else {
            return Answer::backend(
                self.profile,
                Kind::Refreshes,
                130_400,
                "duration must be positive (seconds)",
            );
        };
        match self.found(id, Kind::Refreshes) {
            Ok(sandbox) => {
                sandbox.rebase(duration, now);
                sandbox.log.push((now, format!("refresh {duration}")));
                Answer::done()
            }
            Err(lost) => lost.at_timeout(self, id, Kind::Refreshes),
        }
    }

    pub(super) fn update_network(&mut self, id: &str) -> Answer {
        match self.found(id, Kind::Network) {
            Ok(sandbox) if sandbox.state == State::Running => Answer::done(),
            Ok(sandbox) => Answer::error(409, &format!("sandbox {} is not running", sandbox.id)),
            Err(lost) => lost.answer(id),
        }
    }

    /// Somebody spoke to the sandbox itself: the only thing that moves the idle window unasked.
    pub(crate) fn traffic(&mut self, id: &str, now: UnixMillis) -> Traffic {
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return Traffic::Unknown;
        };
        sandbox.spoken_to = Some(now);
        match sandbox.state {
            State::Paused if sandbox.auto_resume => {
                sandbox.wake(now);
                Traffic::Woken
            }
            State::Paused | State::Pausing | State::Stopped => Traffic::Refused,
            State::Running | State::Unknown => {
                sandbox.active = now;
                Traffic::Served
            }
        }
    }

    pub(super) fn sweep(&mut self, id: &str, now: UnixMillis, chance: &Chance) {
        let pauses = self.sandboxes[id].on_timeout == OnTimeout::Pause;
        if pauses {
            self.begin_pause(id, now, chance);
        } else {
            self.remove(id);
        }
    }
}

impl Lost {
    /// The 404 of most routes.
    pub(super) fn answer(self, id: &str) -> Answer {
        match self {
            Self::Unknown => Answer::no_sandbox(id),
            Self::Told(answer) => answer,
        }
    }

    fn at_pause_or_resume(self, cube: &Cube, id: &str, kind: Kind) -> Answer {
        match self {
            Self::Unknown if !cube.profile.asks_before_acting() => {
                Answer::backend(cube.profile, kind, 130_400, "sandbox not found")
            }
            other => other.answer(id),
        }
    }

    fn at_timeout(self, cube: &Cube, id: &str, kind: Kind) -> Answer {
        match self {
            Self::Unknown if !cube.profile.timeouts_know_the_unknown() => {
                let named = cube.profile.unknown_text_names_id();
                let text = if named {
                    format!("sandbox id not found: \"{id}\"")
                } else {
                    "sandbox not found".to_owned()
                };
                Answer::backend(cube.profile, kind, 130_404, &text)
            }
            other => other.answer(id),
        }
    }
}

fn lengthens(sandbox: &Sandbox, timeout: i32, now: UnixMillis) -> bool {
    let wanted = u64::try_from(timeout).ok().map(|seconds| now.plus(Duration::from_secs(seconds)));
    match (wanted, sandbox.end_at()) {
        (None, held) => held.is_some(),
        (Some(wanted), Some(held)) => wanted > held,
        (Some(_), None) => false,
    }
}
