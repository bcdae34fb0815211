//! Sandboxes that are nobody's, another ledger's, or ours without a record.

use std::collections::BTreeMap;

use cubewarden::cube::api::{LabelNames, Labels};
use cubewarden::ids::{Bucket, LedgerId, Marker, OwnerId};
use cubewarden::rules::entry::Origin;

use super::{asked, clock, inhabited, minutes};
use crate::cube::Profile;
use crate::cube::model::Plant;
use crate::support::warden;

/// One tenant `sin` with the key `e2b_5111`.
const TENANT: &str = r#"
[[tenant]]
name = "sin"
keys_sha256 = ["{hash}"]
buckets = ["sin/prod"]
"#;

fn tenant() -> String {
    use sha2::Digest as _;
    TENANT.replace("{hash}", &hex::encode(sha2::Sha256::digest(b"e2b_5111")))
}

fn labelled(ledger: &LedgerId, marker: &str) -> BTreeMap<String, String> {
    let labels = Labels {
        bucket: Bucket::parse("sin/prod").unwrap(),
        owner: OwnerId::new("sin.prod.web.r1").unwrap(),
        ledger: ledger.clone(),
        marker: Marker::new(marker).unwrap(),
    };
    labels.pairs(&LabelNames::new("")).into_iter().chain([("app".to_owned(), "x y".to_owned())]).collect()
}

#[tokio::test]
async fn with_tenants_what_stood_there_is_nobodys_and_is_left_alone() {
    let clock = clock();
    let (cube, ids) = inhabited(Profile::V070, &clock, 40).await;
    let running = warden::before(&cube.url()).config(&tenant()).clock(&clock).without_tasks().start().await;
    let caller = running.caller_with("e2b_5111");
    for _ in 0..60 {
        minutes(1, &clock, &cube, &running).await;
    }
    assert_eq!(running.held().await, 0);
    assert_eq!(running.warden.tasks.foreign(), cube.alive().len() as u64);
    assert_eq!(caller.get("/v2/sandboxes").await.body, "[]");
    let nobody = "0123456789abcdef0123456789abcdef";
    let living = ids.iter().find(|id| cube.sandbox(id).is_some()).unwrap();
    for (method, tail, body) in [
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/connect", Some("{}")),
        ("POST", "/timeout", Some(r#"{"timeout":0}"#)),
        ("POST", "/pause", None),
        ("GET", "/logs", None),
        ("POST", "/snapshots", Some("{}")),
    ] {
        let of = |id: &str| format!("/sandboxes/{id}{tail}");
        let foreign = caller.call(method, &of(living), body).await;
        let absent = caller.call(method, &of(nobody), body).await;
        assert_eq!(foreign.status, 404, "{method} {tail}");
        let named = String::from_utf8_lossy(&foreign.body).replace(living, nobody);
        assert_eq!(named.as_bytes(), absent.body, "{method} {tail}");
        assert_eq!(foreign.headers.len(), absent.headers.len(), "{method} {tail}");
    }
    assert!(asked(&cube, "DELETE", false).is_empty() && asked(&cube, "POST", false).is_empty());
    // Its own work is as with an empty Cube.
    let id = caller.create(r#"{"templateID":"tpl-000000000000000000000001"}"#).await;
    assert_eq!(
        (running.held().await, caller.delete(&format!("/sandboxes/{id}")).await.status.as_u16()),
        (1, 204)
    );
}

#[tokio::test]
async fn another_ledgers_sandboxes_are_foreign_and_never_touched() {
    for config in [String::new(), tenant()] {
        let clock = clock();
        let (cube, _) = inhabited(Profile::V070, &clock, 0).await;
        let theirs = LedgerId::new("00000000000000aa").unwrap();
        let metadata = labelled(&theirs, &"a".repeat(32));
        let id = cube.plant(Plant { metadata, timeout: Some(36_000), ..Plant::default() });
        let running = warden::before(&cube.url()).config(&config).clock(&clock).without_tasks().start().await;
        for _ in 0..120 {
            minutes(1, &clock, &cube, &running).await;
        }
        assert_eq!((running.held().await, running.warden.tasks.foreign()), (0, 1));
        assert!(cube.sandbox(&id).is_some());
        assert!(asked(&cube, "DELETE", false).is_empty() && asked(&cube, "POST", false).is_empty());
    }
}

#[tokio::test]
async fn ours_without_a_record_go_back_to_their_owner() {
    let clock = clock();
    let (cube, _) = inhabited(Profile::V070, &clock, 0).await;
    let running = warden::before(&cube.url()).config(&tenant()).clock(&clock).without_tasks().start().await;
    let metadata = labelled(&running.warden.ledger.id(), &"b".repeat(32));
    let id = cube.plant(Plant { metadata, timeout: Some(36_000), ..Plant::default() });
    let caller = running.caller_with("e2b_5111");
    assert_eq!(
        caller.get(&format!("/sandboxes/{id}")).await.status,
        404,
        "the ledger alone says whose it is"
    );
    minutes(1, &clock, &cube, &running).await;
    let entries = running.entries().await;
    assert_eq!((entries.len(), running.warden.tasks.foreign()), (1, 0));
    let adopted = &entries[0];
    assert_eq!(adopted.origin, Origin::Imported);
    assert_eq!(
        (adopted.bucket.to_string(), adopted.owner.as_str()),
        ("sin/prod".to_owned(), "sin.prod.web.r1")
    );
    assert_eq!(adopted.marker.as_str(), "b".repeat(32));
    assert_eq!(caller.get(&format!("/sandboxes/{id}")).await.status, 200);
    assert_eq!(caller.delete(&format!("/sandboxes/{id}")).await.status, 204);
    minutes(1, &clock, &cube, &running).await;
    assert_eq!((running.held().await, cube.alive().len()), (0, 0));
}
