//! A warden in this process, on a free port, in front of any Cube; its clock and its store may be the test's.

use std::net::SocketAddr;
use std::sync::Arc;

use cubewarden::cli::warden::{Warden, open_store};
use cubewarden::config;
use cubewarden::cube::profile::Probe;
use cubewarden::ledger::Counts;
use cubewarden::proxy::serve_connection;
use cubewarden::rules::entry::Entry;
use cubewarden::store::Store;
use cubewarden::time::{Chance, Clock, ManualClock, WallClock};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::http::Caller;

/// What Cube says of what it does not have.
const NOBODY: &str = r#"{"code":404,"message":"sandbox 00000000000000000000000000000000 not found"}"#;

/// How a warden is started.
pub(crate) struct Builder {
    upstream: String,
    config: String,
    env: Vec<(String, String)>,
    clock: Arc<dyn Clock>,
    store: Option<Arc<dyn Store>>,
    tasks: bool,
    untaught: bool,
    seed: Option<u64>,
}

/// A running warden; it stops when dropped, its store stays as it is.
pub(crate) struct Running {
    pub(crate) warden: Warden,
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// A warden in front of the Cube at `upstream` with default settings, the in-memory ledger, and its background tasks.
pub(crate) fn before(upstream: &str) -> Builder {
    Builder {
        upstream: upstream.to_owned(),
        config: String::new(),
        env: Vec::new(),
        clock: Arc::new(WallClock),
        store: None,
        tasks: true,
        untaught: false,
        seed: None,
    }
}

impl Builder {
    /// Configuration, as in the file; `[listen]`, `[upstream] url` and `[store]` are taken care of.
    pub(crate) fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// One more environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A clock that the test moves.
    pub(crate) fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Arc::new(clock.clone());
        self
    }

    /// Any store.
    pub(crate) fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// No background tasks: the test calls the ticks.
    pub(crate) fn without_tasks(mut self) -> Self {
        self.tasks = false;
        self
    }

    /// What the first task finds out about Cube is not known, even though none runs.
    pub(crate) fn untaught(mut self) -> Self {
        self.untaught = true;
        self
    }

    /// The settings that a warden would be started with.
    pub(crate) fn settings(&self) -> config::Settings {
        let env = [
            ("CUBEWARDEN_UPSTREAM_URL", self.upstream.as_str()),
            ("CUBEWARDEN_STORE_KIND", "memory"),
            ("CUBEWARDEN_LISTEN_PROXY", "127.0.0.1:3000"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        config::load(&self.config, env.into_iter().chain(self.env.iter().cloned()))
            .unwrap_or_else(|problems| panic!("the test's configuration: {problems}"))
    }

    /// The same markers and the same jitter each time.
    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) async fn start(self) -> Running {
        let settings = self.settings();
        let store = match self.store {
            Some(store) => store,
            None => open_store(&settings.store, &self.clock).await.expect("an in-memory store opens"),
        };
        let chance = Arc::new(self.seed.map_or_else(Chance::from_os, Chance::seeded));
        let built = Warden::build(&settings, store, Arc::clone(&self.clock), chance).await;
        let warden = built.expect("the warden can be put together");
        if !self.tasks && !self.untaught {
            // As its tasks would find out first of all, of every Cube but the very first version.
            let nobody = http::Response::builder().status(404).body(NOBODY.into());
            warden.cube.learn(Probe::DeleteOfNobody, &nobody.expect("a status is no surprise"));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("it has an address");
        let (stop, stopped) = watch::channel(false);
        let proxy = Arc::clone(&warden.proxy);
        let drain = stopped.clone();
        let accept = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                tokio::spawn(serve_connection(io, Arc::clone(&proxy), drain.clone()));
            }
        });
        let mut tasks = vec![accept];
        if self.tasks {
            tasks.push(tokio::spawn(Arc::clone(&warden.tasks).run(stopped)));
        }
        Running { warden, addr, stop, tasks }
    }
}

impl Running {
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Someone without a credential.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url())
    }

    /// Someone with this key.
    pub(crate) fn caller_with(&self, key: &str) -> Caller {
        self.caller().with("x-api-key", key)
    }

    /// Every entry that holds a slot.
    pub(crate) async fn entries(&self) -> Vec<Entry> {
        self.warden.ledger.charged(None).await.expect("the ledger can be read").0
    }

    /// How many slots are held.
    pub(crate) async fn held(&self) -> u64 {
        let counts: Counts = self.warden.ledger.counts(&[]).await.expect("the ledger can be read");
        counts.all.held()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody may listen any more; that is as good.
        let _told = self.stop.send(true);
        for task in &self.tasks {
            task.abort();
        }
    }
}
