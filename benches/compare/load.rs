//! Load: closed loops for throughput, an open loop for latency.
//!
//! Must stay true: in the open loop each request has its time, whether or not the one before has been answered, and
//! latency counts from that time (what waits for a free connection waits visibly). Any answer but the expected one ends
//! the measurement with an error: a fast refusal is no throughput.

use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

use cubewarden::time::Stopwatch;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinSet, LocalSet};

use super::stub::TEMPLATE;
use super::wire::Line;

/// Connections of the open loop: more than are ever busy unless something stalls.
const CONNECTIONS: u32 = 64;

/// What is asked, again and again.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// GET of this path.
    Read(String),
    /// Create, then delete what was created.
    Cycle,
}

impl Work {
    /// How many requests it is.
    pub(super) fn requests(&self) -> u32 {
        match self {
            Self::Read(_) => 1,
            Self::Cycle => 2,
        }
    }
}

/// What a closed loop reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throughput {
    pub(super) done: u32,
    pub(super) took: Duration,
}

/// Latencies of an open loop: of reads or creates, and of deletes.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    pub(super) first: Vec<Duration>,
    pub(super) delete: Vec<Duration>,
}

/// One connection and the bytes that it sends.
struct Client {
    line: Line,
    work: Work,
    request: Vec<u8>,
}

impl Client {
    async fn connect(address: &str, work: &Work) -> Result<Self> {
        let body = format!(r#"{{"templateID":"{TEMPLATE}","metadata":{{"project":"bench","run":"1"}}}}"#);
        let request = match work {
            Work::Read(path) => request("GET", path, None),
            Work::Cycle => request("POST", "/sandboxes", Some(&body)),
        };
        Ok(Self { line: Line::connect(address).await?, work: work.clone(), request })
    }

    /// The work once. `since` runs from when it should have begun; its readings after the first and the second answer.
    async fn once(&mut self, began: Began<'_>) -> Result<(Duration, Option<Duration>)> {
        match self.work {
            Work::Read(_) => {
                self.line.ask(&self.request, "200").await?;
                Ok((began.ago(), None))
            }
            Work::Cycle => {
                self.line.ask(&self.request, "201").await?;
                let (first, again) = (began.ago(), Stopwatch::start());
                let path = format!("/sandboxes/{}", created(self.line.body())?);
                self.line.ask(&request("DELETE", &path, None), "204").await?;
                Ok((first, Some(again.elapsed())))
            }
        }
    }
}

/// When something should have begun, on a common watch.
#[derive(Clone, Copy)]
struct Began<'a>(&'a Stopwatch, Duration);

impl Began<'_> {
    fn ago(self) -> Duration {
        self.0.elapsed().saturating_sub(self.1)
    }
}

fn request(method: &str, path: &str, body: Option<&str>) -> Vec<u8> {
    let framing = body.map_or_else(String::new, |body| {
        format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
    });
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: cube\r\nuser-agent: compare\r\nx-api-key: e2b_00\r\n");
    format!("{head}{framing}\r\n{}", body.unwrap_or_default()).into_bytes()
}

fn created(body: &[u8]) -> Result<&str> {
    const NAME: &[u8] = br#""sandboxID":""#;
    let at = body.windows(NAME.len()).position(|part| part == NAME);
    let id = at.and_then(|at| body.get(at + NAME.len()..at + NAME.len() + 32));
    let id = id.and_then(|id| std::str::from_utf8(id).ok());
    id.ok_or_else(|| Error::other("a create was answered without an id"))
}

/// Makes one sandbox there and lets it live.
pub(super) async fn create(address: &str) -> Result<String> {
    let mut client = Client::connect(address, &Work::Cycle).await?;
    client.line.ask(&client.request, "201").await?;
    created(client.line.body()).map(str::to_owned)
}

/// Asks once: does it answer 200?
pub(super) async fn answers(address: &str, path: &str) -> bool {
    let Ok(mut line) = Line::connect(address).await else { return false };
    line.ask(&request("GET", path, None), "200").await.is_ok()
}

/// As much as so many connections get done, each asking again as soon as it is answered.
pub(super) async fn closed(
    address: &str,
    work: &Work,
    connections: u32,
    length: Duration,
) -> Result<Throughput> {
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(Client::connect(address, work).await?);
    }
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    let watch = Stopwatch::start();
    for mut client in clients {
        let repeat = async move {
            let mut done = 0;
            while watch.elapsed() < length {
                client.once(Began(&watch, Duration::ZERO)).await?;
                done += 1;
            }
            Ok::<u32, Error>(done)
        };
        tasks.spawn_local_on(repeat, &local);
    }
    let mut done = 0;
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            done += ended.map_err(Error::other)??;
        }
        Ok::<(), Error>(())
    };
    local.run_until(all).await?;
    Ok(Throughput { done, took: watch.elapsed() })
}

/// So many a second for a while, whatever becomes of them.
pub(super) async fn open(address: &str, work: &Work, per_second: u32, length: Duration) -> Result<Latencies> {
    let (times, due) = mpsc::unbounded_channel();
    let due = Arc::new(Mutex::new(due));
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(address, work).await?);
    }
    let watch = Stopwatch::start();
    let pacing = std::thread::spawn(move || pace(&watch, per_second, length, &times));
    let local = LocalSet::new();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let due = Arc::clone(&due);
        let serve = async move {
            let mut latencies = Latencies::default();
            loop {
                let Some(time) = due.lock().await.recv().await else { return Ok::<_, Error>(latencies) };
                let (first, delete) = client.once(Began(&watch, time)).await?;
                latencies.first.push(first);
                latencies.delete.extend(delete);
            }
        };
        tasks.spawn_local_on(serve, &local);
    }
    let mut all = Latencies::default();
    let gather = async {
        while let Some(ended) = tasks.join_next().await {
            let one = ended.map_err(Error::other)??;
            all.first.extend(one.first);
            all.delete.extend(one.delete);
        }
        Ok::<(), Error>(())
    };
    local.run_until(gather).await?;
    pacing.join().map_err(|_panic| Error::other("the pacing thread panicked"))?;
    Ok(all)
}

/// Says when each is due, not before it is. A thread, because an asynchronous timer counts in whole milliseconds.
#[expect(clippy::disallowed_methods, reason = "it keeps the load's time; no decision rests on it")]
fn pace(watch: &Stopwatch, per_second: u32, length: Duration, times: &mpsc::UnboundedSender<Duration>) {
    let gap = Duration::from_secs(1) / per_second;
    let mut next = gap;
    while next < length {
        std::thread::sleep(next.saturating_sub(watch.elapsed()));
        if times.send(next).is_err() {
            return;
        }
        next += gap;
    }
}
