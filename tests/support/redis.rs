//! A private redis-server on a unix socket in a directory of its own, and a relay that can be cut.
//!
//! Must stay true: a missing redis-server fails the test; a server ends with the value that started it.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cubewarden::store::settings;
use cubewarden::time::{Clock as _, WallClock};
use tempfile::TempDir;

/// A running server, empty at first.
pub(crate) struct RedisServer {
    child: Child,
    dir: TempDir,
    options: Vec<String>,
}

impl RedisServer {
    /// Keeps nothing on disk.
    pub(crate) fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// Loses nothing that it has confirmed.
    pub(crate) fn durable() -> Self {
        Self::with(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// With these options.
    pub(crate) fn with(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = spawn(&dir, &options);
        let mut server = Self { child, dir, options };
        server.until_it_answers();
        server
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn settings(&self) -> settings::Redis {
        settings::Redis { url: self.url(), ledger: "test".to_owned(), share: false }
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what its files hold.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.dir, &self.options);
        self.until_it_answers();
    }

    /// A client of one's own, to look behind the store's back.
    pub(crate) fn connection(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    fn until_it_answers(&mut self) {
        let client = redis::Client::open(self.url()).unwrap();
        for _ in 0..3000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                panic!("redis-server ended with {status}:\n{log}");
            }
            let answer =
                client.get_connection().and_then(|mut link| redis::cmd("PING").query::<String>(&mut link));
            if answer.is_ok() {
                return;
            }
            waited(WallClock.sleep(Duration::from_millis(2)));
        }
        panic!("redis-server did not answer");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may have been killed already.
        let _dead = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn spawn(dir: &TempDir, options: &[String]) -> Child {
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--unixsocket", "s", "--dir"]).arg(dir.path()).args(options);
    let started = command.current_dir(dir.path()).stdin(Stdio::null()).stdout(log).spawn();
    started.expect("the tests need redis-server on the PATH")
}

/// Waits for a future from code that is not async, inside a runtime with several threads or outside any.
pub(crate) fn waited<T>(future: impl Future<Output = T>) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => tokio::task::block_in_place(|| runtime.block_on(future)),
        Err(_) => tokio::runtime::Runtime::new().unwrap().block_on(future),
    }
}
