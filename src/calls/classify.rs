//! A method and a raw path become a [`Call`], once.
//!
//! Cube's router (axum) compares raw segments with its routes and percent-decodes parameters only: `/sandbox%65s`,
//! `//sandboxes` and `/sandboxes/` reach nothing there. Something between us and it, or a later Cube, may be kinder, so
//! a path is read as axum reads it and then as kind readers could (`kindest`). Must stay true: whatever speaks of
//! sandboxes, snapshots or volumes in any reading is governed, and all readings agree on it, or it is refused: reads as
//! if there were nothing, writes as ungoverned. HEAD is judged as GET, or it would tell what exists. Deliberately absent:
//! the query, and any knowledge of who asks.

mod acts;
mod kindest;

use std::fmt::Write;

use http::Method;
use percent_encoding::percent_decode_str;

pub use self::acts::{Act, LeaseAct};
use self::kindest::Reading;
use crate::cube::api::snapshot_id;
use crate::ids::SandboxRef;

/// Under which of the prefixes that reach the same thing a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// None.
    Root,
    /// `/v2`.
    V2,
    /// `/cubeapi/v1`, up to Cube 0.5.
    Old,
    /// `/cubeapi/v1/v2`.
    OldV2,
}

impl Prefix {
    /// As written before `/sandboxes`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "",
            Self::V2 => "/v2",
            Self::Old => "/cubeapi/v1",
            Self::OldV2 => "/cubeapi/v1/v2",
        }
    }

    /// The prefix of the same routes in version 1.
    #[must_use]
    pub fn as_v1(self) -> Self {
        match self {
            Self::Root | Self::V2 => Self::Root,
            Self::Old | Self::OldV2 => Self::Old,
        }
    }

    /// Is this the second version (lists have states and pages there)?
    #[must_use]
    pub fn is_v2(self) -> bool {
        matches!(self, Self::V2 | Self::OldV2)
    }
}

/// What is done to a snapshot or a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is looked at.
    Read,
    /// It is changed.
    Write,
    /// It is deleted.
    Delete,
}

impl Verb {
    fn of(method: &Method) -> Self {
        match method.as_str() {
            "GET" | "HEAD" => Self::Read,
            "DELETE" => Self::Delete,
            _ => Self::Write,
        }
    }
}

/// What a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `POST /sandboxes`
    Create(Prefix),
    /// `GET /sandboxes`
    List(Prefix),
    /// Something about one sandbox.
    Sandbox {
        /// What.
        act: Act,
        /// Where it was said.
        prefix: Prefix,
        /// Of which.
        sandbox: SandboxRef,
    },
    /// The native API of leases.
    Lease(LeaseAct),
    /// `GET /snapshots`
    ListSnapshots,
    /// One snapshot, also under `/templates`, where Cube deletes them; the id as Cube decodes it.
    Snapshot {
        /// What.
        verb: Verb,
        /// Of which; ownership goes by [`snapshot_id`] of it.
        id: String,
    },
    /// `GET /volumes`
    ListVolumes,
    /// `POST /volumes`
    CreateVolume,
    /// One volume; the id as Cube decodes it.
    Volume {
        /// What; never `Write`, which no Cube has.
        verb: Verb,
        /// Of which.
        id: String,
    },
    /// Reads of templates: shared.
    ReadTemplate,
    /// Writes of templates, their deletes aside.
    WriteTemplate,
    /// `DELETE /templates/{id}`
    DeleteTemplate,
    /// A route of a sandbox, snapshot or volume with a name that none can have, or a read that only a kind reader would
    /// understand: 404.
    NoSuchSandbox,
    /// A write about sandboxes that we do not know how to govern: refused in every mode.
    UngovernedSandboxWrite,
    /// Any other unknown write: refused where there are tenants.
    UngovernedWrite,
    /// Only reads, and nothing that belongs to anybody.
    Pass,
}

