//! A Cube on your machine: `cargo run --example cube-sim -- --listen 127.0.0.1:3001 --admin 127.0.0.1:3002 --profile v070`.
//!
//! Prints its addresses, one line each, and runs until killed. What the side door takes stands at the head of `admin.rs`.

#[path = "mod.rs"]
mod cube;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::Parser;
use cube::{CubeSim, Latency, Lock, Profile, WritePath};
use cubewarden::time::{Clock, ManualClock, WallClock};

/// A simulated Cube API.
#[derive(Parser)]
#[command(name = "cube-sim")]
struct Arguments {
    /// Where the Cube API listens.
    #[arg(long, default_value = "127.0.0.1:3001")]
    listen: SocketAddr,
    /// Where the side door listens.
    #[arg(long, default_value = "127.0.0.1:3002")]
    admin: SocketAddr,
    /// v051, v060 or v070.
    #[arg(long, default_value = "v070")]
    profile: Profile,
    /// Demand this key, as `CUBE_API_KEY` does.
    #[arg(long)]
    api_key: Option<String>,
    /// Demand this credential, as an authentication callback does.
    #[arg(long, conflicts_with = "api_key")]
    callback_key: Option<String>,
    /// Calls a second and key, where a key is demanded.
    #[arg(long)]
    rate_limit: Option<u64>,
    /// Same seed, same requests, same bytes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many hosts.
    #[arg(long, default_value_t = 3)]
    hosts: usize,
    /// How many sandboxes are there already.
    #[arg(long, default_value_t = 0)]
    preload: usize,
    /// Answer at once instead of as fast as a node.
    #[arg(long)]
    no_latency: bool,
    /// How many requests are remembered; 0 for load runs: nothing is counted either.
    #[arg(long, default_value_t = 20_000)]
    memory: usize,
    /// Writes are the slower the more sandboxes there are and writes under way, as on 18 June 2026; try it with `--preload 704`.
    #[arg(long)]
    strained: bool,
    /// A clock that moves only by the side door.
    #[arg(long)]
    manual_clock: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let preload = arguments.preload;
    let sim = start(arguments).await?;
    sim.seed_sandboxes(preload, &BTreeMap::new());
    println!("cube {} {}", sim.profile(), sim.url());
    if let Some(admin) = sim.admin_addr() {
        println!("admin http://{admin}");
    }
    tokio::signal::ctrl_c().await?;
    Ok(())
}

async fn start(arguments: Arguments) -> std::io::Result<CubeSim> {
    let latency = if arguments.no_latency { Latency::None } else { Latency::Node };
    let mut builder = CubeSim::builder()
        .listen(arguments.listen)
        .admin(arguments.admin)
        .profile(arguments.profile)
        .seed(arguments.seed)
        .hosts(arguments.hosts)
        .memory(arguments.memory)
        .latency(latency);
    if let Some(key) = &arguments.api_key {
        builder = builder.api_key(key);
    }
    if let Some(key) = arguments.callback_key {
        builder = builder.lock(Lock::Callback(key));
    }
    if let Some(rate) = arguments.rate_limit {
        builder = builder.rate_limit(rate);
    }
    if arguments.strained {
        builder = builder.write_path(WritePath::JUNE_18);
    }
    if arguments.manual_clock {
        builder = builder.clock(ManualClock::at(WallClock.now()));
    }
    builder.start().await
}
