//! Whatever is sent: a clear 4xx or Cube's own answer, never a panic, never a slot, never a 5xx of the warden's own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod chance;
mod nasty;

use serde_json::Value;

use crate::cube::{CubeSim, Profile};
use crate::proxy::compare::{Answer, Framing, ask};
use crate::support::warden::{self, Running};

const BASE: &str = "tpl-000000000000000000000001";
const KEY: &str = "e2b_5111";

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Open,
    Tenants,
}

impl Mode {
    const BOTH: [Self; 2] = [Self::Open, Self::Tenants];

    fn config(self) -> String {
        use sha2::Digest as _;
        let hash = hex::encode(sha2::Sha256::digest(KEY.as_bytes()));
        match self {
            Self::Open => String::new(),
            Self::Tenants => {
                format!(
                    "[[tenant]]\nname = \"sin\"\nkeys_sha256 = [\"{hash}\"]\nbuckets = [\"sin/prod\", \"sin/dev\"]"
                )
            }
        }
    }
}

/// A warden, the Cube behind it, and one sandbox of the caller's.
struct Bench {
    mode: Mode,
    cube: CubeSim,
    warden: Running,
    sandbox: String,
}

/// One request: `METHOD target`, header lines, a body.
#[derive(Clone, Debug)]
struct Sent {
    line: String,
    headers: Vec<Vec<u8>>,
    body: Option<Vec<u8>>,
}

impl Sent {
    fn new(line: impl Into<String>) -> Self {
        Self { line: line.into(), headers: Vec::new(), body: None }
    }

    fn create(body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST /sandboxes").body(body)
    }

    /// A create that is fine in itself.
    fn fine() -> Self {
        Self::create(format!(r#"{{"templateID":"{BASE}","timeout":300}}"#))
    }

    fn header(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.headers.push(line.into());
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    fn bytes(&self, mode: Mode) -> Vec<u8> {
        let mut bytes = format!("{} HTTP/1.1\r\nHost: cube.test\r\n", self.line).into_bytes();
        if mode == Mode::Tenants {
            bytes.extend(format!("X-API-Key: {KEY}\r\n").bytes());
        }
        for header in &self.headers {
            bytes.extend(header);
            bytes.extend(b"\r\n");
        }
        if let Some(body) = &self.body {
            let length = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            bytes.extend(length.bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(self.body.iter().flatten());
        bytes
    }

    fn shown(&self) -> String {
        let body = self.body.as_deref().unwrap_or_default();
        let headers: Vec<_> = self.headers.iter().map(|line| String::from_utf8_lossy(line)).collect();
        let text = format!("{} {headers:?} {:?}", self.line, String::from_utf8_lossy(body));
        text.chars().take(400).collect()
    }
}

/// What came back.
#[derive(Debug)]
struct Heard {
    status: u16,
    answer: Answer,
    /// How many requests reached Cube.
    reached: u64,
}

impl Heard {
    fn json(&self) -> Value {
        serde_json::from_str(&self.answer.body).unwrap_or_default()
    }

    /// JSON with `code` equal to the status and a message.
    fn well_said(&self) -> bool {
        let json = self.json();
        let message = json["message"].as_str().is_some_and(|message| !message.is_empty());
        (json["code"] == self.status && message) || self.answer.framing == Framing::Bodiless
    }

    /// The warden's own refusals have a reason in words of their closed list.
    fn is_own(&self) -> bool {
        self.json()["error_code"].is_string()
    }
}

impl Bench {
    async fn of(mode: Mode, profile: Profile) -> Self {
        let cube = CubeSim::builder().profile(profile).start().await.unwrap();
        let warden = warden::before(&cube.url()).config(&mode.config()).without_tasks().start().await;
        let sandbox = warden.caller_with(KEY).create(&format!(r#"{{"templateID":"{BASE}"}}"#)).await;
        Self { mode, cube, warden, sandbox }
    }

    async fn send(&self, sent: &Sent) -> Heard {
        let before = self.cube.counters().0;
        let answer = ask(self.warden.addr(), sent.bytes(self.mode)).await;
        let status = answer.status_line.split(' ').nth(1).unwrap().parse().unwrap();
        Heard { status, answer, reached: self.cube.counters().0 - before }
    }

    /// Sends it and holds the answer to the promise at the head of this file. A create that succeeded after all is ended
    /// again, so that the slots can be counted.
    async fn survives(&self, sent: &Sent) -> Heard {
        let heard = self.send(sent).await;
        let shown = format!("{:?}: {}: {:?}", self.mode, sent.shown(), heard.answer);
        match heard.status {
            200..=399 => assert!(heard.reached > 0, "a success without Cube: {shown}"),
            400..=499 => assert!(heard.well_said(), "not clear: {shown}"),
            _ => assert!(heard.reached > 0 && !heard.is_own(), "a 5xx of the warden's own: {shown}"),
        }
        if heard.status == 201 && sent.line.ends_with("/sandboxes") {
            let id = heard.json()["sandboxID"].as_str().unwrap().to_owned();
            let ended = self.warden.caller_with(KEY).delete(&format!("/sandboxes/{id}")).await;
            // One that was given no time at all may be gone already.
            assert!(matches!(ended.status.as_u16(), 204 | 404), "{shown}");
        }
        assert_eq!(self.warden.held().await, 1, "a slot was taken or lost: {shown}");
        heard
    }

    /// That nothing went wrong behind the scenes.
    fn is_sound(&self) {
        let metrics = self.warden.warden.metrics.render(None);
        assert!(metrics.lines().any(|line| line == "cubewarden_panics_total 0"), "{metrics}");
        assert_eq!(self.cube.alive().len(), 1);
    }
}

#[tokio::test]
async fn a_body_larger_than_the_operator_allows_is_refused_before_anything_else() {
    let cube = CubeSim::builder().start().await.unwrap();
    let config = "[proxy]\nbody_limit = \"1KiB\"\n";
    let warden = warden::before(&cube.url()).config(config).start().await;
    let large = format!(r#"{{"templateID":"tpl-1","x":"{}"}}"#, "x".repeat(2000));
    let answer = warden.caller().post("/sandboxes", &large).await;
    assert_eq!((answer.status.as_u16(), answer.text("error_code")), (413, "BODY_TOO_LARGE".to_owned()));
    assert!(cube.alive().is_empty());
    assert_eq!(warden.held().await, 0);
}