/// Every name of a call, for metrics that must exist from the start.
const NAMES: [&str; 32] = [
    "sandbox_create",
    "sandbox_list",
    "sandbox_get",
    "sandbox_connect",
    "sandbox_resume",
    "sandbox_timeout",
    "sandbox_refresh",
    "sandbox_pause",
    "sandbox_delete",
    "sandbox_logs",
    "sandbox_metrics",
    "sandbox_network",
    "sandbox_snapshot",
    "sandbox_rollback",
    "sandbox_read",
    "lease_acquire",
    "lease_beat",
    "lease_release",
    "snapshot_list",
    "snapshot_read",
    "snapshot_write",
    "snapshot_delete",
    "volume_list",
    "volume_create",
    "volume_read",
    "volume_delete",
    "template_read",
    "template_write",
    "template_delete",
    "no_such_sandbox",
    "ungoverned_write",
    "pass",
];

impl Call {
    /// The name for logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "sandbox_create",
            Self::List(_) => "sandbox_list",
            Self::Sandbox { act, .. } => act.row().1,
            Self::Lease(LeaseAct::Acquire) => "lease_acquire",
            Self::Lease(LeaseAct::Beat) => "lease_beat",
            Self::Lease(LeaseAct::Release) => "lease_release",
            Self::ListSnapshots => "snapshot_list",
            Self::Snapshot { verb: Verb::Read, .. } => "snapshot_read",
            Self::Snapshot { verb: Verb::Write, .. } => "snapshot_write",
            Self::Snapshot { verb: Verb::Delete, .. } => "snapshot_delete",
            Self::ListVolumes => "volume_list",
            Self::CreateVolume => "volume_create",
            Self::Volume { verb: Verb::Delete, .. } => "volume_delete",
            Self::Volume { .. } => "volume_read",
            Self::ReadTemplate => "template_read",
            Self::WriteTemplate => "template_write",
            Self::DeleteTemplate => "template_delete",
            Self::NoSuchSandbox => "no_such_sandbox",
            Self::UngovernedSandboxWrite | Self::UngovernedWrite => "ungoverned_write",
            Self::Pass => "pass",
        }
    }

    /// Every name that [`Call::name`] can give.
    #[must_use]
    pub fn all_names() -> &'static [&'static str] {
        &NAMES
    }

    /// The path that goes upstream, with the bare id; `None` if the raw path goes as it came.
    #[must_use]
    pub fn upstream_path(&self) -> Option<String> {
        match self {
            Self::Create(prefix) | Self::List(prefix) | Self::Sandbox { prefix, .. } => {
                self.path_under(*prefix)
            }
            _ => None,
        }
    }

    /// The same under another prefix; `None` for what has no prefix.
    #[must_use]
    pub fn path_under(&self, prefix: Prefix) -> Option<String> {
        let mut path = format!("{}/sandboxes", prefix.as_str());
        match self {
            Self::Create(_) | Self::List(_) => Some(path),
            Self::Sandbox { act, sandbox, .. } => {
                let gap = if matches!(act, Act::OtherRead(_)) { "/" } else { "" };
                write!(path, "/{}{gap}{}", sandbox.id, act.row().0).ok()?;
                Some(path)
            }
            _ => None,
        }
    }
}

/// Reads a method and a raw path (without the query).
#[must_use]
pub fn classify(method: &Method, path: &str) -> Call {
    if method == Method::OPTIONS {
        return Call::Pass;
    }
    let direct = route(method, path);
    let Some(reading) = Reading::of(path) else { return refused(method, true) };
    let unowned = matches!(direct, Call::Pass | Call::UngovernedWrite);
    let same = || *reading.text == *path || route(method, &reading.text) == direct;
    let agreed = !unowned && reading.plain && same();
    let refused_here = matches!(direct, Call::NoSuchSandbox | Call::UngovernedSandboxWrite);
    if agreed || refused_here || !reading.speaks_of_owned() {
        direct
    } else {
        refused(method, reading.speaks_of("sandboxes"))
    }
}

/// Would this read show the usage of all: the console's routes of old Cubes, or Cube's own metrics? Judged as the kindest
/// reader could take the path; templates, which all may read, keep their names.
#[must_use]
pub fn shows_everybody(call: &Call, path: &str) -> bool {
    const SHOWING: [&str; 5] = ["cubeapi", "metrics", "nodes", "cluster", "agenthub"];
    let Some(reading) = Reading::of(path) else { return true };
    let shared = *call == Call::ReadTemplate || reading.text == "/cubeapi/v1/health";
    !(shared && reading.plain) && SHOWING.iter().any(|word| reading.speaks_of(word))
}

