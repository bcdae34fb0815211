//! Which Cube stands behind this warden, and how long it is waited for.

use std::fmt;
use std::time::Duration;

use http::Uri;

use crate::ids::UpstreamName;

/// Everything that the client of Cube goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name that the ledger knows this Cube by.
    pub name: UpstreamName,
    /// Scheme, host, and a path prefix where there is one.
    pub base: Uri,
    /// Cube's own key; `None` lets the client's credential through.
    pub api_key: Option<ApiKey>,
    /// Who tells whether a sandbox is in use.
    pub activity: Activity,
    /// Where each of Cube's proxies tells it.
    pub activity_urls: Vec<Uri>,
    /// What they want to be shown.
    pub activity_token: Option<ApiKey>,
    /// How long a connection may take to stand.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept for reads; shorter than Cube keeps it.
    pub idle: Duration,
    /// How long an idle connection is kept for writes, which are never sent twice.
    pub write_idle: Duration,
    /// How long each kind of call is waited for.
    pub budgets: Budgets,
}

/// Cube's own key.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(pub String);

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Who tells whether a sandbox is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Nobody: a running sandbox is never known to be idle.
    None,
    /// The node-local admin endpoint of Cube's proxy.
    CubeProxy,
}

/// How long each kind of call is waited for, without the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Anything that is not named below.
    pub call: Duration,
    /// Pause, resume, connect.
    pub wake: Duration,
    /// Snapshots, rollback, template delete.
    pub snapshot: Duration,
}
