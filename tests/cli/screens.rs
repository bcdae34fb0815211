//! What each command shows of what a warden answers: the answers stand in files, a stub gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use tokio::net::TcpListener;

use super::{cubewarden, expect};

/// A warden that says what a file says: lines of `METHOD path status body`.
async fn stub(answers: BTreeMap<String, (u16, String)>) -> String {
    let answers = Arc::new(answers);
    let answer = move |request: Request| {
        let asked = format!("{} {}", request.method(), request.uri());
        let (status, body) =
            answers.get(&asked).cloned().unwrap_or((404, format!("{{\"message\":{asked:?}}}")));
        async move { (StatusCode::from_u16(status).unwrap(), body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    format!("http://{address}")
}

/// `$ command` and its answers, each in a block of its own.
async fn shown(block: &str) -> String {
    let (mut command, mut answers) = ("", BTreeMap::new());
    for line in block.lines() {
        if let Some(rest) = line.strip_prefix("$ cubewarden ") {
            command = rest;
        } else if !line.starts_with('#') {
            let mut parts = line.splitn(4, ' ');
            let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
            let status = parts.next().unwrap().parse().unwrap();
            answers.insert(format!("{method} {path}"), (status, parts.next().unwrap().to_owned()));
        }
    }
    let url = stub(answers).await;
    let args: Vec<&str> = command.split(' ').collect();
    let output = cubewarden(&url, &args, &[]).await;
    let complaint = String::from_utf8(output.stderr).unwrap().replace(&url, "http://warden");
    format!("$ cubewarden {command}\n{}{complaint}", String::from_utf8(output.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_screen_is_as_it_was_read_and_found_right() {
    for file in expect::files("screens") {
        let mut came = Vec::new();
        for block in expect::given(&file).split("\n\n") {
            came.push(shown(block).await);
        }
        expect::compare(&file, &came.join("\n"));
    }
}
