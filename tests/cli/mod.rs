//! The operator's command line: explanations and screens as text in, text out; and the real program before a real warden.
//!
//! `UPDATE_EXPECT=1` rewrites what is expected; look at the difference before it is kept.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod doctor;
mod expect;
mod explain;
mod generated;
mod hostile;
mod night;
mod screens;

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use cubewarden::time::WallClock;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::support::warden::Running;

/// Runs the program to its end, before the warden at `admin`, without anything of this process's environment.
async fn cubewarden(admin: &str, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
    command.args(args).env_clear().env("CUBEWARDEN_ADMIN", admin).envs(env.iter().copied());
    command.stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What a program wrote that succeeded.
fn said(output: &Output) -> String {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a program complained of that failed, and said nothing else.
fn complained(output: &Output) -> String {
    let complaint = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{complaint}");
    assert!(output.stdout.is_empty() && !complaint.contains("backtrace"), "{complaint}");
    complaint
}

/// A warden's admin interface on a free port, for as long as this lives.
struct Served {
    address: SocketAddr,
    task: AbortHandle,
}

impl Served {
    async fn of(running: &Running) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let admin = Arc::clone(&running.warden.admin);
        let task = tokio::spawn(cubewarden::admin::listen(listener, admin, Arc::new(WallClock)));
        Self { address, task: task.abort_handle() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}
