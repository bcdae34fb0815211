//! A headless Chromium, driven over the pipe of its `DevTools` protocol: messages are JSON, each ended by a zero byte.
//!
//! Must stay true: a missing Chromium fails the test; a browser ends with the value that started it, and its profile with it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cubewarden::time::{Clock as _, WallClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// What Chromium is called, by system.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The pipe is expected as descriptors 3 (commands) and 4 (answers).
const START: &str = "exec 3<&0 4>&1 </dev/null >/dev/null 2>\"$PROFILE/log\"; exec \"$@\"";

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// One browser with one page.
pub(super) struct Browser {
    child: Child,
    commands: Mutex<(u64, ChildStdin)>,
    waiting: Waiting,
    events: Arc<Mutex<Vec<Value>>>,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; its page is empty, as wide as a desk's.
    pub(super) async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let program = NAMES.iter().find(|name| on_the_path(name));
        let program = program.expect("a Chromium is needed: ./dev setup installs it");
        let mut child = Command::new("sh")
            .args(["-c", START, "sh", program])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-dev-shm-usage", "--disable-background-networking"])
            .args(["--hide-scrollbars", "--lang=en", "--no-proxy-server", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("PROFILE", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (waiting, events) = (Waiting::default(), Arc::new(Mutex::new(Vec::new())));
        listen(BufReader::new(child.stdout.take().unwrap()), Arc::clone(&waiting), Arc::clone(&events));
        let commands = Mutex::new((0, child.stdin.take().unwrap()));
        let mut browser =
            Self { child, commands, waiting, events, session: String::new(), _profile: profile };
        let target = browser.send("Target.createTarget", &json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.send("Target.attachToTarget", &attach).await;
        session["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.send(&format!("{domain}.enable"), &json!({})).await;
        }
        browser.wide(1200, 900).await;
        browser
    }

    /// Sends one command and waits for its result.
    pub(super) async fn send(&self, method: &str, params: &Value) -> Value {
        let (told, answer) = oneshot::channel();
        {
            let mut commands = self.commands.lock().unwrap();
            commands.0 += 1;
            let mut message = json!({ "id": commands.0, "method": method, "params": params });
            if !self.session.is_empty() {
                message["sessionId"] = self.session.as_str().into();
            }
            self.waiting.lock().unwrap().insert(commands.0, told);
            commands.1.write_all(format!("{message}\0").as_bytes()).unwrap();
        }
        let answer = answer.await.unwrap_or_else(|_| panic!("the browser is gone: {method}"));
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].clone()
    }

    /// Opens an address.
    pub(super) async fn open(&self, url: &str) {
        let opened = self.send("Page.navigate", &json!({ "url": url })).await;
        assert_eq!(opened.get("errorText"), None, "{url}");
    }

    /// The value of an expression in the page; promises are awaited, what is thrown fails the test.
    pub(super) async fn value(&self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.send("Runtime.evaluate", &params).await;
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true, and what it names is there; a minute of real time is the bound.
    pub(super) async fn until(&self, expression: &str) {
        let asked = format!("(() => {{ try {{ return !!({expression}); }} catch {{ return false; }} }})()");
        for _ in 0..1200 {
            if self.value(&asked).await == true {
                return;
            }
            WallClock.sleep(Duration::from_millis(50)).await;
        }
        let page = self.value("document.body.innerText").await;
        panic!(
            "waited a minute in vain for {expression}; the page says: {page}; the browser: {:?}",
            self.complaints()
        );
    }

    /// Types into a field as a person does.
    pub(super) async fn type_into(&self, id: &str, text: &str) {
        self.value(&format!("document.getElementById('{id}').select()")).await;
        self.send("Input.insertText", &json!({ "text": text })).await;
    }

    /// Makes the window so wide and high.
    pub(super) async fn wide(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.send("Emulation.setDeviceMetricsOverride", &metrics).await;
    }

    /// Says that the person likes it `light` or `dark`.
    pub(super) async fn scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.send("Emulation.setEmulatedMedia", &json!({ "features": features })).await;
    }

    /// Writes what is seen to `target/console/<name>.png`.
    pub(super) async fn picture(&self, name: &str) {
        let taken = self.send("Page.captureScreenshot", &json!({ "format": "png" })).await;
        let bytes = base64(taken["data"].as_str().unwrap());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/console");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }

    /// What the browser found wrong: violations of the policy, errors, exceptions. Answers that are no success are the
    /// page's to tell.
    pub(super) fn complaints(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let wrong = events.iter().filter(|event| match event["method"].as_str() {
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                entry["level"] == "error" && entry["source"] != "network"
            }
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            _ => false,
        });
        wrong.map(|event| event["params"].to_string()).collect()
    }

    /// Every address that was asked for.
    pub(super) fn asked(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let sent = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The profile's folder must be free before it is removed.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn on_the_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Hands answers to those who wait, and keeps events.
fn listen(mut pipe: BufReader<std::process::ChildStdout>, waiting: Waiting, events: Arc<Mutex<Vec<Value>>>) {
    std::thread::spawn(move || {
        let mut message = Vec::new();
        while pipe.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let value: Value = serde_json::from_slice(&message).unwrap_or_default();
            message.clear();
            match value["id"].as_u64() {
                Some(id) => {
                    let told = waiting.lock().unwrap().remove(&id);
                    // Who asked may have given up.
                    let _heard = told.map(|told| told.send(value));
                }
                None => events.lock().unwrap().push(value),
            }
        }
        // Nobody is answered any more.
        waiting.lock().unwrap().clear();
    });
}

fn base64(text: &str) -> Vec<u8> {
    let six = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(six).collect();
    let whole = |four: &[u8]| {
        let bits = four.iter().fold(0_u32, |bits, six| bits << 6 | u32::from(*six)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(whole).collect()
}
