//! Calls to the Cube API: those of clients carried further, and the warden's own.
//!
//! Must stay true: each answer is read by the one table (`outcome`), by nothing else; a credential is never logged; the
//! budgets are Cube's own and a margin, never the caller's patience. Deliberately absent: retries and any decision.

mod lives;
mod writes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};

use super::api::{Detail, Listed};
pub use super::credential::Credential;
use super::guard::Guard;
use super::outcome::{self, Absence, Asked};
use super::profile::{Probe, Profile};
use super::settings::{ApiKey, Budgets};
use super::transport::{Transport, TransportError};
use crate::ids::SandboxId;
use crate::time::Clock;

pub use writes::Killed;

/// How much longer than Cube's own budget an answer is waited for.
const MARGIN: Duration = Duration::from_secs(5);
/// Names the next page of a list.
pub const NEXT_TOKEN: &str = "x-next-token";
/// So many pages of one list are followed; a list that goes on after that has no end.
pub const MOST_PAGES: usize = 100;
/// The header of Cube's and E2B's keys.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// How long a kind of call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Most calls.
    Call,
    /// Pause, resume, connect.
    Wake,
    /// Snapshots, rollback, template delete.
    Snapshot,
}

/// What a GET of one sandbox said.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It exists.
    Here(Box<Detail>),
    /// Cube says in its own words that it does not exist.
    Absent,
    /// Nothing can be concluded.
    Unclear(String),
}

/// The two ways to Cube, so that what clients wait for and what the warden asks by itself are measured apart.
#[derive(Clone, Debug)]
pub struct Ways {
    /// For clients' calls that are carried further.
    pub carried: Transport,
    /// For the warden's own questions and deeds.
    pub own: Transport,
}

