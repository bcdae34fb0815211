//! What is measured, as processes: cubewarden as it is shipped, and nginx where it is there.
//!
//! Must stay true: each is ended by its own process id, whatever becomes of the measurement; all of them run on the core
//! of the proxies, this process on the other. Deliberately absent: their logs, which go nowhere (they are written all the same).

use std::io::{Error, Result};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cubewarden::time::{Clock, WallClock};

use super::distant;
use super::load::answers;

/// Ticks of the kernel's clock in a second, as /proc counts them on every Linux of today.
const TICKS: f64 = 100.0;

/// Who runs where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// Proxies on core 0, load and stub on core 1.
    Apart,
    /// Wherever the kernel likes.
    Shared,
}

impl Cores {
    /// Moves this process to its core, before it has any other thread.
    pub(super) fn part() -> Self {
        let own = std::process::id().to_string();
        let movable = |core: &str| {
            let moved = Command::new("taskset").args(["-a", "-p", "-c", core, &own]).output();
            moved.is_ok_and(|moved| moved.status.success())
        };
        // First to the other: is there one for the proxies at all?
        if movable("0") && movable("1") { Self::Apart } else { Self::Shared }
    }

    fn command(self, program: &str) -> Command {
        match self {
            Self::Apart => {
                let mut command = Command::new("taskset");
                command.args(["-c", "0", program]);
                command
            }
            Self::Shared => Command::new(program),
        }
    }
}

/// A running proxy. Dropping it ends it.
pub(super) struct Process {
    child: Child,
    pub(super) address: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The id of one that has ended already may be somebody else's by now.
        if let Ok(None) = self.child.try_wait() {
            // nginx's worker ends with its master only if the master is told, not killed.
            let pid = self.child.id().to_string();
            let _told = Command::new("kill").args(["-s", "TERM", &pid]).status();
            let _ended = self.child.wait();
        }
    }
}

impl Process {
    /// The shipped program, with this much configuration beside addresses and ledger.
    pub(super) async fn warden(cores: Cores, directory: &Path, upstream: &str, config: &str) -> Result<Self> {
        std::fs::create_dir(directory)?;
        let [address, admin] = [free_address()?, free_address()?];
        let (file, ledger) = (directory.join("cubewarden.toml"), directory.join("ledger"));
        let text = format!(
            "{config}\n[listen]\nproxy = \"{address}\"\nadmin = \"{admin}\"\n\
             [upstream]\nurl = \"http://{upstream}\"\n\
             [collector]\ncycle = \"1h\"\nnewborn_grace = \"1h\"\n"
        );
        let text = text.replace("{ledger}", &ledger.display().to_string());
        std::fs::write(&file, text)?;
        let mut command = cores.command(env!("CARGO_BIN_EXE_cubewarden"));
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        command.args(["serve", "--config"]).arg(&file);
        let started = Self { child: quiet(command)?, address };
        started.until_ready(&admin, "/readyz").await
    }

    /// nginx with kept connections to the upstream, one worker; `None` if there is no nginx here.
    pub(super) async fn nginx(cores: Cores, directory: &Path, upstream: &str) -> Result<Option<Self>> {
        if !Command::new("nginx").arg("-v").output().is_ok_and(|said| said.status.success()) {
            return Ok(None);
        }
        std::fs::create_dir(directory)?;
        let (address, file) = (free_address()?, directory.join("nginx.conf"));
        let home = directory.display();
        let text = format!(
            "worker_processes 1;\npid {home}/pid;\nerror_log {home}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n access_log /dev/null;\n keepalive_requests 1000000000;\n\
             client_body_temp_path {home}/body;\n proxy_temp_path {home}/proxy;\n fastcgi_temp_path {home}/fastcgi;\n\
             uwsgi_temp_path {home}/uwsgi;\n scgi_temp_path {home}/scgi;\n\
             upstream cube {{ server {upstream}; keepalive 128; keepalive_requests 1000000000; }}\n\
             server {{\n listen {address};\n location / {{ proxy_pass http://cube; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_set_header Host $http_host; }}\n }}\n}}\n"
        );
        std::fs::write(&file, text)?;
        let mut command = cores.command("nginx");
        command.args(["-g", "daemon off;", "-c"]).arg(&file);
        let started = Self { child: quiet(command)?, address: address.clone() };
        started.until_ready(&address, "/health").await.map(Some)
    }

    /// A Redis that keeps nothing on disk; `None` if there is no redis-server here.
    pub(super) async fn redis(cores: Cores, directory: &Path) -> Result<Option<Self>> {
        if !Command::new("redis-server").arg("-v").output().is_ok_and(|said| said.status.success()) {
            return Ok(None);
        }
        std::fs::create_dir(directory)?;
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut command = cores.command("redis-server");
        command.args(["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
        command.arg(directory);
        let started = Self { child: quiet(command)?, address };
        for _ in 0..1000 {
            if distant::round_trip(&started.address).await.is_ok() {
                return Ok(Some(started));
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        Err(Error::other("redis-server was not ready within ten seconds"))
    }

    async fn until_ready(mut self, address: &str, path: &str) -> Result<Self> {
        for _ in 0..1000 {
            if answers(address, path).await {
                return Ok(self);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(Error::other(format!("a proxy ended before it was ready: {status}")));
            }
            WallClock.sleep(Duration::from_millis(10)).await;
        }
        Err(Error::other("a proxy was not ready within ten seconds"))
    }

    /// Processor time it has used so far, with its children's (nginx works in one).
    pub(super) fn cpu(&self) -> Duration {
        let family = self.family();
        Duration::from_secs_f64(family.iter().map(|pid| ticks(*pid)).sum::<f64>() / TICKS)
    }

    /// Resident memory in MiB: now, and the most it ever was.
    pub(super) fn memory(&self) -> (f64, f64) {
        let family = self.family();
        let sum = |name| family.iter().map(|pid| status_kib(*pid, name)).sum::<f64>() / 1024.0;
        (sum("VmRSS:"), sum("VmHWM:"))
    }

    fn family(&self) -> Vec<u32> {
        let own = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"));
        let children = children.unwrap_or_default();
        std::iter::once(own).chain(children.split_whitespace().filter_map(|pid| pid.parse().ok())).collect()
    }
}

/// Its output goes nowhere: where logs end up is the operator's choice, and not what is measured.
fn quiet(mut command: Command) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn free_address() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// User and system time; the name before them may hold blanks, so it is cut off.
fn ticks(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum()
}

fn status_kib(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}
