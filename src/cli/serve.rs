//! `cubewarden serve`: one process from its configuration to its end.
//!
//! pingora-core's listening services run here on one runtime of ours, not under its `Server`: that gives every service a
//! runtime of its own (pooled connections would hop between them) and ends with a sleep of fixed length, where we know
//! when the last call is over. The sockets are bound before and handed over, as from an older process.
//!
//! Must stay true: nothing listens before the ledger is open; told to stop, it accepts nothing any more, finishes what is
//! under way (for as long as `proxy.drain`), writes its notes and closes the ledger.

use std::net::SocketAddr;
use std::os::fd::IntoRawFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use pingora_core::server::{Fds, ListenFds};
use pingora_core::services::Service as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::reload::Reloading;
use super::warden::{Warden, open_store};
use super::{check, load};
use crate::calls::settings::Mode;
use crate::config::Settings;
use crate::store::settings::Settings as StoreSettings;
use crate::telemetry::logs;
use crate::time::{Chance, Clock, Stopwatch, WallClock, millis, within};
use crate::{admin, proxy};

/// Serves until told to stop.
pub(super) fn run(file: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let since = Stopwatch::start();
    let settings = load(file.as_deref())?;
    logs::start(&settings.log).context("start logging")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("warden")
        .build()
        .context("start the runtime")?;
    runtime.block_on(live(file, settings, since))?;
    // Whatever is still there has had its time.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// From the open ledger to the last note.
async fn live(file: Option<PathBuf>, settings: Settings, since: Stopwatch) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock);
    // Before anything can be told: a signal that comes while we start is not lost.
    let mut signals = Signals::listen()?;
    let store = open_store(&settings.store, &clock).await.context("open the ledger")?;
    let warden = Warden::build(&settings, store, Arc::clone(&clock), Arc::new(Chance::from_os())).await?;
    let sockets = Sockets::bind(&settings).await?;
    greet(&settings, &warden, &sockets, since);
    let serving = Serving::start(&warden, sockets, Arc::clone(&clock));
    let mut reloading = Reloading::new(file, settings.clone());
    while signals.next().await == Told::Reload {
        reloading.reload(&warden);
    }
    // Before all else: whoever sends clients here had better know first.
    warden.admin.drain();
    tracing::info!(drain_s = settings.proxy.drain.as_secs(), "told to stop: finishing what is under way");
    tokio::select! {
        over = within(clock.as_ref(), settings.proxy.drain, serving.finish(&warden)) => match over {
            Ok(()) => tracing::info!("everything under way is finished"),
            Err(_elapsed) => tracing::warn!("time is up: calls that are still under way are cut off"),
        },
        () = signals.stop_again() => tracing::warn!("told to stop again: not waiting any longer"),
    }
    if let Err(error) = warden.ledger.write_notes().await {
        tracing::warn!(error = &error as &dyn std::error::Error, "the last notes could not be written");
    }
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
            // Later: hands the sockets over to a new process. Until then it must not dump core.
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
    async fn bind(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self {
            proxy: bind("listen.proxy", settings.proxy.listen).await?,
            admin: bind("listen.admin", settings.admin.listen).await?,
        })
    }
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
        tokio::spawn(admin::listen(sockets.admin.0, Arc::clone(&warden.admin), clock));
        let tasks = tokio::spawn(Arc::clone(&warden.tasks).run(working));
        Self { accept, proxy, work, tasks }
    }

    /// Stops accepting, and is ready when the last connection, call, kill and task is over, in this order.
    async fn finish(self, warden: &Warden) {
        self.accept.send_replace(true);
        ended(self.proxy).await;
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
