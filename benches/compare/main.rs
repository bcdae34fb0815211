//! How much the warden costs: direct, passed through and governed, side by side, in interleaved rounds. Three minutes.
//!
//! Must stay true: what is compared is measured in the same rounds, one after the other, against one stub; numbers of
//! different runs are not comparable, ratios within one are. Without `--bench` (so under `cargo test`) it does everything
//! once and briefly, and proves only that it works.

mod distant;
mod load;
mod process;
mod report;
mod stub;
mod wire;

use std::io::{Error, Result, Seek, Write};
use std::path::Path;
use std::time::Duration;

use cubewarden::time::Stopwatch;

use load::{Latencies, Work};
use process::{Cores, Process};

/// Connections of the closed loops.
const CONNECTIONS: [u32; 3] = [1, 16, 64];
/// Requests a second of the open loop.
const READS: u32 = 1000;
/// Cycles a second of the open loop.
const CYCLES: u32 = 200;

/// Who has its ledger beside it, and who has it in a distant Redis.
const NEAR: &str = "governed, memory";
const DISTANT: &str = "governed, far Redis";
/// Cycles a second where nothing waits for anything but the ledger.
const ALONE: u32 = 20;

/// How long it measures.
struct Plan {
    /// Rounds that do not count: connections, caches and the allocator warm up.
    warm: usize,
    rounds: usize,
    closed: Duration,
    open: Duration,
}

impl Plan {
    /// `--bench` comes from cargo; `--rounds N` from whoever is impatient, or patient.
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut plan = Self {
            warm: 1,
            rounds: 5,
            closed: Duration::from_millis(500),
            open: Duration::from_millis(1200),
        };
        let mut whole = false;
        while let Some(argument) = arguments.next() {
            whole |= argument == "--bench";
            if argument == "--rounds" {
                let rounds =
                    arguments.next().and_then(|rounds| rounds.parse().ok()).filter(|rounds| *rounds > 0);
                plan.rounds = rounds.ok_or_else(|| Error::other("--rounds wants a number of at least 1"))?;
            }
        }
        if !whole {
            let brief = Duration::from_millis(20);
            plan = Self { warm: 0, rounds: 1, closed: brief, open: brief };
        }
        Ok(plan)
    }
}

/// Something to be measured.
struct Contender {
    name: &'static str,
    address: String,
    work: Work,
    /// Which process it burdens; none for direct access.
    process: Option<usize>,
    closed: Vec<Vec<report::Reached>>,
    open: Vec<Latencies>,
}

fn main() -> Result<()> {
    let plan = Plan::from_arguments(std::env::args().skip(1))?;
    let cores = Cores::part();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(compare(&plan, cores, directory.path()))
}

async fn compare(plan: &Plan, cores: Cores, directory: &Path) -> Result<()> {
    report::head(cores, plan, sync_time(directory)?);
    let stub = stub::start()?;
    let (processes, round_trip) = start(cores, directory, &stub).await?;
    let idle: Vec<_> = processes.iter().map(|(_, process)| process.memory().0).collect();
    let mut contenders = contenders(&stub, &processes).await?;
    for round in 0..plan.warm + plan.rounds {
        for contender in &mut contenders {
            let process = contender.process.map(|at| &processes[at].1);
            contender.measure(plan, process, round >= plan.warm).await?;
        }
    }
    report::closed(&contenders, &CONNECTIONS);
    report::open(&contenders, READS, CYCLES);
    if let Some(round_trip) = round_trip {
        let [near, distant] = alone(plan, &contenders).await?;
        report::round_trips(&near, &distant, round_trip);
    }
    report::memory(
        processes.iter().zip(idle).map(|((name, process), idle)| (*name, idle, process.memory().1)),
    );
    Ok(())
}

