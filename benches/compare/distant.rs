//! A ledger in a Redis that is far away: a relay before it holds each of its answers back.
//!
//! Must stay true: answers keep their order, and one that is held back delays none that comes later beyond its own time;
//! the unit of what is measured is a PING through the same relay. It runs on a thread of its own, beside the load.

use std::io::{Error, Result};
use std::sync::mpsc;
use std::time::Duration;

use cubewarden::time::{Clock, Stopwatch, WallClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};

/// How far: a millisecond and more is what separates two zones of a data centre, and timers here count in milliseconds.
const AWAY: Duration = Duration::from_millis(4);

/// An answer, and when it may pass.
type Held = (Stopwatch, Vec<u8>);

/// Starts the relay; its address. It ends with the process.
pub(super) fn start(redis: &str) -> Result<String> {
    let (told, address) = mpsc::channel();
    let redis = redis.to_owned();
    std::thread::spawn(move || -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let _asked_once = told.send(listener.local_addr()?.to_string());
            loop {
                let (near, _) = listener.accept().await?;
                let far = TcpStream::connect(&redis).await?;
                near.set_nodelay(true)?;
                far.set_nodelay(true)?;
                let ((asks, answers), (far_answers, far_asks)) = (near.into_split(), far.into_split());
                let (hold, kept) = unbounded_channel();
                spawn_local(pass(asks, far_asks));
                spawn_local(hold_back(far_answers, hold));
                spawn_local(let_go(kept, answers));
            }
        })
    });
    address.recv().map_err(Error::other)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<u64> {
    tokio::io::copy(&mut from, &mut to).await
}

async fn hold_back(mut from: OwnedReadHalf, hold: UnboundedSender<Held>) -> Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 || hold.send((Stopwatch::start(), bytes[..read].to_vec())).is_err() {
            return Ok(());
        }
    }
}

async fn let_go(mut held: UnboundedReceiver<Held>, mut to: OwnedWriteHalf) -> Result<()> {
    while let Some((since, bytes)) = held.recv().await {
        WallClock.sleep(AWAY.saturating_sub(since.elapsed())).await;
        to.write_all(&bytes).await?;
    }
    Ok(())
}

/// One round trip: the median of fifty PINGs.
pub(super) async fn round_trip(address: &str) -> Result<Duration> {
    let mut line = TcpStream::connect(address).await?;
    line.set_nodelay(true)?;
    let (mut answer, mut times) = ([0; 7], Vec::new());
    for _ in 0..50 {
        let watch = Stopwatch::start();
        line.write_all(b"PING\r\n").await?;
        line.read_exact(&mut answer).await?;
        times.push(watch.elapsed());
    }
    times.sort_unstable();
    Ok(times[25])
}
