//! The console in a real Chromium, before a warden whose ledger says what the page must show.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod browser;
mod hostile;
mod looks;
mod many;
mod shown;

use std::sync::Arc;

use cubewarden::admin;
use cubewarden::time::WallClock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::cube::CubeSim;
use crate::support::warden::{Builder, Running, before};

use browser::Browser;

const CONFIG: &str = "[[bucket]]\nnamespace = \"shop\"\nenv = \"prod\"\nlimit = 4\n\
    [[bucket]]\nnamespace = \"shop\"\nenv = \"dev\"\nlimit = 2\n";

/// A warden with its operator's view on a free port, and a browser.
struct Stage {
    cube: CubeSim,
    warden: Running,
    browser: Browser,
    console: String,
    listening: JoinHandle<()>,
}

impl Stage {
    async fn set(config: &str) -> Self {
        Self::with(config, |warden| warden).await
    }

    async fn with(config: &str, more: impl FnOnce(Builder) -> Builder) -> Self {
        let cube = CubeSim::builder().start().await.unwrap();
        let warden = more(before(&cube.url()).config(config)).start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let console = format!("http://{}/", listener.local_addr().unwrap());
        let listening =
            tokio::spawn(admin::listen(listener, Arc::clone(&warden.warden.admin), Arc::new(WallClock)));
        Self { cube, warden, browser: Browser::start().await, console, listening }
    }

    async fn open(&self) {
        self.browser.open(&self.console).await;
    }

    /// Creates a sandbox of an owner in `shop/<env>`, with more metadata.
    async fn create(&self, env: &str, run: &str, more: &Value) -> String {
        let mut metadata = json!({ "namespace": "shop", "env": env, "project": "site", "run": run });
        for (name, value) in more.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        let body =
            json!({ "templateID": "tpl-000000000000000000000001", "timeout": 300, "metadata": metadata });
        self.warden.caller().create(&body.to_string()).await
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// The number of rows in the list of sandboxes.
const ROWS: &str = "document.querySelectorAll('#sandboxes tbody tr').length";
