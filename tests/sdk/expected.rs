//! What each SDK makes of each call, stated.
//!
//! Must stay true: what is the same for all is written once; where an SDK differs, it is named here and nowhere else.

use super::driver::Sdk;
use crate::cube::Profile;

const TEMPLATE: &str = "tpl-000000000000000000000001";
const METADATA: &str =
    r#"{"empty":"","query":"x&y=z","quote":"\"\\","share":"100%","team":"a b","user":"ü/1"}"#;

/// Whom the SDK speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Cube itself.
    Bare(Profile),
    /// The warden before a Cube of this version.
    Through(Profile),
}

impl Seen {
    fn is_bare(self) -> bool {
        matches!(self, Self::Bare(_))
    }
}

impl Sdk {
    /// From 2.51 on creates and connects go to `/v2`.
    pub(super) fn speaks_v2(self) -> bool {
        matches!(self, Self::Python("2.63.0") | Self::Js("2.51.0"))
    }

    /// `class` and, where this SDK's exceptions carry one, the status.
    fn raises(self, step: &str, class: &str, status: u16, message: &str) -> String {
        let carries = match self {
            Self::Python(version) => version != "2.15.2",
            Self::Js(version) => version == "2.51.0",
            Self::Cube(_) => true,
        };
        let status = if carries { format!(" {status}") } else { String::new() };
        format!("{step}: raises {class}{status} {message:?}")
    }

    /// Its general exception, for answers that it has no class of its own for. e2b puts the status before the message.
    pub(super) fn raises_plainly(self, step: &str, status: u16, message: &str) -> String {
        match self {
            Self::Python(_) => self.raises(step, "SandboxException", status, &format!("{status}: {message}")),
            Self::Js(_) => self.raises(step, "SandboxError", status, &format!("{status}: {message}")),
            Self::Cube(_) => self.raises(step, "ApiError", status, message),
        }
    }

    /// A sandbox that is not there, or not the caller's. e2b drops the server's message and the status with it.
    pub(super) fn misses(self, step: &str, id: &str, message: &str) -> String {
        let paused = if step.starts_with("connect") { "Paused sandbox" } else { "Sandbox" };
        let class = match self {
            Self::Python("2.15.2") => "NotFoundException",
            Self::Python(_) => "SandboxNotFoundException",
            Self::Js("2.12.1") => "NotFoundError",
            Self::Js(_) => "SandboxNotFoundError",
            Self::Cube(_) => return self.raises(step, "SandboxNotFoundError", 404, message),
        };
        format!("{step}: raises {class} {:?}", format!("{paused} {id} not found"))
    }

    /// What `kill` returns of a sandbox that was there.
    pub(super) fn kills(self, step: &str) -> String {
        let value = if matches!(self, Self::Cube(_)) { "null" } else { "true" };
        format!("{step}: {value}")
    }

    /// What `kill` makes of a sandbox that is not there, or not the caller's.
    pub(super) fn kills_nothing(self, step: &str, id: &str, message: &str) -> String {
        match self {
            Self::Cube(_) => self.misses(step, id, message),
            _ => format!("{step}: false"),
        }
    }

    /// What an instance's own `kill` returns; JavaScript's 2.12 returns nothing either way.
    pub(super) fn kills_itself(self, step: &str) -> String {
        if self == Self::Js("2.12.1") { format!("{step}: null") } else { self.kills(step) }
    }

    /// What an instance's own `kill` makes of a sandbox that is not there any more.
    pub(super) fn kills_nothing_itself(self, step: &str, id: &str, message: &str) -> String {
        if self == Self::Js("2.12.1") {
            format!("{step}: null")
        } else {
            self.kills_nothing(step, id, message)
        }
    }

    fn pauses(self, step: &str) -> String {
        let value = match self {
            Self::Python("2.15.2") => "\"<id 1>\"",
            Self::Cube(_) => "null",
            _ => "true",
        };
        format!("{step}: {value}")
    }
}

/// What Cube and warden say of a sandbox that is gone, or not the caller's; only cubesandbox shows it.
pub(super) const GONE: &str = "sandbox <id 1> not found";

