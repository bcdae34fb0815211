//! Where clients are served, and what of theirs is bounded.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that the skin goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where a new process asks for the listening sockets; `None` hands none over.
    pub upgrade_socket: Option<PathBuf>,
    /// The largest body of a governed call, in bytes.
    pub body_limit: usize,
    /// How long a client may stall within a body.
    pub body_timeout: Duration,
    /// How long an idle connection of a client is kept; longer than clients keep theirs.
    pub idle: Duration,
    /// How long the head of an answer that only passes is waited for.
    pub answer_timeout: Duration,
    /// How long calls in flight may go on once the warden is told to go.
    pub drain: Duration,
}
