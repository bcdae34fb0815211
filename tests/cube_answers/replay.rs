//! Plays recorded exchanges against a simulator over raw sockets and says where the answers differ.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fixture::{Exchange, Recorded, RecordedBody, Section, Step};
use super::mask::masked;
use super::raw::{Answer, ask, until_waiting};
use crate::cube::model::Plant;
use crate::cube::{CubeSim, Lock, Profile};
use cubewarden::time::{Clock, ManualClock, UnixMillis};

/// The day of the record.
const THEN: UnixMillis = UnixMillis(1_795_957_013_275);

/// What was found in a file.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) exchanges: usize,
    pub(crate) differences: Vec<String>,
}

/// Plays one section.
pub(crate) async fn play(profile: Profile, section: &Section, findings: &mut Findings) {
    let mut stage = Stage::set(profile, section).await;
    for step in &section.steps {
        match step {
            Step::SetUp(line) => stage.set_up(line),
            Step::Exchange(exchange) => {
                findings.exchanges += 1;
                let told = stage.exchange(exchange).await;
                let told =
                    told.map(|told| format!("{profile}, {}, {}:\n{told}", section.title, exchange.name));
                findings.differences.extend(told);
            }
        }
    }
}

struct Stage {
    sim: CubeSim,
    clock: ManualClock,
    /// Ids of the record, and ours in their place.
    ids: BTreeMap<String, String>,
    repeat: usize,
}

impl Stage {
    async fn set(profile: Profile, section: &Section) -> Self {
        let clock = ManualClock::at(THEN);
        let mut builder = CubeSim::builder().profile(profile).clock(clock.clone()).hosts(1);
        for step in &section.steps {
            if let Step::SetUp(line) = step {
                builder = match line.split_once(' ').unwrap_or((line, "")) {
                    ("hosts", hosts) => builder.hosts(hosts.parse().expect("a number")),
                    ("callback", key) => builder.lock(Lock::Callback(key.to_owned())),
                    ("rate", rate) => builder.rate_limit(rate.parse().expect("a number")),
                    _ => builder,
                };
            }
        }
        let sim = builder.start().await.expect("the loopback has a free port");
        Self { sim, clock, ids: BTreeMap::new(), repeat: 0 }
    }

    fn set_up(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "plant" => self.plant(rest),
            "fault" => {
                let rule: crate::cube::faults::NewRule = serde_json::from_str(rest).expect("a rule");
                self.sim.fault(rule);
            }
            "clear" => self.sim.clear_faults(),
            "state" => {
                let (id, state) = rest.split_once(' ').expect("an id and a state");
                let state = serde_json::from_value(state.into()).expect("a state");
                assert!(self.sim.set_state(id, state), "{id} is not there");
            }
            "advance" => {
                let by = Duration::from_millis(rest.parse().expect("milliseconds"));
                self.sim.advance(by).expect("the clock is ours");
            }
            "repeat" => self.repeat = rest.parse().expect("a number"),
            "hosts" | "callback" | "rate" => {}
            other => panic!("unknown set-up {other:?}"),
        }
    }

    fn plant(&self, rest: &str) {
        let mut words = rest.split(' ');
        let mut plant = Plant { id: words.next().map(str::to_owned), ..Plant::default() };
        for word in words {
            let (key, value) = word.split_once('=').expect("a pair");
            if key == "timeout" {
                plant.timeout = Some(value.parse().expect("seconds"));
            } else {
                plant.metadata.insert(key.to_owned(), value.replace("%20", " "));
            }
        }
        self.sim.plant(plant);
    }

    /// The difference, if there is one.
    async fn exchange(&mut self, exchange: &Exchange) -> Option<String> {
        let request = self.in_our_ids(&exchange.request);
        for _again in 0..std::mem::take(&mut self.repeat) {
            ask(self.sim.addr(), &request).await;
        }
        let started = self.clock.now();
        let (answer, ()) =
            tokio::join!(ask(self.sim.addr(), &request), self.wait(exchange.answer.after_seconds));
        self.learn(&exchange.answer, &answer);
        let expected = self.told(exchange);
        let found = told(&answer, self.clock.now().since(started).as_secs());
        (expected != found).then(|| format!("recorded {expected}\nanswered {found}\n"))
    }

    /// Moves the clock by exactly the time that the answer took, once somebody waits for exactly that.
    async fn wait(&self, seconds: u64) {
        if seconds == 0 {
            return;
        }
        let limit = Duration::from_secs(seconds);
        until_waiting(&self.clock, limit).await;
        self.clock.advance(limit);
    }

    fn in_our_ids(&self, request: &[u8]) -> Vec<u8> {
        // Only what is text can hold an id; other requests go out as they are.
        let Ok(text) = std::str::from_utf8(request) else {
            return request.to_vec();
        };
        self.translate(text).into_bytes()
    }

    fn translate(&self, text: &str) -> String {
        self.ids.iter().fold(text.to_owned(), |text, (recorded, ours)| text.replace(recorded, ours))
    }

    /// A create or a snapshot gives an id that later requests name.
    fn learn(&mut self, recorded: &Recorded, answer: &Answer) {
        let RecordedBody::Whole(body) = &recorded.body else {
            return;
        };
        for key in ["\"sandboxID\":\"", "\"snapshotID\":\""] {
            let id = |text: &str| Some(text.split_once(key)?.1.split_once('"')?.0.to_owned());
            if let (Some(recorded), Some(ours)) = (id(body), id(&answer.body))
                && recorded.len() == ours.len()
                && self.sim.sandbox(&recorded).is_none()
            {
                self.ids.entry(recorded).or_insert(ours);
            }
        }
    }

    fn told(&self, exchange: &Exchange) -> Told {
        let answer = &exchange.answer;
        let (length, body) = match &answer.body {
            RecordedBody::None => (None, Some(String::new())),
            RecordedBody::Whole(text) => (None, Some(masked(&self.translate(text)))),
            RecordedBody::Cut(length, start) => (Some(*length), Some(masked(&self.translate(start)))),
            RecordedBody::Compressed => (None, None),
        };
        Told {
            status: answer.status.clone(),
            framing: answer.framing.clone(),
            headers: answer.headers.iter().map(|line| masked(line)).collect(),
            interim: exchange.interim,
            after_seconds: answer.after_seconds,
            length,
            body,
        }
    }
}

/// An answer in comparable form.
#[derive(Debug)]
struct Told {
    status: String,
    framing: String,
    headers: Vec<String>,
    interim: bool,
    after_seconds: u64,
    /// Only compared where the record is cut.
    length: Option<usize>,
    /// `None` where it is not compared.
    body: Option<String>,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl PartialEq for Told {
    /// `self` is the record.
    fn eq(&self, found: &Self) -> bool {
        let body = match (&self.body, &found.body, self.length) {
            (Some(start), Some(body), Some(_)) => body.starts_with(start.as_str()),
            (Some(recorded), Some(body), None) => recorded == body,
            _ => true,
        };
        let head = (&self.status, &self.framing, &self.headers, self.interim, self.after_seconds)
            == (&found.status, &found.framing, &found.headers, found.interim, found.after_seconds);
        head && body && (self.length.is_none() || self.length == found.length)
    }
}

fn told(answer: &Answer, after_seconds: u64) -> Told {
    Told {
        status: answer.status.clone(),
        framing: answer.framing.to_owned(),
        headers: answer.headers.iter().map(|line| masked(line)).collect(),
        interim: answer.interim,
        after_seconds,
        length: Some(answer.length),
        body: Some(masked(&answer.body)),
    }
}
