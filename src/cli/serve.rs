//! `cubewarden serve`: one process from its configuration to its end.
//!
//! pingora-core's listening services run here on one runtime of ours, not under its `Server`: that gives every service a
//! runtime of its own (pooled connections would hop between them) and ends with a sleep of fixed length, where we know
//! when the last call is over. The sockets are bound before and handed over, as from an older process.
//!
//! Must stay true: nothing is accepted before the ledger is open; told to stop, it accepts nothing any more, finishes what is
//! under way (for as long as `proxy.drain`), writes its notes and closes the ledger. It does the same when a successor has
//! taken the sockets over (`handover`), but sends its clients there instead of away.

use std::net::{SocketAddr, TcpListener as Bound};
use std::os::fd::IntoRawFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pingora_core::server::{Fds, ListenFds};
use pingora_core::services::Service as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::handover::Word;
use super::reload::Reloading;
use super::succession::{Handing, inherit, is_shared, ledger_of};
use super::warden::Warden;
use super::{check, load};
use crate::calls::settings::Mode;
use crate::config::Settings;
use crate::store::settings::Settings as StoreSettings;
use crate::telemetry::logs;
use crate::time::{Chance, Clock, Stopwatch, WallClock, millis, within};
use crate::{admin, proxy};

/// Serves until told to stop.
pub(super) fn run(file: Option<PathBuf>, upgrade: bool) -> anyhow::Result<ExitCode> {
    let since = Stopwatch::start();
    let settings = load(file.as_deref())?;
    logs::start(&settings.log).context("start logging")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("warden")
        .build()
        .context("start the runtime")?;
    runtime.block_on(live(file, settings, upgrade, since))?;
    // Whatever is still there has had its time.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// From the open ledger to the last note.
async fn live(
    file: Option<PathBuf>,
    settings: Settings,
    upgrade: bool,
    since: Stopwatch,
) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    // Before anything can be told: a signal that comes while we start is not lost.
    let mut signals = Signals::listen()?;
    let (predecessor, handed) = inherit(&settings, upgrade).await?;
    let store = ledger_of(&settings.store, predecessor.as_ref(), &clock).await?;
    let warden = Warden::build(&settings, store, Arc::clone(&clock), Arc::new(Chance::from_os())).await?;
    let sockets = Sockets::bind(&settings, handed).await?;
    let mut post = Handing::open(&settings, [&sockets.proxy.0, &sockets.admin.0])?;
    greet(&settings, &warden, &sockets, since);
    let serving = Serving::start(&warden, sockets, Arc::clone(&clock));
    if let Some(predecessor) = predecessor.filter(|_| is_shared(&settings.store)) {
        predecessor.tell(Word::Serves).await;
    }
    let mut reloading = Reloading::new(file, settings.clone());
    let successor = loop {
        tokio::select! {
            told = signals.next() => match told {
                Told::Reload => reloading.reload(&warden),
                Told::Stop => break None,
            },
            leaving = post.taken_over() => break Some(leaving),
        }
    };
    // Before all else: whoever sends clients here had better know first.
    warden.admin.drain();
    post.close().await;
    let drain = settings.proxy.drain;
    match &successor {
        None => tracing::info!(drain_s = drain.as_secs(), "told to stop: finishing what is under way"),
        Some(_) => {
            tracing::info!(drain_s = drain.as_secs(), "a successor takes over: finishing what is under way");
        }
    }
    let word = successor.as_ref().map(|leaving| leaving.word);
    tokio::select! {
        over = within(clock.as_ref(), drain, serving.finish(&warden, word, drain, clock.as_ref())) => match over {
            Ok(()) => tracing::info!("everything under way is finished"),
            Err(_elapsed) => tracing::warn!("time is up: calls that are still under way are cut off"),
        },
        () = signals.stop_again() => tracing::warn!("told to stop again: not waiting any longer"),
    }
    if let Err(error) = warden.ledger.write_notes().await {
        tracing::warn!(error = &error as &dyn std::error::Error, "the last notes could not be written");
    }
    // The end of this process is what a successor waits for, so its line stays open until then.
    std::mem::forget(successor);
    Ok(())
}

/// What the process was told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Reload,
    Stop,
}

/// The signals that mean something here.
struct Signals {
    hang_up: Signal,
    stops: [Signal; 3],
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        let stops = [
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
            // A habit of those who know other servers; it must not dump core.
            listen(SignalKind::quit())?,
        ];
        Ok(Self { hang_up: listen(SignalKind::hangup())?, stops })
    }

    async fn next(&mut self) -> Told {
        let [terminate, interrupt, quit] = &mut self.stops;
        tokio::select! {
            _ = self.hang_up.recv() => Told::Reload,
            _ = terminate.recv() => Told::Stop,
            _ = interrupt.recv() => Told::Stop,
            _ = quit.recv() => Told::Stop,
        }
    }

    /// Ready when told to stop; a reload means nothing any more.
    async fn stop_again(&mut self) {
        while self.next().await != Told::Stop {}
    }
}

