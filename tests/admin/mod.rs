//! The operator's view, without a socket: the same function that answers on the admin listener.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod gauge;
mod orders;
mod shadow;
mod views;

use std::collections::BTreeMap;

use bytes::Bytes;
use cubewarden::admin::Admin;
use http::{Request, Response};
use serde_json::Value;

use crate::support::warden::Running;

const TEMPLATE: &str = "tpl-000000000000000000000001";

/// The answer to one request with these headers.
async fn ask(admin: &Admin, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    admin.answer(&request.body(()).unwrap().into_parts().0).await
}

/// The answer to an order, and its body.
async fn order(admin: &Admin, path: &str, body: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let request = Request::builder().method("POST").uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let answer = admin.answer_to(&request.body(()).unwrap().into_parts().0, body.as_bytes()).await;
    (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap())
}

/// A JSON answer with status 200.
async fn view(warden: &Running, path: &str) -> Value {
    let answer = ask(&warden.warden.admin, "GET", path, &[]).await;
    assert_eq!(answer.status(), 200, "{path}: {answer:?}");
    assert_eq!(answer.headers()["content-type"], "application/json");
    serde_json::from_slice(answer.body()).unwrap()
}

/// Every series of `/metrics`, as a scraper reads them.
async fn scrape(warden: &Running) -> BTreeMap<String, String> {
    let answer = ask(&warden.warden.admin, "GET", "/metrics", &[]).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    let text = String::from_utf8(answer.into_body().to_vec()).unwrap();
    let series = text.lines().filter(|line| !line.starts_with("# HELP ") && !line.starts_with("# TYPE "));
    series
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no series: {line}"));
            assert!(value.parse::<f64>().is_ok(), "no number: {line}");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}
