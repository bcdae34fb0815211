//! A running warden, as the command line reaches it: its admin address, and the token if it asks for one.

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::cube::transport::{Settings, Transport, TransportError};
use crate::time::WallClock;

/// The longest wait for an answer; an explanation may read the whole log.
const PATIENCE: Duration = Duration::from_secs(60);
/// What stays as it is in a path segment or a query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Which warden, and how its answer is shown.
#[derive(Args)]
#[group(skip)]
pub(super) struct Reaching {
    /// Where the warden's operator's view listens.
    #[arg(long, value_name = "URL", env = "CUBEWARDEN_ADMIN", default_value = "http://127.0.0.1:9300")]
    pub(super) admin: String,
    /// Its token; better given by the variable alone, where nobody sees it among the processes.
    #[arg(long, value_name = "TOKEN", env = "CUBEWARDEN_ADMIN_TOKEN", hide_env_values = true, hide = true)]
    token: Option<String>,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(super) json: bool,
}

/// A warden that can be asked.
pub(super) struct Reach {
    base: Uri,
    transport: Transport,
    token: Option<HeaderValue>,
}

impl Reaching {
    pub(super) fn open(&self) -> anyhow::Result<Reach> {
        let base: Uri = self.admin.parse().with_context(|| format!("read the address {:?}", self.admin))?;
        let transport = Transport::build(&Settings::to(base.clone()))?;
        let token = self.token.as_deref().filter(|token| !token.is_empty());
        let bearer = |token: &str| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        };
        let token = token.map(bearer).transpose().context("read CUBEWARDEN_ADMIN_TOKEN")?;
        Ok(Reach { base, transport, token })
    }
}

/// A name as one segment of a path, or one value of a query.
pub(super) fn quoted(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

impl Reach {
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// The same; `None` where this warden serves nothing there.
    pub(super) async fn find(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let (status, body) = self.exchange(Method::GET, path, Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND { Ok(None) } else { self.judge(status, body).map(Some) }
    }

    /// The same, whatever its status: what is not ready says so with a body.
    pub(super) async fn look(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.exchange(Method::GET, path, Bytes::new()).await?.1)
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Bytes::from(body.to_string())).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Value> {
        let (status, body) = self.exchange(method, path, body).await?;
        self.judge(status, body)
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<(StatusCode, Value)> {
        let host = self.base.authority().map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(body).context("make the request")?;
        let answer = match self.transport.send(request, PATIENCE, &WallClock).await {
            Ok(answer) => answer,
            Err(TransportError::NotSent(_)) => bail!(
                "no warden answers at {}: start it, or name its admin address with --admin or CUBEWARDEN_ADMIN",
                self.base
            ),
            Err(error) => return Err(anyhow!(error).context(format!("ask the warden at {}", self.base))),
        };
        let read = serde_json::from_slice(answer.body());
        let body = read.with_context(|| format!("{} answers, but not as a warden does", self.base))?;
        Ok((answer.status(), body))
    }

    fn judge(&self, status: StatusCode, body: Value) -> anyhow::Result<Value> {
        if status.is_success() {
            return Ok(body);
        }
        if status == StatusCode::UNAUTHORIZED {
            bail!("the warden at {} asks for its token: put it into CUBEWARDEN_ADMIN_TOKEN", self.base);
        }
        let says = body.get("message").and_then(Value::as_str).unwrap_or("no reason was given");
        bail!("{} ({})", super::screen::plain(says), status.as_u16())
    }
}