/// The wardens, one of them with its ledger in a distant Redis, and nginx: a reference that many know. Redis and nginx only
/// if they are there. And how long a round trip to that ledger takes.
async fn start(
    cores: Cores,
    directory: &Path,
    stub: &str,
) -> Result<(Vec<(&'static str, Process)>, Option<Duration>)> {
    let mut processes = Vec::new();
    let memory = "[store]\nkind = \"memory\"";
    let disk = "[store]\npath = \"{ledger}\"";
    let quiet = "[store]\nkind = \"memory\"\n[log]\nlevel = \"warn\"";
    let wardens = [
        ("transparent", format!("mode = \"transparent\"\n{memory}")),
        ("memory", memory.to_owned()),
        ("quiet", quiet.to_owned()),
        ("embedded", disk.to_owned()),
    ];
    for (name, config) in wardens {
        processes.push((name, Process::warden(cores, &directory.join(name), stub, &config).await?));
    }
    match Process::nginx(cores, &directory.join("nginx"), stub).await {
        Ok(nginx) => processes.extend(nginx.map(|nginx| ("nginx", nginx))),
        Err(error) => println!("nginx is here but cannot be compared with: {error}"),
    }
    let Some(redis) = Process::redis(cores, &directory.join("redis-server")).await? else {
        return Ok((processes, None));
    };
    let ledger = distant::start(&redis.address)?;
    let round_trip = distant::round_trip(&ledger).await?;
    let config = format!("[store]\nkind = \"redis\"\nurl = \"redis://{ledger}\"");
    processes.push(("redis", Process::warden(cores, &directory.join("redis"), stub, &config).await?));
    // Ended after the warden: processes end in their order.
    processes.push(("redis-server", redis));
    Ok((processes, Some(round_trip)))
}

async fn contenders(stub: &str, processes: &[(&'static str, Process)]) -> Result<Vec<Contender>> {
    let read = |path: String| Work::Read(path);
    let template = || read(format!("/templates/{}", stub::TEMPLATE));
    let at = |name: &str| processes.iter().position(|(known, _)| *known == name);
    let mut contenders = Vec::new();
    let mut add = |name, process: Option<usize>, work| {
        let address = process.map_or_else(|| stub.to_owned(), |at| processes[at].1.address.clone());
        contenders.push(Contender { name, address, work, process, closed: Vec::new(), open: Vec::new() });
    };
    add("direct", None, template());
    if let Some(nginx) = at("nginx") {
        add("nginx", Some(nginx), template());
    }
    add("transparent", at("transparent"), read(format!("/sandboxes/{}", stub::SANDBOX)));
    add("passed through", at("memory"), template());
    add("passed, log at warn", at("quiet"), template());
    if let Some(embedded) = at("embedded") {
        let id = load::create(&processes[embedded].1.address).await?;
        add("governed read", Some(embedded), read(format!("/sandboxes/{id}")));
    }
    add("direct", None, Work::Cycle);
    if let Some(nginx) = at("nginx") {
        add("nginx", Some(nginx), Work::Cycle);
    }
    add(NEAR, at("memory"), Work::Cycle);
    add("governed, embedded", at("embedded"), Work::Cycle);
    if let Some(redis) = at("redis") {
        add(DISTANT, Some(redis), Work::Cycle);
    }
    Ok(contenders)
}

/// Cycles one after the other, with the ledger near and far in turns.
async fn alone(plan: &Plan, contenders: &[Contender]) -> Result<[Latencies; 2]> {
    let mut all = [Latencies::default(), Latencies::default()];
    for _ in 0..plan.rounds {
        for (name, all) in [NEAR, DISTANT].into_iter().zip(&mut all) {
            let Some(contender) = contenders.iter().find(|contender| contender.name == name) else {
                continue;
            };
            let round = load::open(&contender.address, &contender.work, ALONE, plan.open).await?;
            all.first.extend(round.first);
            all.delete.extend(round.delete);
        }
    }
    Ok(all)
}

impl Contender {
    fn is_cycle(&self) -> bool {
        matches!(self.work, Work::Cycle)
    }

    async fn measure(&mut self, plan: &Plan, process: Option<&Process>, counts: bool) -> Result<()> {
        let cpu = || process.map_or(Duration::ZERO, Process::cpu);
        let mut reached = Vec::new();
        for connections in CONNECTIONS {
            let before = cpu();
            let through = load::closed(&self.address, &self.work, connections, plan.closed).await?;
            let requests = f64::from(through.done) * f64::from(self.work.requests());
            reached.push(report::Reached {
                per_second: f64::from(through.done) / through.took.as_secs_f64(),
                cpu: (cpu().saturating_sub(before)).as_secs_f64() / requests.max(1.0),
            });
        }
        let rate = if self.is_cycle() { CYCLES } else { READS };
        let latencies = load::open(&self.address, &self.work, rate, plan.open).await?;
        if counts {
            self.closed.push(reached);
            self.open.push(latencies);
        }
        Ok(())
    }
}

/// The median of fifty overwrites of one page, each made durable: what the disk itself takes.
fn sync_time(directory: &Path) -> Result<Duration> {
    let mut file = std::fs::File::create(directory.join("page"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        let watch = Stopwatch::start();
        file.rewind()?;
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(watch.elapsed());
    }
    times.sort_unstable();
    Ok(times[25])
}
