//! What came out, as text. PURE but for printing.
//!
//! Must stay true: a ratio is taken within each round and then its median over the rounds, with the least and the most
//! beside it; percentiles are of all rounds together.

use std::time::Duration;

use super::load::Latencies;
use super::process::Cores;
use super::{Contender, Plan};

/// What one round reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) per_second: f64,
    /// Seconds of the proxy's processor time for each request.
    pub(super) cpu: f64,
}

/// A median with the least and the most.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |at: usize| values.get(at).copied().unwrap_or(f64::NAN);
        Self { least: at(0), median: at(values.len() / 2), most: at(values.len().saturating_sub(1)) }
    }
}

/// Where and how.
pub(super) fn head(cores: Cores, plan: &Plan, sync: Duration) {
    let cores = match cores {
        Cores::Apart => "proxies on core 0, load and stub on core 1",
        Cores::Shared => "proxies, load and stub share what cores there are (no taskset, or one core)",
    };
    if plan.warm == 0 {
        println!("a brief try without --bench: it shows that this works, the numbers mean nothing");
    }
    println!("{} rounds, interleaved; {cores}; loopback", plan.rounds);
    println!("the disk under the embedded ledger: one sync takes {:.2} ms", ms(sync));
    println!("logs are written as by default (a line for each request) and thrown away");
}

/// Throughput, the same for reads and cycles.
pub(super) fn closed(contenders: &[Contender], connections: &[u32]) {
    for (cycles, title) in [(false, "reads"), (true, "create + delete")] {
        for (at, connections) in connections.iter().enumerate() {
            println!("\n{title}, {connections} at once, as fast as it goes");
            println!(
                "{:<22}{:>10}{:>22}{:>18}{:>20}",
                "", "a second", "of direct", "of nginx", "CPU us a request"
            );
            let group = || contenders.iter().filter(|contender| contender.is_cycle() == cycles);
            let named = |name: &str| group().find(|contender| contender.name == name);
            for contender in group() {
                let rate = Spread::of(contender.closed.iter().map(|round| round[at].per_second));
                let cpu = Spread::of(contender.closed.iter().map(|round| round[at].cpu * 1e6));
                let cpu =
                    if contender.process.is_some() { format!("{:.1}", cpu.median) } else { String::new() };
                println!(
                    "{:<22}{:>10.0}{:>22}{:>18}{cpu:>20}",
                    contender.name,
                    rate.median,
                    ratio(contender, named("direct"), at),
                    ratio(contender, named("nginx"), at),
                );
            }
        }
    }
}

/// Round by round against the same round of the other.
fn ratio(one: &Contender, other: Option<&Contender>, at: usize) -> String {
    let Some(other) = other else { return "-".to_owned() };
    let rounds = one.closed.iter().zip(&other.closed);
    let ratio = Spread::of(rounds.map(|(one, other)| one[at].per_second / other[at].per_second));
    format!("{:.3} ({:.3}-{:.3})", ratio.median, ratio.least, ratio.most)
}

/// Latency at a fixed rate, from when each request was due.
pub(super) fn open(contenders: &[Contender], reads: u32, cycles: u32) {
    let of = |is_cycle: bool| contenders.iter().filter(move |contender| contender.is_cycle() == is_cycle);
    latencies(&format!("reads, {reads} a second"), of(false), |round| &round.first);
    latencies(&format!("creates, {cycles} a second"), of(true), |round| &round.first);
    latencies(&format!("deletes, {cycles} a second"), of(true), |round| &round.delete);
}

/// What the way to the ledger adds, in units of that way.
pub(super) fn round_trips(near: &Latencies, distant: &Latencies, one: Duration) {
    let median = |of: &[Duration]| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        ms(percentile(&sorted, 500))
    };
    let added = |near: &[Duration], distant: &[Duration]| (median(distant) - median(near)) / ms(one);
    println!(
        "\nwhat a ledger adds that is {:.2} ms away, in round trips (medians, nothing else going on)",
        ms(one)
    );
    println!("{:<22}{:>20.2}", "create", added(&near.first, &distant.first));
    println!("{:<22}{:>20.2}", "delete", added(&near.delete, &distant.delete));
}

fn latencies<'a>(
    title: &str,
    contenders: impl Iterator<Item = &'a Contender>,
    of: impl Fn(&Latencies) -> &[Duration],
) {
    println!("\n{title}, ms from when it was due (added to direct)");
    println!("{:<22}{:>20}{:>20}{:>20}", "", "p50", "p99", "p99.9");
    let mut direct = None;
    for contender in contenders {
        let mut all: Vec<Duration> = contender.open.iter().flat_map(&of).copied().collect();
        all.sort_unstable();
        let points = [500, 990, 999].map(|per_mille| ms(percentile(&all, per_mille)));
        // The first of each group is direct access.
        let direct = *direct.get_or_insert(points);
        let cells = [0, 1, 2].map(|at| format!("{:.3} ({:+.3})", points[at], points[at] - direct[at]));
        println!("{:<22}{:>20}{:>20}{:>20}", contender.name, cells[0], cells[1], cells[2]);
    }
}

fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let at = (sorted.len() * per_mille / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// Resident memory of each process.
pub(super) fn memory<'a>(processes: impl Iterator<Item = (&'a str, f64, f64)>) {
    println!("\n{:<22}{:>14}{:>14}", "memory, MiB", "idle", "at most");
    for (name, idle, most) in processes {
        println!("{name:<22}{idle:>14.1}{most:>14.1}");
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
