//! One process of the real program: its directory, its configuration, what it writes, how it ends.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cubewarden::time::{Clock as _, WallClock};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::http::Caller;

/// A configuration in a directory of its own; free ports, which the program tells in its log.
pub(crate) struct Site {
    directory: TempDir,
    env: Vec<(String, String)>,
}

/// A program that serves.
pub(crate) struct Serving {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
    pub(crate) proxy: String,
    pub(crate) admin: String,
}

/// Arranges the program with these arguments, without anything of this process's environment.
fn program(args: &[&str], env: &[(String, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
    command.args(args).env_clear().envs(env.iter().cloned()).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    program(args, &env).output().unwrap()
}

/// What a program that ended wrote to standard error.
pub(crate) fn complaint(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!text.contains("stack backtrace") && !text.contains("panicked"), "{text}");
    text
}

/// Whether an event's sentence begins like this.
fn begins(beginning: &str) -> impl Fn(&Value) -> bool {
    move |line| line["message"].as_str().is_some_and(|text| text.starts_with(beginning))
}

impl Site {
    /// Before the Cube at `upstream`, with more configuration.
    pub(crate) fn new(upstream: &str, config: &str) -> Self {
        let site = Self { directory: tempfile::tempdir().unwrap(), env: Vec::new() };
        site.write(upstream, config);
        site
    }

    /// Writes the configuration anew.
    pub(crate) fn write(&self, upstream: &str, config: &str) {
        let mut text = String::from("[listen]\nproxy = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n");
        write!(text, "[upstream]\nurl = \"{upstream}\"\n[log]\nformat = \"json\"\n").unwrap();
        write!(text, "[store]\npath = \"{}\"\n{config}\n", self.ledger().display()).unwrap();
        std::fs::write(self.config(), text).unwrap();
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.directory.path().join("cubewarden.toml")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.directory.path().join("ledger")
    }

    fn args<'a>(command: &'a str, config: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
        [command, "--config", config.to_str().unwrap()].into_iter().chain(more.iter().copied()).collect()
    }

    /// Runs a command on this configuration to its end.
    pub(crate) fn run(&self, command: &str, more: &[&str]) -> Output {
        let config = self.config();
        program(&Self::args(command, &config, more), &self.env).output().unwrap()
    }

    /// A path in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts serving, and waits until it says where.
    pub(crate) async fn serve(&self) -> Serving {
        self.try_serve().await.unwrap_or_else(|said| panic!("it ended: {said:?}"))
    }

    /// The same; what it said if it ended instead.
    pub(crate) async fn try_serve(&self) -> Result<Serving, Vec<Value>> {
        self.start(&[]).try_serves().await
    }

    /// Starts serving with more arguments, and does not wait; where it serves is not known yet.
    pub(crate) fn start(&self, more: &[&str]) -> Serving {
        let config = self.config();
        let mut command = program(&Self::args("serve", &config, more), &self.env);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let Ok(line) = line else { return };
                let value = serde_json::from_str(&line).unwrap_or(Value::String(line));
                kept.lock().unwrap().push(value);
            }
        });
        Serving { child, lines, proxy: String::new(), admin: String::new() }
    }

    /// Starts serving, and waits until it is ready.
    pub(crate) async fn ready(&self) -> Serving {
        self.serve().await.once_ready().await
    }
}

impl Serving {
    /// Waits until it says where it serves.
    pub(crate) async fn serves(self) -> Self {
        self.try_serves().await.unwrap_or_else(|said| panic!("it ended: {said:?}"))
    }

    /// The same; what it said if it ended instead.
    async fn try_serves(mut self) -> Result<Self, Vec<Value>> {
        let greeting = self.until_logged("cubewarden serves", begins("cubewarden serves")).await?;
        let url = |name: &str| format!("http://{}", greeting[name].as_str().unwrap());
        (self.proxy, self.admin) = (url("proxy"), url("admin"));
        Ok(self)
    }

    /// Waits until it is ready.
    pub(crate) async fn once_ready(self) -> Self {
        let operator = self.operator();
        for _ in 0..6000 {
            if operator.get("/readyz").await.status == 200 {
                return self;
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("not ready within a minute: {:?}", operator.get("/readyz").await);
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.proxy)
    }

    pub(crate) fn operator(&self) -> Caller {
        Caller::new(&self.admin)
    }

    /// How many slots are held, as the operator sees it.
    pub(crate) async fn held(&self) -> u64 {
        self.operator().get("/v1/admin/buckets").await.json()["all"]["held"].as_u64().unwrap()
    }

    /// Everything it has logged so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for an event whose sentence begins like this.
    pub(crate) async fn until_said(&mut self, beginning: &str) -> Value {
        let said = self.until_logged(beginning, begins(beginning)).await;
        said.unwrap_or_else(|log| panic!("it ended: {log:?}"))
    }

    /// Waits until the access log says that a request ended like this.
    pub(crate) async fn until_request_ended(&mut self, ending: &str) -> Value {
        let ended = self.until_logged(ending, |line| line["ending"] == ending).await;
        ended.unwrap_or_else(|log| panic!("it ended: {log:?}"))
    }

    /// Waits for a line of the log; all that it said if it ends instead.
    async fn until_logged(
        &mut self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Vec<Value>> {
        for _ in 0..6000 {
            // Asked before the log is read: what it said last must not be missed.
            let over = self.child.try_wait().unwrap().is_some();
            if let Some(line) = self.log().into_iter().find(&wanted) {
                return Ok(line);
            }
            if over {
                return Err(self.log());
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("waited a minute in vain for {what:?}: {:?}", self.log());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Whether it is still there.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end; the exit code.
    pub(crate) async fn ended(mut self) -> i32 {
        for _ in 0..6000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or_else(|| panic!("it was killed: {:?}", self.log()));
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not end within a minute: {:?}", self.log());
    }

    /// Kills it as the machine would, in the middle of whatever it does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to stop, and waits for a good end.
    pub(crate) async fn stop(self) {
        self.signal("TERM");
        assert_eq!(self.ended().await, 0);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already if all went well.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        if let Some(mut rest) = self.child.stderr.take() {
            let _read = rest.read_to_end(&mut Vec::new());
        }
    }
}