/// The Cube API, as one warden uses it.
pub struct Client {
    ways: Ways,
    guard: Arc<Guard>,
    api_key: Option<ApiKey>,
    budgets: Budgets,
    clock: Arc<dyn Clock>,
    profile: ArcSwap<Profile>,
    /// Cube has turned away a call of the warden's own that had no key.
    wants_key: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl Client {
    /// A client over these ways, whose writes this guard watches over.
    #[must_use]
    pub fn new(
        ways: Ways,
        guard: Arc<Guard>,
        api_key: Option<ApiKey>,
        budgets: Budgets,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (profile, wants_key) = (ArcSwap::default(), AtomicBool::new(false));
        Self { ways, guard, api_key, budgets, clock, profile, wants_key }
    }

    /// The guard before its writes.
    #[must_use]
    pub fn guard(&self) -> &Arc<Guard> {
        &self.guard
    }

    /// What is known of this Cube.
    #[must_use]
    pub fn profile(&self) -> Profile {
        **self.profile.load()
    }

    /// Learns from an answer.
    pub fn learn(&self, probe: Probe, answer: &Response<Bytes>) {
        let next = self.profile().learn(probe, answer.status().as_u16(), answer.body());
        if next != self.profile() {
            tracing::info!(profile = ?next, "learned what this Cube can do");
            self.profile.store(Arc::new(next));
        }
    }

    /// How long an answer is waited for.
    #[must_use]
    pub fn budget(&self, pace: Pace) -> Duration {
        let budget = match pace {
            Pace::Call => self.budgets.call,
            Pace::Wake => self.budgets.wake,
            Pace::Snapshot => self.budgets.snapshot,
        };
        budget.saturating_add(MARGIN)
    }

    /// The warden's own credential.
    #[must_use]
    pub fn own_credential(&self) -> Credential {
        Credential::Own
    }

    /// With whose credential things are done for this caller: Cube's own key where the warden has it, else the caller's.
    #[must_use]
    pub fn credential_for(&self, headers: &HeaderMap) -> Credential {
        if self.api_key.is_some() {
            return Credential::Own;
        }
        let mut lent = HeaderMap::new();
        for name in [API_KEY, header::AUTHORIZATION] {
            for value in headers.get_all(&name) {
                let mut value = value.clone();
                value.set_sensitive(true);
                lent.append(name.clone(), value);
            }
        }
        if lent.is_empty() { Credential::Own } else { Credential::Lent(lent) }
    }

    /// Is Cube the only one that can judge a caller's key? So it is where the warden has none of its own to show, and the
    /// caller has one, or Cube is known to want one.
    #[must_use]
    pub fn judges(&self, credential: &Credential) -> bool {
        self.api_key.is_none() && (!credential.is_own() || self.wants_key.load(Ordering::Relaxed))
    }

    /// Whether Cube is known to demand a key for the warden's own calls, and the warden has none.
    #[must_use]
    pub fn lacks_key(&self) -> bool {
        self.api_key.is_none() && self.wants_key.load(Ordering::Relaxed)
    }

    /// Puts Cube's own key in the place of the caller's credential, where the warden has one.
    pub fn swap_credential(&self, headers: &mut HeaderMap) {
        if let Some(key) = &self.api_key {
            headers.remove(header::AUTHORIZATION);
            headers.remove(API_KEY);
            insert_key(headers, key);
        }
    }

    /// Takes the caller's credential away where Cube gets the warden's own key: what is open to all needs neither.
    pub fn drop_credential(&self, headers: &mut HeaderMap) {
        if self.api_key.is_some() {
            headers.remove(header::AUTHORIZATION);
            headers.remove(API_KEY);
        }
    }

    /// Carries a client's call further: its head (credential swapped, no compression asked for, since the answer is read
    /// here), and `body` with its exact length. A governed write goes by [`Client::write`].
    ///
    /// # Errors
    /// [`TransportError`], which says whether anything can have been sent.
    pub async fn carry(
        &self,
        mut head: Parts,
        body: Bytes,
        pace: Pace,
    ) -> Result<Response<Bytes>, TransportError> {
        self.swap_credential(&mut head.headers);
        for name in [header::ACCEPT_ENCODING, header::EXPECT, header::TRANSFER_ENCODING] {
            head.headers.remove(name);
        }
        let budget = self.budget(pace);
        let request = Request::from_parts(head, body);
        self.ways.carried.send(request, budget, self.clock.as_ref()).await
    }

    /// GET of one sandbox.
    pub async fn get(&self, sandbox: &SandboxId, credential: &Credential) -> Seen {
        let path = format!("/sandboxes/{sandbox}");
        let answer = match self.ask(Method::GET, &path, None, Pace::Call, credential).await {
            Ok(answer) => answer,
            Err(error) => return Seen::Unclear(format!("GET: {error}")),
        };
        let status = answer.status().as_u16();
        match outcome::absence(Asked::Get, status, answer.body(), &self.profile()) {
            Absence::Proven => Seen::Absent,
            Absence::Alive => match Detail::read(answer.body()) {
                Ok(detail) if detail.listed.id == *sandbox => Seen::Here(Box::new(detail)),
                Ok(detail) => {
                    Seen::Unclear(format!("GET of {sandbox} was answered with {}", detail.listed.id))
                }
                Err(error) => Seen::Unclear(format!("GET: {error}")),
            },
            Absence::NoProof => Seen::Unclear(format!("GET was answered {status}")),
        }
    }

    /// Everything that Cube lists, on all its pages.
    ///
    /// # Errors
    /// In words, if the list failed or cannot be read whole.
    pub async fn list(&self, credential: &Credential) -> Result<Vec<Listed>, ListFailed> {
        let mut all = Vec::new();
        self.list_each(credential, |item| all.push(item)).await?;
        Ok(all)
    }

    /// The same, one item after the other.
    ///
    /// # Errors
    /// In words, if the list failed or cannot be read whole; what was handed out until then is worth nothing.
    pub async fn list_each(
        &self,
        credential: &Credential,
        mut take: impl FnMut(Listed),
    ) -> Result<(), ListFailed> {
        let mut path = "/v2/sandboxes".to_owned();
        for _ in 0..MOST_PAGES {
            let (page, next) = self.page(&path, credential).await?;
            Listed::read_each(&page, &mut take).map_err(|error| ListFailed::Unclear(error.to_string()))?;
            let Some(next) = next else { return Ok(()) };
            let mut query = form_urlencoded::Serializer::for_suffix("/v2/sandboxes?".to_owned(), 14);
            let next = query.append_pair("nextToken", &next).finish();
            if next == path {
                return Ok(());
            }
            path = next;
        }
        Err(ListFailed::Unclear("the list has too many pages".to_owned()))
    }

    /// One page of it, and the token of the next.
    async fn page(&self, path: &str, credential: &Credential) -> Result<(Bytes, Option<String>), ListFailed> {
        let answer = self.ask(Method::GET, path, None, Pace::Call, credential).await;
        let answer = answer.map_err(|error| ListFailed::Unclear(error.to_string()))?;
        match answer.status() {
            StatusCode::OK => {
                let next = answer.headers().get(NEXT_TOKEN).and_then(|next| next.to_str().ok());
                let next = next.filter(|next| !next.is_empty()).map(str::to_owned);
                Ok((answer.into_body(), next))
            }
            status if is_no_entry(status) => Err(ListFailed::KeyWanted),
            status => Err(ListFailed::Unclear(format!("the list was answered {}", status.as_u16()))),
        }
    }

    /// Asks a harmless question that tells something of the version behind it.
    pub async fn probe(&self, probe: Probe) {
        let nobody = "0".repeat(32);
        let (method, path, body) = match probe {
            Probe::TimeoutOfNobody => {
                (Method::POST, format!("/sandboxes/{nobody}/timeout"), Some(r#"{"timeout":60}"#))
            }
            Probe::DeleteOfNobody => (Method::DELETE, format!("/sandboxes/{nobody}"), None),
            // Never sent as probes: clients' own calls teach us.
            Probe::V2Create | Probe::V2Connect => return,
        };
        if let Ok(answer) = self.ask(method, &path, body, Pace::Call, &Credential::Own).await {
            self.learn(probe, &answer);
        }
    }

    /// Whether Cube answers at all.
    pub async fn is_up(&self) -> bool {
        let answer = self.ask(Method::GET, "/health", None, Pace::Call, &Credential::Own).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        pace: Pace,
        credential: &Credential,
    ) -> Result<Response<Bytes>, TransportError> {
        let mut request = Request::new(body.map_or_else(Bytes::new, |body| Bytes::from(body.to_owned())));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|error| TransportError::NotSent(Box::new(error)))?;
        let headers = request.headers_mut();
        if let Credential::Lent(lent) = credential {
            headers.extend(lent.clone());
        } else if let Some(key) = &self.api_key {
            insert_key(headers, key);
        }
        let agent = HeaderValue::from_static(concat!("cubewarden/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let answer = self.ways.own.send(request, self.budget(pace), self.clock.as_ref()).await?;
        if credential.is_own() && is_no_entry(answer.status()) {
            self.wants_key.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

/// Cube does not let this credential in.
#[must_use]
pub fn is_no_entry(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Why there is no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListFailed {
    /// Cube demands a key that the warden does not have.
    #[error(
        "Cube demands a key for the warden's own calls: name the variable that holds it in upstream.api_key_env"
    )]
    KeyWanted,
    /// It failed, or cannot be read whole.
    #[error("list the sandboxes: {0}")]
    Unclear(String),
}

fn insert_key(headers: &mut HeaderMap, key: &ApiKey) {
    if let Ok(mut value) = HeaderValue::from_str(&key.0) {
        value.set_sensitive(true);
        headers.insert(API_KEY, value);
    }
}
