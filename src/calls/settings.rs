//! What the calls need to know: who may ask, how owners are found, what is admitted, what is mended.
//!
//! Plain values; `config` reads and checks them. Keys of tenants stand here as hashes only.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::ids::{Bucket, TenantName};
use crate::rules::policy::Policies;

/// Everything that the calls go by; swapped whole on reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Govern, watch, or stand aside.
    pub mode: Mode,
    /// Who may ask.
    pub tenancy: Tenancy,
    /// Where project and run of an owner are found.
    pub identity: IdentityKeys,
    /// Whose the sandboxes are that were there before us.
    pub adopt: Adopt,
    /// How long and how many wait for a slot.
    pub admission: Admission,
    /// Which mends are made.
    pub compat: Compat,
    /// When the breakers open and how they close.
    pub write_path: WritePath,
    /// The policy of each bucket.
    pub policies: Policies,
}

/// Govern, watch, or stand aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Decide and act.
    Enforce,
    /// Decide and record; inject, refuse and change nothing.
    Shadow,
    /// Pass everything; only strip suffixes and mend.
    Transparent,
}

/// Who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenancy {
    /// One tenant; nobody is refused for who they are.
    Open,
    /// Only those listed.
    Tenants(Vec<Tenant>),
}

/// One tenant.
#[derive(Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: TenantName,
    /// SHA-256 of each of its keys; at least one.
    pub keys_sha256: Vec<[u8; 32]>,
    /// Its buckets, the first being its default; at least one, none of them another tenant's.
    pub buckets: Vec<Bucket>,
    /// Whether it may write what all share.
    pub admin: bool,
    /// How many calls it may make each second; `None` counts nothing.
    pub calls_per_second: Option<NonZeroU32>,
}

impl fmt::Debug for Tenant {
    /// Without the hashes: they are of no use in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant")
            .field("name", &self.name)
            .field("keys", &self.keys_sha256.len())
            .field("buckets", &self.buckets)
            .field("admin", &self.admin)
            .field("calls_per_second", &self.calls_per_second)
            .finish()
    }
}

/// Where project and run of an owner are found in the metadata of a create, and what our own keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityKeys {
    /// Metadata keys of the project; the first that is there counts.
    pub project_keys: Vec<String>,
    /// Metadata keys of the run; the first that is there counts.
    pub run_keys: Vec<String>,
    /// What the names of the injected metadata keys begin with.
    pub metadata_prefix: String,
}

/// Whose the sandboxes are that were there before us, or were made round us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopt {
    /// Nobody's.
    Nobody,
    /// This bucket's.
    Into(Bucket),
}

/// How long and how many wait for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Slots of all buckets together; `None` for no such limit.
    pub global_limit: Option<u32>,
    /// How long a create waits for a slot.
    pub wait: Duration,
    /// How many creates wait at most in each bucket.
    pub max_waiting: usize,
    /// How long a client waits for its answer before it gives up.
    pub patience: Duration,
}

/// Which mends are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one switch of the configuration, and nothing else"
)]
pub struct Compat {
    /// A v2 call goes out again as v1 where the upstream has no v2.
    pub v2_create: bool,
    /// Top-level autoPause and autoResume become `lifecycle` where the upstream ignores them.
    pub lifecycle: bool,
    /// An empty or text error body becomes JSON.
    pub error_bodies: bool,
    /// A missing endAt is filled in for clients that need one.
    pub missing_end_at: bool,
    /// The state `pausing` reads `paused` for clients that know no such state.
    pub pausing_state: bool,
    /// "No more resource", which Cube says as a 500, becomes the retryable 429.
    pub capacity_answers: bool,
}

impl Default for Compat {
    fn default() -> Self {
        Self {
            v2_create: true,
            lifecycle: true,
            error_bodies: true,
            missing_end_at: true,
            pausing_state: true,
            capacity_answers: true,
        }
    }
}

/// How much is sent to Cube at once and in a second, when the breakers open and how they close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePath {
    /// Upstream writes at once, at most.
    pub max_writes: usize,
    /// Consecutive unclear outcomes that open a breaker.
    pub failures: u32,
    /// Share of unclear outcomes over the window that opens a breaker.
    pub failure_percent: u32,
    /// The window of that share.
    pub window: Duration,
    /// Time between probes, at first.
    pub probe_interval: Duration,
    /// Time between probes, at most.
    pub probe_interval_max: Duration,
    /// Calls of all clients in a second, for where Cube counts all of them by one key; `None` counts nothing.
    pub upstream_calls_per_second: Option<NonZeroU32>,
}