fn refused(method: &Method, of_sandboxes: bool) -> Call {
    match (is_read(method), of_sandboxes) {
        (true, _) => Call::NoSuchSandbox,
        (false, true) => Call::UngovernedSandboxWrite,
        (false, false) => Call::UngovernedWrite,
    }
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// Takes the path as it stands, as axum does.
fn route(method: &Method, path: &str) -> Call {
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or_default().split('/').collect();
    let (prefix, rest) = match segments.as_slice() {
        ["cubeapi", "v1", "v2", rest @ ..] => (Prefix::OldV2, rest),
        ["cubeapi", "v1", rest @ ..] => (Prefix::Old, rest),
        ["v2", rest @ ..] => (Prefix::V2, rest),
        rest => (Prefix::Root, rest),
    };
    if let (Some(act), "POST") = (LeaseAct::of(&segments), method.as_str()) {
        return Call::Lease(act);
    }
    match rest {
        ["sandboxes"] if is_read(method) => Call::List(prefix),
        ["sandboxes"] if method == Method::POST => Call::Create(prefix),
        ["sandboxes", id, tail @ ..] => sandbox(method, prefix, id, tail),
        ["sandboxes"] => Call::UngovernedSandboxWrite,
        ["snapshots"] if is_read(method) => Call::ListSnapshots,
        ["snapshots", id] => object(method, id, |verb, id| Call::Snapshot { verb, id }),
        ["volumes"] if is_read(method) => Call::ListVolumes,
        ["volumes"] if method == Method::POST => Call::CreateVolume,
        ["volumes", id] if Verb::of(method) != Verb::Write => {
            object(method, id, |verb, id| Call::Volume { verb, id })
        }
        ["templates", id, ..] if names_snapshot(id) => {
            object(method, id, |verb, id| Call::Snapshot { verb, id })
        }
        ["templates", ..] if is_read(method) => Call::ReadTemplate,
        ["templates", _] if method == Method::DELETE => Call::DeleteTemplate,
        ["templates", ..] => Call::WriteTemplate,
        _ if is_read(method) => Call::Pass,
        _ => Call::UngovernedWrite,
    }
}

fn sandbox(method: &Method, prefix: Prefix, id: &str, tail: &[&str]) -> Call {
    match (Act::of(method, tail), SandboxRef::parse(id)) {
        (None, _) => Call::UngovernedSandboxWrite,
        (Some(_), None) => Call::NoSuchSandbox,
        (Some(act), Some(sandbox)) => Call::Sandbox { act, prefix, sandbox },
    }
}

/// A call on an object whose id Cube decodes once; what is no text then has no name.
fn object(method: &Method, id: &str, call: fn(Verb, String) -> Call) -> Call {
    match percent_decode_str(id).decode_utf8() {
        Ok(id) if !id.is_empty() => call(Verb::of(method), id.into_owned()),
        _ => Call::NoSuchSandbox,
    }
}

fn names_snapshot(id: &str) -> bool {
    snapshot_id(&percent_decode_str(id).decode_utf8_lossy()).is_some()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    const ID: &str = "0cbc7f6b7af7453fac450e3313bcc679";

    fn call(request: &str) -> Call {
        let (method, path) = request.split_once(' ').unwrap();
        classify(&method.parse().unwrap(), &path.replace("{id}", ID))
    }

    fn name(request: &str) -> &'static str {
        call(request).name()
    }

    #[test]
    fn every_request_of_the_recorded_sdks_is_the_call_it_means() {
        for (request, expected) in [
            ("POST /sandboxes", "sandbox_create"),
            ("POST /v2/sandboxes", "sandbox_create"),
            ("GET /sandboxes", "sandbox_list"),
            ("GET /v2/sandboxes", "sandbox_list"),
            ("GET /sandboxes/{id}", "sandbox_get"),
            ("DELETE /sandboxes/{id}", "sandbox_delete"),
            ("GET /sandboxes/{id}/metrics", "sandbox_metrics"),
            ("POST /sandboxes/{id}/connect", "sandbox_connect"),
            ("POST /v2/sandboxes/{id}/connect", "sandbox_connect"),
            ("POST /sandboxes/{id}/pause", "sandbox_pause"),
            ("POST /sandboxes/{id}/resume", "sandbox_resume"),
            ("POST /sandboxes/{id}/timeout", "sandbox_timeout"),
            ("POST /sandboxes/{id}/snapshots", "sandbox_snapshot"),
            ("POST /sandboxes/{id}/rollback", "sandbox_rollback"),
            ("POST /sandboxes/{id}/fork", "ungoverned_write"),
            ("PUT /sandboxes/{id}/network", "sandbox_network"),
            ("GET /snapshots", "snapshot_list"),
            ("DELETE /templates/snap-1:default", "snapshot_delete"),
            ("DELETE /templates/snap-1%3Adefault", "snapshot_delete"),
            ("GET /templates", "template_read"),
            ("GET /volumes", "volume_list"),
            ("GET /health", "pass"),
        ] {
            assert_eq!(name(request), expected, "{request}");
        }
    }

    #[test]
    fn the_same_is_reached_under_every_prefix_and_with_every_form_of_the_id() {
        for prefix in ["", "/v2", "/cubeapi/v1", "/cubeapi/v1/v2"] {
            for form in ["", "-gmh7x2abc", "-node-0", "-gmh7x2abc-10.0.0.7"] {
                let of = |method: &str, tail: &str| {
                    call(&format!("{method} {prefix}/sandboxes/{{id}}{form}{tail}"))
                };
                assert_eq!(of("GET", "").name(), "sandbox_get");
                assert_eq!(of("HEAD", "").name(), "sandbox_get");
                assert_eq!(of("GET", "/logs").name(), "sandbox_logs");
                assert_eq!(
                    of("POST", "/refreshes").upstream_path(),
                    Some(format!("{prefix}/sandboxes/{ID}/refreshes"))
                );
                assert_eq!(of("GET", "/a/b").upstream_path(), Some(format!("{prefix}/sandboxes/{ID}/a/b")));
                assert_eq!(of("DELETE", "").upstream_path(), Some(format!("{prefix}/sandboxes/{ID}")));
            }
        }
        assert_eq!(
            call("POST /v2/sandboxes/{id}/connect").path_under(Prefix::V2.as_v1()).unwrap(),
            format!("/sandboxes/{ID}/connect")
        );
        assert_eq!(
            call("GET /cubeapi/v1/templates/snap-1"),
            Call::Snapshot { verb: Verb::Read, id: "snap-1".into() }
        );
    }

    #[test]
    fn an_id_that_is_not_whole_is_no_sandbox() {
        let upper = ID.to_uppercase();
        for id in
            [&ID[..12], "0", "..", ".", "", "metrics", "a%2Fb", &upper, "%30cbc7f6b7af7453fac450e3313bcc679"]
        {
            for (method, tail) in
                [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("POST", "/connect"), ("GET", "/logs")]
            {
                assert_eq!(
                    call(&format!("{method} /sandboxes/{id}{tail}")),
                    Call::NoSuchSandbox,
                    "{method} {id}{tail}"
                );
            }
        }
    }

    #[test]
    fn nothing_slips_through_in_a_form_that_a_kinder_reader_would_understand() {
        for path in [
            "/sandboxes/",
            "//sandboxes",
            "/./sandboxes",
            "/x/../sandboxes",
            "/sandbox%65s",
            "/sandbox%2565s",
            "/%2fsandboxes",
            "/sandboxes%2f{id}",
            "/sandboxes//{id}",
            "/Sandboxes",
            "/v3/sandboxes",
            "/v2//sandboxes",
            "/cubeapi/v1/../v1/sandboxes",
            "/health/..%2Fsandboxes",
            "/health\\..\\sandboxes",
            "/x;y/..;z/sandboxes",
            "/sandboxes;a=b/{id}",
            "/sandboxes%3Fa",
            "/sandboxes%00",
            "/templates/../sandboxes/{id}",
            "/templates/%2e%2e/sandboxes/{id}",
            "/templates/..%2fsandboxes",
            "/api/v9/sandboxes/{id}",
            "/%25252525252573andboxes",
            "/x%c0%afsandboxes",
            "/sand%00boxes",
            "/templates/a%3F/../../sandboxes",
        ] {
            assert_eq!(call(&format!("GET {path}")), Call::NoSuchSandbox, "{path}");
            assert_eq!(call(&format!("HEAD {path}")), Call::NoSuchSandbox, "{path}");
            for method in ["POST", "DELETE", "FROB"] {
                let call = call(&format!("{method} {path}"));
                assert!(
                    matches!(call, Call::UngovernedSandboxWrite | Call::NoSuchSandbox),
                    "{method} {path}: {call:?}"
                );
            }
        }
    }

    #[test]
    fn a_snapshot_under_templates_is_a_snapshot_however_it_is_spelled() {
        let snapshot = |id: &str| Call::Snapshot { verb: Verb::Delete, id: id.into() };
        assert_eq!(call("DELETE /templates/snap-1%3Adefault"), snapshot("snap-1:default"));
        assert_eq!(call("DELETE /templates/%73nap-1"), snapshot("snap-1"));
        assert_eq!(call("DELETE /templates/SNAP-1"), snapshot("SNAP-1"));
        assert_eq!(call("DELETE /templates/snap-1%253Adefault"), Call::UngovernedWrite);
        assert_eq!(call("DELETE /templates//snap-1"), Call::UngovernedWrite);
        for path in ["/templates\\snap-1", "/templates;a/snap-1", "/Templates/snap-1", "/templates/./snap-1"]
        {
            assert_eq!(call(&format!("GET {path}")), Call::NoSuchSandbox, "{path}");
        }
        assert_eq!(call("PUT /templates/snap-1/alias").name(), "snapshot_write");
        assert_eq!(call("DELETE /snapshots/snap-1"), snapshot("snap-1"));
        assert_eq!(call("DELETE /templates/tpl-1"), Call::DeleteTemplate);
        assert_eq!(call("GET /templates/aliases/my%20alias"), Call::ReadTemplate);
        assert_eq!(call("PATCH /templates/tpl-1"), Call::WriteTemplate);
        assert_eq!(call("POST /templates/tpl-1/builds/b"), Call::WriteTemplate);
    }

    #[test]
    fn the_rest_passes_if_it_reads_and_is_ungoverned_if_it_writes() {
        for path in ["/", "/health", "/metrics", "/nope", "/cubeapi/v1/health", "/cubeapi/v1/nodes", "*"] {
            assert_eq!(call(&format!("GET {path}")), Call::Pass, "{path}");
            assert_eq!(call(&format!("POST {path}")), Call::UngovernedWrite, "{path}");
        }
        assert_eq!(call("OPTIONS /sandboxes/{id}"), Call::Pass);
        assert_eq!(call("PUT /sandboxes"), Call::UngovernedSandboxWrite);
        assert_eq!(call("PATCH /sandboxes/{id}"), Call::UngovernedSandboxWrite);
        assert_eq!(call("PUT /volumes/v1"), Call::UngovernedWrite);
        assert_eq!(call("DELETE /volumes/v1"), Call::Volume { verb: Verb::Delete, id: "v1".into() });
        assert_eq!(call("POST /volumes"), Call::CreateVolume);
        assert_eq!(call("GET /volumes/v1/files"), Call::NoSuchSandbox);
    }

    #[test]
    fn every_name_stands_in_the_closed_set() {
        for request in [
            "DELETE /volumes/a",
            "GET /volumes/a",
            "POST /volumes",
            "GET /sandboxes/{id}/x",
            "GET /a",
            "PUT /a",
        ] {
            assert!(Call::all_names().contains(&name(request)), "{request}");
        }
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }

    #[test]
    fn what_shows_the_usage_of_all_is_known_however_it_is_spelled() {
        let shows = |path: &str| shows_everybody(&classify(&Method::GET, path), path);
        for path in [
            "/metrics",
            "//metrics",
            "/%6detrics",
            "/./METRICS",
            "/cubeapi/v1/nodes",
            "/x/../cubeapi/v1/nodes",
            "/cubeapi/v1/templates/../nodes",
            "/cluster/overview",
            "/nodes",
        ] {
            assert!(shows(path), "{path}");
        }
        for path in
            ["/templates", "/templates/tpl-metrics", "/cubeapi/v1/templates/tpl-1", "/cubeapi/v1/health"]
        {
            assert!(!shows(path), "{path}");
        }
    }
}
