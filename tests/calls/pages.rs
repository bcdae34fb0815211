//! Pages: Cube's are followed and never shown; a tenant's own count nobody else's things.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use serde_json::{Value, json};

use super::stage::{BODY, path, real, refused, two_tenants};
use crate::cube::Profile;
use crate::support::http::Caller;
use crate::support::warden;

#[tokio::test]
async fn a_tenants_pages_of_snapshots_say_nothing_of_anothers() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let (a, b) = (stage.a(), stage.b());
    let (of_a, of_b) = (a.create(BODY).await, b.create(BODY).await);
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(a.post(&path(&of_a, "/snapshots"), "{}").await.text("snapshotID"));
        for _ in 0..60 {
            assert_eq!(b.post(&path(&of_b, "/snapshots"), "{}").await.status, 201);
        }
    }
    let (mut seen, mut pages, mut token) = (Vec::new(), 0, String::new());
    loop {
        let page = a.get(&format!("/snapshots?limit=2&nextToken={token}")).await;
        assert_eq!(page.status, 200, "{page:?}");
        let items = page.json().as_array().unwrap().clone();
        seen.extend(items.iter().map(|item| item["snapshotID"].as_str().unwrap().to_owned()));
        pages += 1;
        match page.header("x-next-token") {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
        assert!(token.starts_with("2-"), "two were shown, however many there are of others: {token}");
    }
    own.reverse();
    let bare =
        |ids: &[String]| ids.iter().map(|id| id.split(':').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!((bare(&seen), pages), (bare(&own), 2));
    let all = a.get("/snapshots").await;
    assert_eq!((all.json().as_array().unwrap().len(), all.header("x-next-token")), (3, None));
    refused(&a.get("/snapshots?nextToken=100").await, 400, "BAD_REQUEST");
    stage.balance(2).await;
}

fn item(n: usize) -> Value {
    json!({"sandboxID": format!("{n:032x}"), "state": "running", "startedAt": "2026-01-01T00:00:00Z", "metadata": {}})
}

/// A Cube whose lists come in pages of two, without an end if `endless`.
async fn paging(total: usize, endless: bool) -> String {
    type Asked = Query<std::collections::HashMap<String, String>>;
    let list = move |State(total): State<Arc<usize>>, Query(asked): Asked| async move {
        let from: usize = asked.get("nextToken").map_or(0, |token| token.parse().unwrap());
        let to = (from + 2).min(*total);
        let items: Vec<Value> = (from.min(to)..to).map(item).collect();
        let next = if to < *total || endless { (from + 2).to_string() } else { String::new() };
        ([("x-next-token", next)], axum::Json(items))
    };
    let router = Router::new().route("/v2/sandboxes", get(list)).route("/sandboxes", get(list));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router.with_state(Arc::new(total))).await.unwrap() });
    url
}

async fn listed(caller: &Caller, route: &str) -> (usize, Option<String>) {
    let answer = caller.get(route).await;
    assert_eq!(answer.status, 200, "{route}: {answer:?}");
    (answer.json().as_array().unwrap().len(), answer.header("x-next-token").map(str::to_owned))
}

#[tokio::test]
async fn the_pages_of_a_cube_that_pages_are_followed_and_its_tokens_stay_here() {
    let warden = warden::before(&paging(5, false).await).without_tasks().start().await;
    let caller = warden.caller();
    for route in ["/sandboxes", "/v2/sandboxes"] {
        assert_eq!(listed(&caller, route).await, (5, None), "{route}");
    }
    let (count, next) = listed(&caller, "/v2/sandboxes?limit=4").await;
    assert_eq!(count, 4);
    let rest = format!("/v2/sandboxes?limit=4&nextToken={}", next.unwrap());
    assert_eq!(listed(&caller, &rest).await, (1, None));
    warden.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(warden.held().await, 5, "the inventory follows them too");
}

#[tokio::test]
async fn a_list_without_an_end_is_no_list() {
    let warden = warden::before(&paging(5, true).await).without_tasks().start().await;
    refused(&warden.caller().get("/v2/sandboxes").await, 502, "UPSTREAM_ANSWER");
    warden.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!(warden.held().await, 0);
}
