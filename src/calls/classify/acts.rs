//! What is asked of one sandbox, and of a lease.

use http::Method;

/// What is asked of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// `GET {id}`
    Get,
    /// `POST {id}/connect`
    Connect,
    /// `POST {id}/resume`
    Resume,
    /// `POST {id}/timeout`
    Timeout,
    /// `POST {id}/refreshes`
    Refresh,
    /// `POST {id}/pause`
    Pause,
    /// `DELETE {id}`
    Delete,
    /// `GET {id}/logs`
    Logs,
    /// `GET {id}/metrics`
    Metrics,
    /// `PUT {id}/network`
    Network,
    /// `POST {id}/snapshots`
    Snapshot,
    /// `POST {id}/rollback`
    Rollback,
    /// `GET {id}/...`, which no Cube has yet: its owner may read it.
    OtherRead(String),
}

impl Act {
    pub(super) fn of(method: &Method, tail: &[&str]) -> Option<Self> {
        Some(match (method.as_str(), tail) {
            ("GET" | "HEAD", []) => Self::Get,
            ("GET" | "HEAD", ["logs"]) => Self::Logs,
            ("GET" | "HEAD", ["metrics"]) => Self::Metrics,
            ("GET" | "HEAD", other) => Self::OtherRead(other.join("/")),
            ("POST", ["connect"]) => Self::Connect,
            ("POST", ["resume"]) => Self::Resume,
            ("POST", ["timeout"]) => Self::Timeout,
            ("POST", ["refreshes"]) => Self::Refresh,
            ("POST", ["pause"]) => Self::Pause,
            ("POST", ["snapshots"]) => Self::Snapshot,
            ("POST", ["rollback"]) => Self::Rollback,
            ("PUT", ["network"]) => Self::Network,
            ("DELETE", []) => Self::Delete,
            _ => return None,
        })
    }

    /// What stands after the id, and the name.
    pub(super) fn row(&self) -> (&str, &'static str) {
        match self {
            Self::Get => ("", "sandbox_get"),
            Self::Connect => ("/connect", "sandbox_connect"),
            Self::Resume => ("/resume", "sandbox_resume"),
            Self::Timeout => ("/timeout", "sandbox_timeout"),
            Self::Refresh => ("/refreshes", "sandbox_refresh"),
            Self::Pause => ("/pause", "sandbox_pause"),
            Self::Delete => ("", "sandbox_delete"),
            Self::Logs => ("/logs", "sandbox_logs"),
            Self::Metrics => ("/metrics", "sandbox_metrics"),
            Self::Network => ("/network", "sandbox_network"),
            Self::Snapshot => ("/snapshots", "sandbox_snapshot"),
            Self::Rollback => ("/rollback", "sandbox_rollback"),
            Self::OtherRead(tail) => (tail, "sandbox_read"),
        }
    }
}

/// What a holder asks by the native API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAct {
    /// `POST /v1/leases`
    Acquire,
    /// `POST /v1/lease-heartbeats`
    Beat,
    /// `POST /v1/lease-releases`
    Release,
}

impl LeaseAct {
    pub(super) fn of(segments: &[&str]) -> Option<Self> {
        match segments {
            ["v1", "leases"] => Some(Self::Acquire),
            ["v1", "lease-heartbeats"] => Some(Self::Beat),
            ["v1", "lease-releases"] => Some(Self::Release),
            _ => None,
        }
    }
}