fn one(state: &str, template: &str, metadata: &str) -> String {
    format!(r#"{{"id":"<id 1>","metadata":{metadata},"state":"{state}","template":"{template}"}}"#)
}

/// The scenario `life`. A bare 0.7 forgets a sandbox's metadata and template while it is paused; the ledger does not.
pub(super) fn life(sdk: Sdk, seen: Seen) -> Vec<String> {
    if seen.is_bare() && sdk.speaks_v2() {
        return vec![no_v2(sdk)];
    }
    let running = one("running", TEMPLATE, METADATA);
    let forgets = seen == Seen::Bare(Profile::V070);
    let paused = if forgets { one("paused", "", "{}") } else { one("paused", TEMPLATE, METADATA) };
    let mut told = vec!["create: {\"id\":\"<id 1>\"}".to_owned()];
    told.push(format!("list: [{}]", if cube_misreads_filters(sdk, seen) { "" } else { &running }));
    told.push("list nothing: []".to_owned());
    told.push(format!("get_info: {running}"));
    told.push("connect: {\"id\":\"<id 1>\"}".to_owned());
    told.push("set_timeout: null".to_owned());
    told.push(sdk.pauses("pause"));
    told.push(format!("get_info paused: {paused}"));
    told.push("connect again: {\"id\":\"<id 1>\"}".to_owned());
    told.push(format!("get_info running: {running}"));
    told.extend((2..5).map(|number| format!("create pausing: {{\"id\":\"<id {number}>\"}}")));
    told.push(format!("pages: {}", pages(sdk, seen)));
    told.extend((2..5).map(|_| sdk.kills("kill other")));
    told.push(sdk.kills("kill"));
    told.push(sdk.kills_nothing("kill again", "<id 1>", GONE));
    told.push(sdk.misses("get_info killed", "<id 1>", GONE));
    told.push(set_timeout_killed(sdk, seen));
    told.push(sdk.misses("connect killed", "<id 1>", GONE));
    told
}

/// A bare Cube answers 405 with an empty body where it has no such route.
fn no_v2(sdk: Sdk) -> String {
    let message = if matches!(sdk, Sdk::Js(_)) { "Method Not Allowed" } else { "b''" };
    sdk.raises_plainly("create", 405, message)
}

/// e2b encodes filters three times; Cube decodes them once, and finds nothing.
fn cube_misreads_filters(sdk: Sdk, seen: Seen) -> bool {
    seen.is_bare() && !matches!(sdk, Sdk::Cube(_))
}

/// Cube gives one page of the asked size and no token for the next; cubesandbox cannot ask for pages.
fn pages(sdk: Sdk, seen: Seen) -> &'static str {
    match (sdk, seen) {
        (Sdk::Cube(_), _) => "[3]",
        (_, Seen::Bare(_)) => "[2]",
        (_, Seen::Through(_)) => "[2,1]",
    }
}

/// Cube before 0.7 says 500 where it means 404.
fn set_timeout_killed(sdk: Sdk, seen: Seen) -> String {
    let step = "set_timeout killed";
    if seen == Seen::Bare(Profile::V051) {
        return sdk.raises_plainly(step, 500, "CubeMaster returned error code 130404: sandbox not found");
    }
    sdk.misses(step, "<id 1>", GONE)
}

/// The scenario `foreign`, through the warden: as if the sandbox did not exist.
pub(super) fn foreign(sdk: Sdk) -> Vec<String> {
    let misses = |step| sdk.misses(step, "<id 1>", GONE);
    let mut told: Vec<String> = ["get_info", "connect", "set_timeout", "pause"].map(misses).into();
    told.push("list: []".to_owned());
    told.push(sdk.kills_nothing("kill", "<id 1>", GONE));
    told
}

/// How a call refused for want of room begins: the status and this SDK's class; the words are the server's.
pub(super) fn over_quota(sdk: Sdk, step: &str) -> String {
    let raised = match sdk {
        Sdk::Python("2.15.2") => "RateLimitException \"429: ",
        Sdk::Python(_) => "RateLimitException 429 \"429: ",
        Sdk::Js("2.12.1") => "RateLimitError \"Rate limit exceeded",
        Sdk::Js(_) => "RateLimitError 429 \"Rate limit exceeded",
        Sdk::Cube(_) => "ApiError 429 ",
    };
    format!("{step}: raises {raised}")
}

/// How a call whose answer was lost begins.
pub(super) fn outcome_unknown(sdk: Sdk, step: &str) -> String {
    let raised = match sdk {
        Sdk::Python("2.15.2") => "SandboxException \"504: ",
        Sdk::Python(_) => "SandboxException 504 \"504: ",
        Sdk::Js("2.12.1") => "SandboxError \"504: ",
        Sdk::Js(_) => "SandboxError 504 \"504: ",
        Sdk::Cube(_) => "ApiError 504 ",
    };
    format!("{step}: raises {raised}")
}