/// Bound, and nobody is accepted yet.
struct Sockets {
    proxy: (TcpListener, SocketAddr),
    admin: (TcpListener, SocketAddr),
}

impl Sockets {
    async fn bind(settings: &Settings, handed: Option<[Bound; 2]>) -> anyhow::Result<Self> {
        let [proxy, admin] = handed.map_or([None, None], |handed| handed.map(Some));
        Ok(Self {
            proxy: inherited_or_bound("listen.proxy", settings.proxy.listen, proxy).await?,
            admin: inherited_or_bound("listen.admin", settings.admin.listen, admin).await?,
        })
    }
}

/// What was handed over, if it still is where we are to listen.
async fn inherited_or_bound(
    key: &str,
    wanted: SocketAddr,
    handed: Option<Bound>,
) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let Some(handed) = handed else { return bind(key, wanted).await };
    let address = handed.local_addr().with_context(|| format!("look at the socket of {key}"))?;
    let any_port = wanted.port() == 0 && wanted.ip() == address.ip();
    if !any_port && wanted != address {
        return bind(key, wanted).await;
    }
    Ok((TcpListener::from_std(handed).with_context(|| format!("use the socket of {key}"))?, address))
}

async fn bind(key: &str, address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        std::io::Result::Ok((listener, address))
    };
    bound.await.with_context(|| format!("listen on {address} ({key})"))
}

/// What runs beside the main thread.
struct Serving {
    accept: watch::Sender<bool>,
    proxy: JoinHandle<()>,
    admin: JoinHandle<()>,
    work: watch::Sender<bool>,
    tasks: JoinHandle<()>,
}

impl Serving {
    fn start(warden: &Warden, sockets: Sockets, clock: Arc<dyn Clock>) -> Self {
        let ((accept, accepting), (work, working)) = (watch::channel(false), watch::channel(false));
        let (listener, address) = sockets.proxy;
        let mut service = proxy::service("proxy", Arc::clone(&warden.proxy), &address.to_string());
        let proxy = tokio::spawn(async move {
            let fds = handed_over(listener, address);
            service.start_service(Some(fds), accepting, 1).await;
        });
        // The operator's view goes on until the very end: a drain that hangs is when it is wanted most.
        let admin = tokio::spawn(admin::listen(sockets.admin.0, Arc::clone(&warden.admin), clock));
        let tasks = tokio::spawn(Arc::clone(&warden.tasks).run(working));
        Self { accept, proxy, admin, work, tasks }
    }

    /// Stops accepting, and is ready when the last connection, call, kill and task is over, in this order. After the word of
    /// a successor clients are given time to come to it.
    async fn finish(self, warden: &Warden, word: Option<Word>, drain: Duration, clock: &dyn Clock) {
        let linger = word.and_then(|word| word.linger(drain));
        if let Some(linger) = linger {
            warden.proxy.linger(linger);
            // The operator asks the one socket, and means the process that goes on.
            self.admin.abort();
        }
        self.accept.send_replace(true);
        ended(self.proxy).await;
        if let Some(linger) = linger {
            // Who waits for a slot may get it meanwhile.
            let _over = within(clock, linger, self.accept.closed()).await;
        }
        // After the connections have been told, so that what waiters are answered closes theirs.
        warden.drain();
        // Each connection holds a receiver until its last answer is out.
        self.accept.closed().await;
        warden.finish().await;
        self.work.send_replace(true);
        ended(self.tasks).await;
    }
}

async fn ended(part: JoinHandle<()>) {
    if let Err(error) = part.await {
        tracing::error!(error = &error as &dyn std::error::Error, "a part of the warden broke off");
    }
}

/// A bound socket, as pingora takes it over from an older process.
fn handed_over(listener: TcpListener, address: SocketAddr) -> ListenFds {
    let mut fds = Fds::new();
    match listener.into_std() {
        Ok(listener) => fds.add(address.to_string(), listener.into_raw_fd()),
        Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "take the socket over"),
    }
    Arc::new(fds.into())
}

/// The one line that says what runs here.
fn greet(settings: &Settings, warden: &Warden, sockets: &Sockets, since: Stopwatch) {
    let mode = match settings.calls.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Transparent => "transparent",
    };
    let store = match &settings.store {
        StoreSettings::Embedded { path } => path.display().to_string(),
        StoreSettings::Memory => "memory (forgets everything at its end)".to_owned(),
        StoreSettings::Redis(redis) => format!("redis, ledger {}", redis.ledger),
    };
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        proxy = %sockets.proxy.1,
        admin = %sockets.admin.1,
        cube = %settings.cube.base,
        mode,
        ledger = %warden.ledger.id(),
        store,
        took_ms = millis(since.elapsed()),
        "cubewarden serves"
    );
    for warning in check::exposed(settings) {
        tracing::warn!("{warning}");
    }
}
