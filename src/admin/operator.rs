//! What an operator may do: kill, hold, unhold, release, drain. POST only.
//!
//! Must stay true: an end needs an explicit generation, or force with a reason, and goes through the ledger's one decision;
//! it is written down here and carried out by the tasks. No page in a browser can write: a token alone would not keep it
//! from a warden on loopback that asks for none, so what browsers always send with a write, an origin, is refused.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::{Bucket, Generation, SandboxRef};
use crate::ledger::{Condemned, Heeded};
use crate::rules::delete::Shown;
use crate::rules::entry::{Actor, Entry, Origin};

/// A reason is for people, and stands in records.
const LONGEST_REASON: usize = 500;

/// Whether anybody may write here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// Whoever shows the token, where there is one.
    Taken,
    /// Nobody: strangers can reach this listener, and no token tells them from operators.
    Refused,
}

/// What an operator wants.
pub(super) enum Wish<'a> {
    Kill(&'a str),
    Hold(&'a str),
    Unhold(&'a str),
    Release(&'a str),
    ReleaseAll,
    Drain,
}

impl<'a> Wish<'a> {
    /// The wish behind a path, if it is one.
    pub(super) fn read(path: &'a str) -> Option<Self> {
        let inside = path.strip_prefix("/v1/admin/")?;
        match inside.split_once('/') {
            Some(("kill", name)) => Some(Self::Kill(name)),
            Some(("hold", name)) => Some(Self::Hold(name)),
            Some(("unhold", name)) => Some(Self::Unhold(name)),
            Some(("release", name)) => Some(Self::Release(name)),
            None if inside == "release" => Some(Self::ReleaseAll),
            None if inside == "drain" => Some(Self::Drain),
            _ => None,
        }
    }
}

impl Admin {
    pub(super) async fn carry_out(
        &self,
        wish: Wish<'_>,
        head: &Parts,
        body: &[u8],
    ) -> Result<Response<Bytes>, Failure> {
        if self.writes == Writes::Refused {
            let says = "This listener can be reached by others and asks for no token, so it takes no orders: set \
                        admin.token_env, or listen on loopback.";
            return Err(Failure::Forbidden(says.to_owned()));
        }
        if head.headers.contains_key(header::ORIGIN) {
            return Err(Failure::Forbidden("No page in a browser may write here.".to_owned()));
        }
        let query = head.uri.query().unwrap_or_default();
        if !matches!(wish, Wish::ReleaseAll) {
            Query::read(query, &[])?;
        }
        match wish {
            Wish::Kill(name) => self.kill(name, &read(body)?).await,
            Wish::Hold(name) => {
                let (entry, body) = (self.wanted(name).await?, read(body)?);
                let reason = reason(&body)?.ok_or_else(|| lacks("a reason"))?;
                heeded(&entry, "held", self.ledger.hold(&entry.marker, &reason).await?)
            }
            Wish::Unhold(name) => {
                let entry = self.wanted(name).await?;
                heeded(&entry, "unheld", self.ledger.unhold(&entry.marker).await?)
            }
            Wish::Release(name) => {
                let entry = self.wanted(name).await?;
                heeded(&entry, "released", self.ledger.release_import(&entry.marker).await?)
            }
            Wish::ReleaseAll => self.release_all(query).await,
            Wish::Drain => {
                self.drain();
                self.outlook.drain();
                Ok(answers::json(StatusCode::ACCEPTED, &json!({ "result": "draining" })))
            }
        }
    }

    async fn wanted(&self, name: &str) -> Result<Entry, Failure> {
        self.entry_named(name).await?.ok_or(Failure::NoSuchEntry)
    }

    async fn kill(&self, name: &str, body: &Value) -> Result<Response<Bytes>, Failure> {
        if !self.outlook.ends_sandboxes() {
            let says = "This warden only watches (mode is not \"enforce\"): it ends nothing.";
            return Err(Failure::Conflict(says.to_owned(), None));
        }
        let entry = self.wanted(name).await?;
        let named = body.get("generation").and_then(Value::as_u64).map(Generation);
        let qualified = SandboxRef::parse(name).and_then(|sandbox| sandbox.generation);
        let generation = named.or(qualified);
        let force = body.get("force").and_then(Value::as_bool).unwrap_or(false);
        let reason = reason(body)?;
        let why = match (generation, force, reason) {
            (Some(_), _, reason) => reason.unwrap_or_else(|| "an operator named its generation".to_owned()),
            (None, true, Some(reason)) => reason,
            _ => return Err(lacks("a generation, or force with a reason")),
        };
        let shown = Shown::of_generation(generation);
        match self.ledger.condemn(&entry.marker, Actor::Operator, &shown, why.as_str()).await? {
            Condemned::Yes => Ok(done(StatusCode::ACCEPTED, &entry, "condemned")),
            Condemned::Ended | Condemned::NotFound => {
                Err(Failure::Conflict("It is dead already.".to_owned(), Some(entry.generation.0)))
            }
            Condemned::Fenced => {
                let says = format!("Its generation is {}: nothing was done.", entry.generation.0);
                Err(Failure::Conflict(says, Some(entry.generation.0)))
            }
            Condemned::Unproven | Condemned::Kept | Condemned::Later => {
                let says = "Not now: it is not born yet, or something is under way; nothing was done.";
                Err(Failure::Conflict(says.to_owned(), Some(entry.generation.0)))
            }
        }
    }

    /// Everything in a bucket that was found, not made.
    async fn release_all(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        let query = Query::read(query, &["bucket"])?;
        let bucket = query.get("bucket", Bucket::parse)?.ok_or_else(|| lacks("a sandbox, or ?bucket="))?;
        let (entries, _corrupt) = self.ledger.charged(Some(&bucket)).await?;
        let found = entries.iter().filter(|entry| entry.origin != Origin::Created);
        let mut released = 0_u64;
        for entry in found {
            released += u64::from(self.ledger.release_import(&entry.marker).await? == Heeded::Yes);
        }
        let body = json!({ "result": "released", "bucket": bucket.to_string(), "count": released });
        Ok(answers::json(StatusCode::OK, &body))
    }
}

/// The body: a JSON object, or nothing.
fn read(body: &[u8]) -> Result<Value, Failure> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    let read = serde_json::from_slice::<Value>(body).ok().filter(Value::is_object);
    read.ok_or_else(|| Failure::Parameter("The body must be a JSON object.".to_owned()))
}

/// The operator's reason: one line of a sensible length.
fn reason(body: &Value) -> Result<Option<String>, Failure> {
    let Some(reason) = body.get("reason").and_then(Value::as_str).map(str::trim) else { return Ok(None) };
    match reason.len() {
        0 => Ok(None),
        1..=LONGEST_REASON => Ok(Some(reason.to_owned())),
        _ => Err(Failure::Parameter(format!("A reason has at most {LONGEST_REASON} bytes."))),
    }
}

fn lacks(what: &str) -> Failure {
    Failure::Parameter(format!("This needs {what}."))
}

fn heeded(entry: &Entry, result: &str, heeded: Heeded) -> Result<Response<Bytes>, Failure> {
    match heeded {
        Heeded::Yes => Ok(done(StatusCode::OK, entry, result)),
        Heeded::Already => Ok(done(StatusCode::OK, entry, "already_so")),
        Heeded::TooLate => {
            Err(Failure::Conflict("It is condemned or dead: too late.".to_owned(), Some(entry.generation.0)))
        }
        Heeded::NotFound => Err(Failure::NoSuchEntry),
    }
}

fn done(status: StatusCode, entry: &Entry, result: &str) -> Response<Bytes> {
    let body = json!({
        "result": result,
        "sandbox_id": entry.sandbox.as_ref().map(crate::ids::SandboxId::as_str),
        "marker": entry.marker.as_str(),
        "generation": entry.generation.0,
    });
    answers::json(status, &body)
}
