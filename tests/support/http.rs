//! A small HTTP client: one call, one answer, nothing followed or retried.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// An answer, whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// A text member of the body.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        let json = self.json();
        let value = json.get(name).and_then(Value::as_str);
        value.unwrap_or_else(|| panic!("no {name} in {self:?}")).to_owned()
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Someone who calls an API, always with the same headers.
#[derive(Clone)]
pub(crate) struct Caller {
    client: Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
    base: String,
    headers: Vec<(String, String)>,
}

impl Caller {
    pub(crate) fn new(base: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, base: base.to_owned(), headers: Vec::new() }
    }

    /// One that does not even try again on a new connection what an old one, closed meanwhile, did not take.
    pub(crate) fn strict(base: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
        Self { client, ..Self::new(base) }
    }

    /// The same caller with one more header on each call.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut headers = self.headers.clone();
        headers.push((name.to_owned(), value.to_owned()));
        Self { headers, ..self.clone() }
    }

    /// One call; an answer that does not come is an error in words.
    pub(crate) async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = Full::new(Bytes::from(body.unwrap_or("").to_owned()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await.map_err(|error| format!("{error:?}"))?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// One call that must be answered.
    #[track_caller]
    pub(crate) fn call<'a>(
        &'a self,
        method: &'a str,
        path: &'a str,
        body: Option<&'a str>,
    ) -> impl Future<Output = Answer> + Send + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let answer = self.try_call(method, path, body).await;
            answer.unwrap_or_else(|error| panic!("{caller}: {method} {path} got no answer: {error}"))
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", path, None).await
    }

    /// Creates a sandbox with `body` and returns its id.
    #[track_caller]
    pub(crate) fn create<'a>(&'a self, body: &'a str) -> impl Future<Output = String> + Send + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let answer = self.post("/sandboxes", body).await;
            assert_eq!(answer.status, 201, "{caller}: create was answered {answer:?}");
            answer.text("sandboxID")
        }
    }
}
