//! Plays recorded exchanges against a simulator over raw sockets and says where the answers differ.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use cubewarden::time::{Clock, ManualClock, UnixMillis};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Exchange, Recorded, RecordedBody, Section, Step};
use super::mask::masked;
use crate::cube::model::Plant;
use crate::cube::{CubeSim, Lock, Profile};

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
                let told = told.map(|told| {
                    format!("{profile}, {}, {}:\n{told}", section.title, exchange.name)
                });
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
        let mut builder = CubeSim::builder()
            .profile(profile)
            .clock(clock.clone())
            .hosts(1);
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
        Self {
            sim,
            clock,
            ids: BTreeMap::new(),
            repeat: 0,
        }
    }

    fn set_up(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "plant" => self.plant(rest),
            "fault" => {
                let rule: crate::cube::faults::NewRule =
                    serde_json::from_str(rest).expect("a rule");
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
        let mut plant = Plant {
            id: words.next().map(str::to_owned),
            ..Plant::default()
        };
        for word in words {
            let (key, value) = word.split_once('=').expect("a pair");
            if key == "timeout" {
                plant.timeout = Some(value.parse().expect("seconds"));
            } else {
                plant
                    .metadata
                    .insert(key.to_owned(), value.replace("%20", " "));
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
        let (answer, ()) = tokio::join!(
            ask(self.sim.addr(), &request),
            self.wait(exchange.answer.after_seconds)
        );
        self.learn(&exchange.answer, &answer);
        let expected = self.told(exchange);
        let found = answer.told(self.clock.now().since(started).as_secs());
        (expected != found).then(|| format!("recorded {expected}\nanswered {found}\n"))
    }

    /// Moves the clock by exactly the time that the answer took, once somebody waits for exactly that.
    async fn wait(&self, seconds: u64) {
        if seconds == 0 {
            return;
        }
        let limit = Duration::from_secs(seconds);
        while self.clock.next_due() != Some(self.clock.now().plus(limit)) {
            tokio::task::yield_now().await;
        }
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
        self.ids
            .iter()
            .fold(text.to_owned(), |text, (recorded, ours)| {
                text.replace(recorded, ours)
            })
    }

    /// A create or a snapshot gives an id that later requests name.
    fn learn(&mut self, recorded: &Recorded, answer: &Answer) {
        let RecordedBody::Whole(body) = &recorded.body else {
            return;
        };
        for key in ["\"sandboxID\":\"", "\"snapshotID\":\""] {
            let id = |text: &str| Some(text.split_once(key)?.1.split_once('"')?.0.to_owned());
            if let (Some(recorded), Some(ours)) = (id(body), id(&answer.body)) {
                if recorded.len() == ours.len() && self.sim.sandbox(&recorded).is_none() {
                    self.ids.entry(recorded).or_insert(ours);
                }
            }
        }
    }

    fn told(&self, exchange: &Exchange) -> Told {
        let answer = &exchange.answer;
        let (length, body) = match &answer.body {
            RecordedBody::None => (None, Some(String::new())),
            RecordedBody::Whole(text) => (None, Some(masked(&self.translate(text)))),
            RecordedBody::Cut(length, start) => {
                (Some(*length), Some(masked(&self.translate(start))))
            }
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
        let head = (
            &self.status,
            &self.framing,
            &self.headers,
            self.interim,
            self.after_seconds,
        ) == (
            &found.status,
            &found.framing,
            &found.headers,
            found.interim,
            found.after_seconds,
        );
        head && body && (self.length.is_none() || self.length == found.length)
    }
}

/// An answer as it came.
#[derive(Debug, Default)]
struct Answer {
    status: String,
    framing: &'static str,
    headers: Vec<String>,
    interim: bool,
    body: String,
    length: usize,
}

impl Answer {
    fn told(&self, after_seconds: u64) -> Told {
        Told {
            status: self.status.clone(),
            framing: self.framing.to_owned(),
            headers: self.headers.iter().map(|line| masked(line)).collect(),
            interim: self.interim,
            after_seconds,
            length: Some(self.length),
            body: Some(masked(&self.body)),
        }
    }
}

async fn ask(addr: SocketAddr, request: &[u8]) -> Answer {
    let mut tcp = TcpStream::connect(addr)
        .await
        .expect("the simulator listens");
    // It may answer and close before it has read all of a bad request.
    let _broken = tcp.write_all(request).await;
    let head_only = request.starts_with(b"HEAD ");
    let mut bytes = Vec::new();
    while !complete(&bytes, head_only) {
        let mut more = [0; 16 * 1024];
        match tcp.read(&mut more).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&more[..count]),
            _ => break,
        }
    }
    parse(&bytes, head_only)
}

fn complete(bytes: &[u8], head_only: bool) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let text = text
        .strip_prefix("HTTP/1.1 100 Continue\r\n\r\n")
        .unwrap_or(&text);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    match framing(head, head_only) {
        "chunked" => body.ends_with("0\r\n\r\n"),
        "close" => false,
        _ => true,
    }
}

fn framing(head: &str, head_only: bool) -> &'static str {
    let has = |line: &str| head.lines().any(|held| held.starts_with(line));
    if head_only || head.contains(" 204 ") {
        "none"
    } else if has("transfer-encoding: chunked") {
        "chunked"
    } else if has("content-length: ") {
        "length"
    } else {
        "close"
    }
}

fn parse(bytes: &[u8], head_only: bool) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let rest = text.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n");
    let interim = rest.is_some();
    let Some((head, body)) = rest.unwrap_or(&text).split_once("\r\n\r\n") else {
        return Answer::default();
    };
    let framing = framing(head, head_only);
    let mut lines = head.split("\r\n").map(str::to_owned);
    let status = lines.next().unwrap_or_default();
    let status: Vec<&str> = status
        .trim_start_matches("HTTP/")
        .splitn(3, ' ')
        .take(2)
        .collect();
    let body = if framing == "chunked" {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Answer {
        status: status.join(" "),
        framing,
        headers: lines.filter(|line| !line.starts_with("date: ")).collect(),
        interim,
        length: body.len(),
        body,
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        // Compressed bytes are not text, and not compared.
        let Some(chunk) = tail.get(..size).filter(|_| size > 0) else {
            break;
        };
        body.push_str(chunk);
        rest = tail.get(size + 2..).unwrap_or_default();
    }
    body
}
