//! What answers look like: JSON for people's tools, never cached, never taken for anything else.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::ledger::LedgerError;

/// Why there is no other answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// A token is asked for, and none or a wrong one was shown.
    Unauthenticated,
    /// Nothing is served there.
    NoSuchPath,
    /// Not with this method; these are served.
    Method(&'static str),
    /// A parameter cannot be understood; the text names it.
    Parameter(String),
    /// No entry has that name.
    NoSuchEntry,
    /// Whoever asks may not; the text says why.
    Forbidden(String),
    /// It cannot be done as things stand; the text says why, and the number is the entry's generation.
    Conflict(String, Option<u64>),
    /// The ledger cannot be read.
    Ledger(LedgerError),
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

/// The answer to a request that cannot be served.
pub(super) fn failure(failure: &Failure) -> Response<Bytes> {
    let (status, message) = match failure {
        Failure::Unauthenticated => {
            (StatusCode::UNAUTHORIZED, "Send the admin token: Authorization: Bearer <token>.".to_owned())
        }
        Failure::NoSuchPath => (
            StatusCode::NOT_FOUND,
            "Served here: / (the console), /healthz, /readyz, /metrics, /v1/admin/buckets, /v1/admin/sandboxes, \
             /v1/admin/decisions, /v1/admin/collector, /v1/admin/plan, /v1/admin/breaker, /v1/admin/shadow, \
             /v1/admin/explain/{sandbox, marker, owner or request id}; and for POST: \
             /v1/admin/kill/{sandbox}, hold/{sandbox}, unhold/{sandbox}, release/{sandbox}, release?bucket=, drain."
                .to_owned(),
        ),
        Failure::Method(allowed) => {
            (StatusCode::METHOD_NOT_ALLOWED, format!("Only {allowed} is served here."))
        }
        Failure::Forbidden(why) => (StatusCode::FORBIDDEN, why.clone()),
        Failure::Conflict(why, _) => (StatusCode::CONFLICT, why.clone()),
        Failure::Parameter(what) => (StatusCode::BAD_REQUEST, what.clone()),
        Failure::NoSuchEntry => {
            (StatusCode::NOT_FOUND, "The ledger has no entry of that sandbox id or marker.".to_owned())
        }
        Failure::Ledger(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("The ledger cannot be read: {error}."))
        }
    };
    let mut body = json!({ "code": status.as_u16(), "message": message });
    if let Failure::Conflict(_, Some(generation)) = failure {
        body["generation"] = (*generation).into();
    }
    let mut answer = json(status, &body);
    let headers = answer.headers_mut();
    match failure {
        Failure::Unauthenticated => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        Failure::Method(allowed) => headers.insert(header::ALLOW, HeaderValue::from_static(allowed)),
        _ => None,
    };
    answer
}

/// A JSON answer.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Bytes> {
    text(status, "application/json", format!("{body}\n"))
}

/// An answer of any type.
pub(super) fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    let length = answer.body().len();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The same head, as HEAD wants it.
pub(super) fn without_body(answer: Response<Bytes>) -> Response<Bytes> {
    answer.map(|_| Bytes::new())
}
