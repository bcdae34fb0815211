//! `CubeAPI`'s middlewares, and mends: where the newer axum, tower-http and `serde_json` word things otherwise than the recorded ones.

use std::sync::{Arc, PoisonError};

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, VARY,
};
use http::{HeaderValue, Method, StatusCode};

use super::server::{Shared, response};

/// `CubeAPI`'s tower-http takes `*` for no encoding at all; the newer one for any.
pub(super) async fn ignore_any_encoding(mut request: Request, next: Next) -> Response {
    let accepted = request.headers().get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.trim_start().starts_with('*')) {
        request.headers_mut().remove(ACCEPT_ENCODING);
    }
    next.run(request).await
}

/// CORS as `CubeAPI`'s tower-http answers it; the newer one no longer says `vary` to everybody.
pub(super) async fn allow_all_origins(request: Request, next: Next) -> Response {
    const VARY_BY: &str = "origin, access-control-request-method, access-control-request-headers";
    const ANY: HeaderValue = HeaderValue::from_static("*");
    let preflight = request.method() == Method::OPTIONS;
    let mut response = if preflight { StatusCode::OK.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    if preflight {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
        headers.insert(VARY, HeaderValue::from_static(VARY_BY));
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ANY);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ANY);
    } else {
        headers.insert(VARY, HeaderValue::from_static(VARY_BY));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANY);
    }
    response
}

pub(super) async fn authenticate(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let open = request.uri().path() == "/cubeapi/v1/health";
    match shared.lock.refuse(request.headers()).filter(|_| !open) {
        Some(refusal) => response(refusal),
        None => next.run(request).await,
    }
}

pub(super) async fn limit_rate(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let refusal = shared.rate.as_ref().and_then(|rate| {
        let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.refuse(request.headers(), shared.clock.now())
    });
    match refusal {
        Some(refusal) => response(refusal),
        None => next.run(request).await,
    }
}

/// The request with its body, and the body apart; `server` has read it already, the extractors bound it.
pub(super) async fn buffered(request: Request) -> (Request, Bytes) {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    (Request::from_parts(parts, axum::body::Body::from(bytes.clone())), bytes)
}

/// Where text is not UTF-8 `CubeAPI`'s `serde_json` points behind the string, the newer one at the byte.
pub(super) fn with_old_column(rejection: &JsonRejection, bytes: &[u8]) -> Response {
    let text = rejection.body_text();
    let bad = std::str::from_utf8(bytes).err().map(|error| error.valid_up_to());
    let closing = bad.and_then(|bad| Some(bad + bytes[bad..].iter().position(|byte| *byte == b'"')? + 1));
    match (text.split_once("invalid unicode code point"), closing) {
        (Some((lead, _)), Some(end)) => {
            let lines = bytes[..end].split(|byte| *byte == b'\n').count();
            let column = bytes[..end].iter().rev().take_while(|byte| **byte != b'\n').count();
            let place = format!("{lead}invalid unicode code point at line {lines} column {column}");
            (rejection.status(), place).into_response()
        }
        _ => (rejection.status(), text).into_response(),
    }
}

/// `CubeAPI`'s axum does not yet say at which field a query failed.
pub(super) fn without_path(rejection: &QueryRejection) -> Response {
    let text = rejection.body_text();
    let (lead, complaint) = text.split_once(": ").unwrap_or((&text, ""));
    let bare = match complaint.split_once(": ") {
        Some((field, rest)) if !field.contains(' ') => rest,
        _ => complaint,
    };
    (rejection.status(), format!("{lead}: {bare}")).into_response()
}
