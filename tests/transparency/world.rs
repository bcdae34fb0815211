//! A Cube with something of everything in it, and a twin of it, byte for byte.

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};

use super::request::{Names, Raw};
use crate::cube::model::{Plant, State};
use crate::cube::{CubeSim, Profile};
use crate::proxy::compare::{Answer, ask};
use crate::support::http::Caller;
use crate::support::warden::{self, Running};

/// Two Cubes of one seed on one clock, and a warden before one of them.
pub(super) struct World {
    pub(super) twin: CubeSim,
    pub(super) cube: CubeSim,
    pub(super) warden: Running,
    pub(super) names: Names,
}

impl World {
    pub(super) async fn of(profile: Profile, config: &str) -> Self {
        let clock = ManualClock::at(UnixMillis(1_790_000_000_000));
        let (cube, twin) = (cube(profile, &clock).await, cube(profile, &clock).await);
        let names = furnish(&cube, &clock).await;
        clock.set(UnixMillis(1_790_000_000_000));
        assert_eq!(furnish(&twin, &clock).await, names, "the twins differ");
        let warden = warden::before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
        Self { twin, cube, warden, names }
    }

    /// The direct answer and the one through the warden. What changes nothing is asked of one Cube both ways; what
    /// changes something, of both Cubes once. Every request draws on a Cube's chance, so the twin is always asked as
    /// often as the other, or their next ids would differ.
    pub(super) async fn both(&self, request: &Raw) -> (Answer, Answer) {
        let direct = if request.only_reads() {
            ask(self.twin.addr(), &request.bytes).await;
            ask(self.twin.addr(), &request.bytes).await;
            ask(self.cube.addr(), &request.bytes).await
        } else {
            ask(self.twin.addr(), &request.bytes).await
        };
        let through = ask(self.warden.addr(), &request.bytes).await;
        (settled(direct), settled(through))
    }
}

/// Without what is each hop's own: the value of `Date`, the place of `Connection` (its value counts).
fn settled(mut answer: Answer) -> Answer {
    for (name, value) in &mut answer.fields {
        if name.eq_ignore_ascii_case("date") {
            "*".clone_into(value);
        }
    }
    answer.fields.sort_by_key(|(name, _)| name.eq_ignore_ascii_case("connection"));
    answer
}

async fn cube(profile: Profile, clock: &ManualClock) -> CubeSim {
    CubeSim::builder().profile(profile).seed(42).clock(clock.clone()).start().await.unwrap()
}

async fn furnish(cube: &CubeSim, clock: &ManualClock) -> Names {
    let mut names = Names::new();
    let plant = |timeout, auto_pause, metadata: &[(&str, &str)]| {
        let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let metadata: BTreeMap<String, String> = metadata.collect();
        clock.advance(Duration::from_secs(1));
        cube.plant(Plant { timeout, auto_pause, auto_resume: auto_pause, metadata, ..Plant::default() })
    };
    names.insert("run", plant(Some(3600), false, &[("team", "a b"), ("x", "ü/1")]));
    names.insert("never", plant(None, false, &[]));
    names.insert("paused", plant(Some(3600), true, &[("team", "a b")]));
    names.insert("other", plant(Some(3600), true, &[("env", "my env"), ("owner_id", "a@b.c")]));
    names.insert("last", plant(Some(3600), false, &[]));
    cube.set_state(&names["paused"], State::Paused);
    names.insert("nobody", "f".repeat(32));
    names.insert("base", "tpl-000000000000000000000001".to_owned());
    let direct = Caller::new(&cube.url());
    let snapshot = direct.post(&format!("/sandboxes/{}/snapshots", names["run"]), r#"{"name":"one"}"#).await;
    names.insert("snap", snapshot.text("snapshotID"));
    let volume = direct.post("/volumes", r#"{"name":"one"}"#).await;
    let made = volume.status.is_success();
    names.insert("volume", if made { volume.text("volumeID") } else { "vol-1".to_owned() });
    let template = direct.post("/templates", r#"{"image":"nginx"}"#).await;
    let id = template.json().get("templateID").and_then(|id| id.as_str().map(str::to_owned));
    names.insert("template", id.unwrap_or_else(|| "tpl-2".to_owned()));
    names
}
