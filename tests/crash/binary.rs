//! Kill -9 of the shipped program at random moments under load, 200 times; then slots = entries = sandboxes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, WallClock};
use tokio::sync::watch;

use super::crowd::{SHORT, mishap};
use super::world::TEMPLATE;
use crate::cube::{CubeSim, Profile};
use crate::support::http::Caller;

const ROUNDS: u64 = 200;
const CLIENTS: u64 = 8;
/// So many sandboxes are kept for good: nobody may end them.
const KEPT: usize = 3;
/// Paste a seed here; `None` takes a new one.
const SEED: Option<u64> = None;

/// A running program; killed when dropped.
struct Program {
    child: Child,
    proxy: String,
    admin: String,
}

impl Program {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
        command.arg("serve").arg("--config").arg(config);
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut before = Vec::new();
        let line = loop {
            match said.next() {
                Some(line) if line.contains("cubewarden serves") => break line,
                Some(line) => before.push(line),
                None => panic!("it does not serve: {before:?}"),
            }
        };
        // Nobody may write into a pipe that nobody reads.
        std::thread::spawn(move || said.for_each(drop));
        let address = |name: &str| {
            let digits = |c: char| !(c.is_ascii_digit() || c == '.' || c == ':');
            let rest = line.split(name).nth(1).unwrap_or_else(|| panic!("no {name} in {line}"));
            let rest = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
            format!("http://{}", rest.split(digits).next().unwrap())
        };
        Self { proxy: address("proxy"), admin: address("admin"), child }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that is dead already is as good.
        let _dead = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Creates, and deletes again all but the few that are kept; a lost connection is everyday life.
async fn load(address: watch::Receiver<String>, kept: Arc<Mutex<BTreeSet<String>>>) {
    let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":36000}}"#);
    let mut own: Option<String> = None;
    loop {
        let caller = Caller::new(&address.borrow());
        let done = match &own {
            None => match caller.try_call("POST", "/sandboxes", Some(&body)).await {
                Ok(answer) if answer.status == 201 => {
                    let id = answer.text("sandboxID");
                    let mut kept = kept.lock().unwrap();
                    if kept.len() < KEPT {
                        kept.insert(id);
                    } else {
                        own = Some(id);
                    }
                    true
                }
                _ => false,
            },
            Some(id) => match caller.try_call("DELETE", &format!("/sandboxes/{id}"), None).await {
                Ok(answer) if [204, 404].contains(&answer.status.as_u16()) => {
                    own = None;
                    true
                }
                _ => false,
            },
        };
        if !done {
            WallClock.sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Entries by state over all buckets, as the program tells its operator.
async fn entries(admin: &Caller) -> Vec<(String, u64)> {
    let buckets = admin.get("/v1/admin/buckets").await.json();
    let list = buckets.get("buckets").unwrap_or(&buckets).as_array().cloned().unwrap_or_default();
    let of_bucket = |bucket: &serde_json::Value| bucket["entries"].as_object().cloned().unwrap_or_default();
    let all = list.iter().flat_map(of_bucket);
    all.filter_map(|(state, count)| Some((state, count.as_u64()?))).filter(|(_, count)| *count > 0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_killed_two_hundred_times_under_load_loses_nothing_and_leaks_nothing() {
    let seed = SEED.unwrap_or_else(|| Chance::from_os().below(u64::MAX));
    println!("seed {seed}");
    let chance = Chance::seeded(seed);
    let cube = CubeSim::builder().profile(Profile::V070).seed(seed).start().await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("cubewarden.toml");
    let short = SHORT.replace("[upstream]\n", &format!("[upstream]\nurl = \"{}\"\n", cube.url()));
    let ledger = directory.path().join("ledger");
    let listen = "[listen]\nproxy = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"";
    let text = format!("{short}\n{listen}\n[store]\npath = \"{}\"\n", ledger.display());
    std::fs::write(&config, text).unwrap();
    let (tell, address) = watch::channel(String::from("http://127.0.0.1:1"));
    let kept = Arc::new(Mutex::new(BTreeSet::new()));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(load(address.clone(), Arc::clone(&kept)))).collect();
    for _ in 0..ROUNDS {
        let program = Program::start(&config);
        tell.send_replace(program.proxy.clone());
        if chance.below(3) == 0 {
            cube.fault(mishap(&chance));
        }
        // Most die young; some live long enough to bring in order what the others left.
        let life = if chance.below(8) == 0 { 1000 } else { chance.below(150) };
        WallClock.sleep(Duration::from_millis(life)).await;
        program.kill();
    }
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    cube.clear_faults();
    let program = Program::start(&config);
    let admin = Caller::new(&program.admin);
    let mut last = Vec::new();
    for _ in 0..600 {
        last = entries(&admin).await;
        let live: u64 = last.iter().map(|(_, count)| count).sum();
        if last.iter().all(|(state, _)| state == "live") && live == cube.alive().len() as u64 {
            break;
        }
        WallClock.sleep(Duration::from_millis(100)).await;
    }
    let spared = kept.lock().unwrap().clone();
    assert_eq!(spared.len(), KEPT, "seed {seed}: creates succeed between the deaths");
    let alive: BTreeSet<String> = cube.alive().into_iter().map(|one| one.id).collect();
    assert_eq!(
        last,
        [("live".to_owned(), alive.len() as u64)],
        "seed {seed}: entries and sandboxes {alive:?}"
    );
    assert!(spared.is_subset(&alive), "seed {seed}: {spared:?} were nobody's to end; alive: {alive:?}");
    assert!(cube.high_water(&[]) <= 10, "seed {seed}: more than the limit");
    let shown = Caller::new(&program.proxy).get("/sandboxes").await.json();
    assert_eq!(shown.as_array().map(Vec::len), Some(alive.len()), "seed {seed}: each has its owner");
    program.kill();
}
