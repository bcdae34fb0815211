//! An answer before it is HTTP, and the one table that reads the backend's error codes as `CubeAPI` does.
//!
//! Must stay true: nothing here knows a socket; error bodies are `{"code":..,"message":".."}` in this order, without blanks.

use std::time::Duration;

use serde::Serialize;

use super::ask::Kind;
use super::profile::Profile;

/// Status, body, the few headers that handlers set themselves, and how long the answer is held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Body,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) after: Duration,
}

/// What follows the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Json(String),
    Text(String),
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: u16,
    message: &'a str,
}

impl Answer {
    /// 204.
    pub(crate) fn done() -> Self {
        Self { status: 204, body: Body::None, headers: Vec::new(), after: Duration::ZERO }
    }

    /// A JSON answer.
    pub(crate) fn json(status: u16, body: &impl Serialize) -> Self {
        let text =
            serde_json::to_string(body).expect("plain structs of strings and numbers always serialise");
        Self { status, body: Body::Json(text), headers: Vec::new(), after: Duration::ZERO }
    }

    /// A body as given.
    pub(crate) fn raw(status: u16, body: &str) -> Self {
        let body = match body.as_bytes().first() {
            None => Body::None,
            Some(b'{' | b'[') => Body::Json(body.to_owned()),
            Some(_) => Body::Text(body.to_owned()),
        };
        Self { status, body, headers: Vec::new(), after: Duration::ZERO }
    }

    /// An error of the handlers.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Self::json(status, &ErrorBody { code: status, message })
    }

    /// The 404 of a sandbox, by the id that was asked for.
    pub(crate) fn no_sandbox(id: &str) -> Self {
        Self::error(404, &format!("sandbox {id} not found"))
    }

    /// What `CubeAPI` makes of a backend's error.
    pub(crate) fn backend(profile: Profile, kind: Kind, code: i64, message: &str) -> Self {
        let coded = format!("CubeMaster returned error code {code}: {message}");
        match (code, kind) {
            (130_400, _) if profile.reads_bad_parameters() => Self::error(400, &coded),
            (130_404, Kind::Template | Kind::DeleteTemplate | Kind::Alias) => Self::error(404, &coded),
            (130_409, Kind::Delete) if profile.delete_knows_conflicts() => Self::error(409, message),
            (130_409, Kind::Pause | Kind::Resume | Kind::Connect | Kind::Snapshot) => {
                Self::error(409, message)
            }
            (130_490, Kind::Delete) if profile.delete_knows_conflicts() => Self::retry_later(message, 2),
            (130_589, Kind::Delete) if profile.delete_knows_conflicts() => Self::retry_later(message, 5),
            _ => Self::error(500, &coded),
        }
    }

    /// 503 with `Retry-After`, which only DELETE gives.
    pub(crate) fn retry_later(message: &str, seconds: u64) -> Self {
        let mut answer = Self::error(503, message);
        answer.headers.push(("retry-after", seconds.to_string()));
        answer
    }

    /// The same answer with one more header.
    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}
