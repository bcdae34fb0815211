//! A private redis-server on a unix socket in a directory of its own.
//!
//! Must stay true: a missing redis-server fails the test; a server ends with the value that started it.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cubewarden::store::redis::{Redis, Time};
use cubewarden::store::settings;
use cubewarden::time::{Clock as _, ManualClock, WallClock};
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
        Self::with_file(None, options)
    }

    /// A Sentinel, whose file it rewrites itself.
    pub(crate) fn sentinel(file: &str) -> Self {
        Self::with_file(Some(file), &["--sentinel"])
    }

    fn with_file(file: Option<&str>, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        if let Some(file) = file {
            std::fs::write(dir.path().join("conf"), file).unwrap();
            options.insert(0, "conf".to_owned());
        }
        let child = spawn(&dir, &options);
        let mut server = Self { child, dir, options };
        server.until_it_answers();
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn settings(&self) -> settings::Redis {
        settings_at(&self.url())
    }

    /// The store of one warden, by Redis's own clock.
    pub(crate) async fn store(&self) -> Arc<Redis> {
        Arc::new(Redis::open(&self.settings(), Time::OfRedis).await.unwrap())
    }

    /// The store of one warden, by the test's clock.
    pub(crate) async fn store_at(&self, clock: &ManualClock) -> Arc<Redis> {
        Arc::new(Redis::open(&self.settings(), Time::Of(Arc::new(clock.clone()))).await.unwrap())
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it in the middle of whatever it does; it stays where it is.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    /// Starts it again on what its files hold.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.dir, &self.options);
        self.until_it_answers();
    }

    /// Starts it again without what its files held.
    pub(crate) fn restart_empty(&mut self) {
        for name in ["appendonlydir", "dump.rdb"].map(|name| self.dir.path().join(name)) {
            if name.is_dir() {
                std::fs::remove_dir_all(name).unwrap();
            } else if name.exists() {
                std::fs::remove_file(name).unwrap();
            }
        }
        self.restart();
    }

    /// A client of one's own, to look behind the store's back.
    pub(crate) fn connection(&self) -> redis::Connection {
        self.try_connection().unwrap()
    }

    /// The same, of a server that may be about to close it.
    pub(crate) fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(self.url())?.get_connection()
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
            // One that wants a password answers, too.
            let up = answer.as_ref().map_or_else(|error| error.code() == Some("NOAUTH"), |_| true);
            if up {
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
    if !options.contains(&"--sentinel".to_owned()) {
        command.args(["--port", "0"]);
    }
    command.args(options).args(["--unixsocket", "s", "--dir"]).arg(dir.path());
    let started = command.current_dir(dir.path()).stdin(Stdio::null()).stdout(log).spawn();
    started.expect("the tests need redis-server on the PATH")
}

/// A port that nobody listens on now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The ledger that all tests use, elsewhere.
pub(crate) fn settings_at(url: &str) -> settings::Redis {
    settings::Redis { url: url.to_owned(), ledger: "test".to_owned(), share: false }
}

/// Waits for a future from code that is not async, inside a runtime with several threads or outside any.
pub(crate) fn waited<T>(future: impl Future<Output = T>) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => tokio::task::block_in_place(|| runtime.block_on(future)),
        Err(_) => tokio::runtime::Runtime::new().unwrap().block_on(future),
    }
}
