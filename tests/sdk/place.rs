//! A warden as a user starts it: the binary, a configuration file, real sockets.
//!
//! Must stay true: each warden has a directory and ports of its own, and ends with its test.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cubewarden::time::{Clock, WallClock, within};
use tempfile::TempDir;

/// Longest time until a warden is ready; a loaded machine needs some of it.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(super) struct Warden {
    child: Child,
    proxy: SocketAddr,
    home: TempDir,
}

impl Warden {
    /// Starts one before `cube_url`, with `config` as its file (listeners, upstream and store are added), and waits until
    /// it is ready.
    pub(super) async fn start(cube_url: &str, config: &str) -> Self {
        let home = tempfile::tempdir().expect("a directory for the test");
        let file = home.path().join("cubewarden.toml");
        fs::write(&file, config).expect("the directory is writable");
        let log = File::create(home.path().join("log")).expect("the directory is writable");
        let (proxy, admin) = two_free_ports();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
        command.arg("serve").arg("--config").arg(&file);
        command.env("CUBEWARDEN_LISTEN_PROXY", proxy.to_string());
        command.env("CUBEWARDEN_LISTEN_ADMIN", admin.to_string());
        command.env("CUBEWARDEN_UPSTREAM_URL", cube_url);
        command.env("CUBEWARDEN_STORE_PATH", home.path().join("ledger"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a handle")).stderr(log);
        let child = command.spawn().expect("the binary starts");
        let mut warden = Self { child, proxy, home };
        warden.until_ready(admin).await;
        warden
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.proxy)
    }

    async fn until_ready(&mut self, admin: SocketAddr) {
        let ready = async {
            while !answers_ready(admin) {
                let ended = self.child.try_wait().expect("a child can be asked");
                assert!(ended.is_none(), "the warden ended ({ended:?}):\n{}", said(&self.log()));
                WallClock.sleep(BETWEEN_LOOKS).await;
            }
        };
        let in_time = within(&WallClock, PATIENCE, ready).await.is_ok();
        assert!(in_time, "the warden did not become ready:\n{}", said(&self.log()));
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("log")
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        // It may have ended already; that is what was wanted.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the warden said:\n{}", said(&self.log()));
        }
    }
}

fn said(log: &PathBuf) -> String {
    fs::read_to_string(log).unwrap_or_else(|error| error.to_string())
}

/// Held together until both are known, so that they differ; free again when the warden asks for them.
fn two_free_ports() -> (SocketAddr, SocketAddr) {
    let hold = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let (one, other) = (hold(), hold());
    (one.local_addr().expect("it is bound"), other.local_addr().expect("it is bound"))
}

fn answers_ready(admin: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(admin) else {
        return false;
    };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok()
        && answer.lines().next().is_some_and(|status| status.contains(" 200 "))
}
