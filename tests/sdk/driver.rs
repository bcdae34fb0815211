//! Runs the drivers beside this file (`drive.py`, `drive.mjs`) and reads what they report.
//!
//! Must stay true: a driver that hangs or breaks fails its test with what it wrote to standard error; none outlives its
//! test. The SDKs are installed by `./dev setup`; where they are not, a test fails and says so.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Longest silence of a driver before it counts as hung; longer than any call that a test lets run into a limit.
const PATIENCE: Duration = Duration::from_secs(120);

/// One of the pinned SDKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sdk {
    /// `e2b` for Python, by version.
    Python(&'static str),
    /// `e2b` for JavaScript, by version.
    Js(&'static str),
    /// `cubesandbox` for Python, by version.
    Cube(&'static str),
}

/// A call, and what the SDK made of it.
#[derive(Debug, Deserialize)]
pub(super) struct Step {
    #[serde(rename = "step")]
    name: String,
    ok: bool,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    error: String,
    #[serde(default)]
    message: String,
    status: Option<u16>,
}

/// A driver that is running.
pub(super) struct Driver {
    child: Child,
    /// Open for as long as a worker shall go on.
    orders: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    complaints: mpsc::Receiver<String>,
}

impl Sdk {
    fn command(self) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        match self {
            Self::Python(version) => Self::python(root, &format!("e2b-{version}")),
            Self::Cube(version) => Self::python(root, &format!("cubesandbox-{version}")),
            Self::Js(version) => {
                let mut command = Command::new(installed(root.join(".dev/bin/node")));
                command.arg(root.join("tests/sdk/drive.mjs"));
                command.args([installed(root.join(".dev/js")), version.into()]);
                command
            }
        }
    }

    fn python(root: &Path, name: &str) -> Command {
        let mut command = Command::new(installed(root.join(".dev/python").join(name).join("bin/python")));
        command.arg(root.join("tests/sdk/drive.py"));
        command
    }

    /// Starts a scenario against an API.
    pub(super) fn start(self, url: &str, key: &str, scenario: &str, arguments: &[&str]) -> Driver {
        let mut command = self.command();
        command.args([url, key, scenario]).args(arguments);
        Driver::begin(command)
    }

    /// Runs a scenario to its end.
    pub(super) fn run(self, url: &str, key: &str, scenario: &str, arguments: &[&str]) -> Vec<Step> {
        self.start(url, key, scenario, arguments).finish()
    }

    /// Starts a scenario of somebody who shows this lease with each call, by the SDK's own option for headers.
    pub(super) fn start_with_lease(self, url: &str, lease: &str, scenario: &str, argument: &str) -> Driver {
        let mut command = self.command();
        command.args([url, "e2b_00", scenario, argument]).env("DRIVE_LEASE", lease);
        Driver::begin(command)
    }

    /// The same with the SDK's own retries off, where it has any: an answer that asks for patience is shown at once.
    pub(super) fn run_impatiently(
        self,
        url: &str,
        key: &str,
        scenario: &str,
        arguments: &[&str],
    ) -> Vec<Step> {
        let mut command = self.command();
        command.args([url, key, scenario]).args(arguments).env("DRIVE_RETRIES", "0");
        Driver::begin(command).finish()
    }
}

impl fmt::Display for Sdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Python(version) => write!(f, "Python e2b {version}"),
            Self::Js(version) => write!(f, "JavaScript e2b {version}"),
            Self::Cube(version) => write!(f, "cubesandbox {version}"),
        }
    }
}

fn installed(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is not there: run ./dev setup", path.display());
    path
}

/// Lines as they come, read in a thread of its own, so that waiting for one can have an end.
fn lines_of(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody listening any more means the test is over.
        BufReader::new(pipe).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    receiver
}

impl Driver {
    fn begin(mut command: Command) -> Self {
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("an installed driver starts");
        let lines = lines_of(child.stdout.take().expect("it was piped"));
        let complaints = lines_of(child.stderr.take().expect("it was piped"));
        Self { orders: child.stdin.take(), child, lines, complaints }
    }

    /// The next step; `None` when the driver is done.
    pub(super) fn next(&mut self) -> Option<Step> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("silent for {PATIENCE:?}: {}", self.what_it_said())
            }
        }
    }

    /// Gives an order, and waits for what comes of it.
    pub(super) fn order(&mut self, order: &str) -> Step {
        let orders = self.orders.as_mut().expect("it has not been told to stop");
        writeln!(orders, "{order}").expect("it listens");
        self.next().unwrap_or_else(|| panic!("no answer to {order}: {}", self.what_it_said()))
    }

    /// Tells a worker to stop, and reads to the end.
    pub(super) fn finish(mut self) -> Vec<Step> {
        self.orders = None;
        let steps: VecDeque<Step> = std::iter::from_fn(|| self.next()).collect();
        let ended = self.child.wait().expect("a child can be waited for");
        assert!(ended.success(), "the driver broke: {}", self.what_it_said());
        steps.into()
    }

    fn what_it_said(&self) -> String {
        self.complaints.try_iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended already; that is what was wanted.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Step {
    /// `step: value`, or `step: raises Class 404 "message"`; labels of Cube's and the warden's are left out.
    pub(super) fn told(&self) -> String {
        let Self { name, error, message, .. } = self;
        if self.ok {
            let mut value = without_labels(self.value.clone());
            value.sort_all_objects();
            return format!("{name}: {value}");
        }
        let status = self.status.map_or_else(String::new, |status| format!(" {status}"));
        format!("{name}: raises {error}{status} {message:?}")
    }
}

/// Metadata as the client gave it: Cube adds its own keys, and the warden its owner labels.
fn without_labels(mut value: Value) -> Value {
    const OURS: [&str; 6] = ["namespace", "env", "owner_id", "managed_by", "cw_ledger", "cw_marker"];
    match &mut value {
        Value::Array(items) => return items.drain(..).map(without_labels).collect(),
        Value::Object(fields) => {
            if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                metadata.retain(|key, _| {
                    !key.starts_with("cube.") && key != "X-Caller" && !OURS.contains(&key.as_str())
                });
            }
        }
        _ => {}
    }
    value
}
