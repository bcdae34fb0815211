//! Whose is it: tenants, buckets, owners, labels; and that another's and nobody's are the same to everybody else.

use std::collections::BTreeMap;

use cubewarden::ids::{Generation, SandboxRef};
use serde_json::json;

use super::stage::{BODY, NOBODY, Stage, body_with, path, real, refused, timed, two_tenants};
use crate::cube::model::Plant;
use crate::cube::{CubeSim, Lock, Profile};
use crate::support::http::{Answer, Caller};
use crate::support::warden;

/// PX13
#[tokio::test]
async fn what_a_client_says_of_itself_never_makes_it_somebody_else() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let victim = stage.a().with("x-cube-namespace", "b").with("x-cube-env", "prod");
    refused(&victim.post("/sandboxes", BODY).await, 403, "FORBIDDEN_BUCKET");
    let by_metadata = body_with(&json!({"namespace": "b", "env": "prod"}));
    refused(&stage.a().post("/sandboxes", &by_metadata).await, 403, "FORBIDDEN_BUCKET");
    let claims = body_with(&json!({
        "owner": "B", "owner_id": "b.prod.x.y", "managed_by": "me", "cw_ledger": "0123456789abcdef",
        "cw_marker": "0123456789abcdef0123456789abcdef", "Owner_Id": "kept", "x": "y",
    }));
    let id = stage.a().create(&claims).await;
    let metadata = &stage.cube.alive()[0].metadata;
    assert_eq!((metadata["namespace"].as_str(), metadata["env"].as_str()), ("a", "prod"));
    assert_eq!(metadata["managed_by"], "cubewarden");
    assert_eq!(metadata["cw_ledger"], stage.warden.warden.ledger.id().as_str());
    assert_ne!(metadata["cw_marker"], "0123456789abcdef0123456789abcdef");
    assert_eq!((metadata["owner"].as_str(), metadata["x"].as_str()), ("B", "y"), "not ours: as it came");
    assert_eq!(stage.metric("cubewarden_reserved_metadata_overwritten_total"), 3);
    // It is a's by the ledger, whatever owner it named inside its bucket.
    assert_eq!(stage.warden.entries().await[0].bucket.to_string(), "a/prod");
    assert_eq!(stage.b().get(&path(&id, "")).await.status, 404);
    assert_eq!(stage.b().get("/sandboxes").await.json(), json!([]));
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 200);
    stage.balance(1).await;
}

/// PX13
#[tokio::test]
async fn reserved_keys_are_overwritten_however_they_are_spelled_and_never_stand_there_twice() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let escaped = r#"{"templateID":"tpl-000000000000000000000001","metadata":{"managed\u005fby":"me","c\u0077_marker":"m"}}"#;
    stage.a().create(escaped).await;
    let sent = stage.created().remove(0);
    // The keys keep the client's bytes, the values are ours, and no key stands there a second time.
    assert!(sent.contains(r#""managed\u005fby":"cubewarden""#), "{sent}");
    assert_eq!(sent.matches("managed_by").count() + sent.matches("cw_marker").count(), 0, "{sent}");
    let read: serde_json::Value = serde_json::from_str(&sent).unwrap();
    assert_ne!(read["metadata"]["cw_marker"], "m");
    assert_eq!(stage.cube.alive()[0].metadata["managed_by"], "cubewarden");
    for twice in [
        r#"{"templateID":"a","metadata":{"namespace":"a"},"metadata":{"namespace":"b"}}"#,
        r#"{"templateID":"a","metadata":{"env":"dev"},"m\u0065tadata":{}}"#,
        r#"{"templateID":"a","metadata":{"env":"dev","\u0065nv":"prod"}}"#,
    ] {
        refused(&stage.a().post("/sandboxes", twice).await, 400, "BAD_REQUEST");
    }
    stage.balance(1).await;
}

#[tokio::test]
async fn without_a_known_key_nobody_is_served_and_cube_is_not_asked() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let nobody = stage.warden.caller();
    for caller in [
        nobody.clone(),
        nobody.with("x-api-key", "e2b_cc"),
        nobody.with("authorization", "Bearer e2b_cc"),
        nobody.with("x-api-key", "e2b_cc").with("authorization", "Bearer e2b_aa"),
    ] {
        for (method, route) in
            [("POST", "/sandboxes"), ("GET", "/sandboxes"), ("GET", "/templates"), ("GET", "/anything")]
        {
            let body = (method == "POST").then_some(BODY);
            refused(&caller.call(method, route, body).await, 401, "UNAUTHENTICATED");
        }
    }
    assert_eq!(nobody.get("/health").await.status, 200, "health is everybody's");
    assert_eq!(nobody.with("authorization", "Bearer e2b_aa").get("/sandboxes").await.status, 200);
    let stray = nobody.with("x-api-key", "e2b_bb").with("authorization", "Bearer e2b_aa");
    let id = stray.create(BODY).await;
    assert_eq!(stage.a().get(&path(&id, "")).await.status, 404, "X-API-Key decides");
    let requests = stage.cube.requests().into_iter();
    let upstream =
        requests.rev().find(|seen| seen.head.target == "/sandboxes" && seen.head.method == "POST").unwrap();
    let bearer = upstream.head.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    assert!(!bearer, "a stray bearer does not go on");
    stage.balance(1).await;
}

/// Every call about one sandbox: method, what follows the id, body.
const CALLS: [(&str, &str, Option<&str>); 19] = [
    ("GET", "", None),
    ("HEAD", "", None),
    ("DELETE", "", None),
    ("PATCH", "", Some("{}")),
    ("PUT", "", Some("{}")),
    ("POST", "", Some("{}")),
    ("POST", "/connect", Some(r#"{"timeout":60}"#)),
    ("POST", "/resume", Some("{}")),
    ("POST", "/pause", Some("")),
    ("POST", "/timeout", Some(r#"{"timeout":60}"#)),
    ("POST", "/timeout", Some(r#"{"timeout":0}"#)),
    ("POST", "/refreshes", Some(r#"{"duration":60}"#)),
    ("GET", "/logs", None),
    ("GET", "/metrics", None),
    ("PUT", "/network", Some("{}")),
    ("POST", "/snapshots", Some("{}")),
    ("POST", "/rollback", Some(r#"{"snapshotID":"snap-000000000000000000000001"}"#)),
    ("POST", "/fork", Some("{}")),
    ("GET", "/whatever/else", None),
];

/// An answer without what differs from request to request.
fn comparable(answer: &Answer, id: &str) -> (u16, BTreeMap<String, String>, String) {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &answer.headers {
        if !["date", "x-request-id"].contains(&name.as_str()) {
            headers.insert(name.to_string(), value.to_str().unwrap().to_owned());
        }
    }
    let body = String::from_utf8(answer.body.to_vec()).unwrap().replace(id, "<id>");
    (answer.status.as_u16(), headers, body)
}

#[tokio::test]
async fn anothers_and_nobodys_are_the_same_404_byte_for_byte_in_every_call_under_every_prefix() {
    for profile in [Profile::V051, Profile::V070] {
        let stage = real(profile, &two_tenants()).await;
        let id = stage.a().create(BODY).await;
        stage.cube.forget_requests();
        for prefix in ["", "/v2", "/cubeapi/v1", "/cubeapi/v1/v2"] {
            for suffix in ["", "-g1", "-host-1", "-g1-host-1"] {
                for (method, tail, body) in CALLS {
                    let ask = |id: &str| format!("{prefix}/sandboxes/{id}{suffix}{tail}");
                    let (b, of_a, of_nobody) = (stage.b(), ask(&id), ask(NOBODY));
                    let anothers = comparable(&b.call(method, &of_a, body).await, &id);
                    let nobodys = comparable(&b.call(method, &of_nobody, body).await, NOBODY);
                    assert_eq!(anothers, nobodys, "{method} {of_a}");
                    assert!([404, 422].contains(&anothers.0), "{method} {of_a} {anothers:?}");
                    assert!(!anothers.2.contains("template"), "{anothers:?}");
                }
            }
        }
        assert!(!stage.asked().iter().any(|line| line.contains(&id)), "Cube was never asked about it");
        stage.balance(1).await;
    }
}

#[tokio::test]
async fn a_dead_one_is_the_same_404_for_its_owner_and_for_everybody() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let id = stage.a().create(BODY).await;
    assert_eq!(stage.a().delete(&path(&id, "")).await.status, 204);
    for (method, tail, body) in CALLS {
        let route = path(&id, tail);
        let (owner, other) = (stage.a(), stage.b());
        let (owner, other) = (owner.call(method, &route, body).await, other.call(method, &route, body).await);
        assert_eq!(comparable(&owner, &id), comparable(&other, &id), "{method} {route}");
    }
    stage.balance(0).await;
}

/// Snapshot and volume of tenant a.
async fn objects_of_a(stage: &Stage) -> (String, String) {
    let id = stage.a().create(BODY).await;
    let snapshot = stage.a().post(&path(&id, "/snapshots"), "{}").await;
    assert_eq!(snapshot.status, 201, "{snapshot:?}");
    let volume = stage.a().post("/volumes", r#"{"name":"data"}"#).await;
    assert!(volume.status.is_success(), "{volume:?}");
    (snapshot.text("snapshotID"), volume.text("volumeID"))
}

#[tokio::test]
async fn snapshots_and_volumes_are_their_makers_alone_in_every_verb() {
    let stage = real(Profile::V070, &two_tenants()).await;
    let (snapshot, volume) = objects_of_a(&stage).await;
    let nobodys_volume = format!("{}0", &volume[..volume.len() - 1]);
    let bare = snapshot.split(':').next().unwrap();
    let nobodys_snapshot =
        format!("{}{}", &bare[..bare.len() - 1], if bare.ends_with('0') { '1' } else { '0' });
    let nobodys_volume =
        if nobodys_volume == volume { format!("{}1", &volume[..volume.len() - 1]) } else { nobodys_volume };
    for (method, of_a, of_nobody) in [
        ("GET", format!("/volumes/{volume}"), format!("/volumes/{nobodys_volume}")),
        ("DELETE", format!("/volumes/{volume}"), format!("/volumes/{nobodys_volume}")),
        ("GET", format!("/templates/{bare}"), format!("/templates/{nobodys_snapshot}")),
        ("DELETE", format!("/templates/{bare}"), format!("/templates/{nobodys_snapshot}")),
        ("PATCH", format!("/templates/{bare}"), format!("/templates/{nobodys_snapshot}")),
    ] {
        let body = (method == "PATCH").then_some("{}");
        let (last, nobody) = (of_a.rsplit('/').next().unwrap(), of_nobody.rsplit('/').next().unwrap());
        let b = stage.b();
        let anothers = comparable(&b.call(method, &of_a, body).await, last);
        let nobodys = comparable(&b.call(method, &of_nobody, body).await, nobody);
        assert_eq!(anothers, nobodys, "{method} {of_a}");
        assert_eq!(anothers.0, 404, "{method} {of_a} {anothers:?}");
    }
    for list in ["/snapshots", "/volumes"] {
        assert_eq!(stage.b().get(list).await.json(), json!([]), "{list}");
        assert_eq!(stage.a().get(list).await.json().as_array().map(Vec::len), Some(1), "{list}");
    }
    let from_snapshot = |name: &str| format!(r#"{{"templateID":"{name}"}}"#);
    refused(&stage.b().post("/sandboxes", &from_snapshot(&snapshot)).await, 404, "NOT_FOUND");
    refused(&stage.b().post("/sandboxes", &from_snapshot(bare)).await, 404, "NOT_FOUND");
    let mount = format!(
        r#"{{"templateID":"tpl-000000000000000000000001","volumeMounts":[{{"name":"{volume}","path":"/d"}}]}}"#
    );
    refused(&stage.b().post("/sandboxes", &mount).await, 404, "NOT_FOUND");
    let of_b = stage.b().create(BODY).await;
    let rollback = format!(r#"{{"snapshotID":"{snapshot}"}}"#);
    refused(&stage.b().post(&path(&of_b, "/rollback"), &rollback).await, 404, "NOT_FOUND");
    stage.balance(2).await;
    assert_eq!(stage.a().post("/sandboxes", &mount).await.status, 201);
    assert_eq!(stage.a().post("/sandboxes", &from_snapshot(&snapshot)).await.status, 201);
    assert!(stage.a().delete(&format!("/templates/{bare}")).await.status.is_success());
    assert_eq!(stage.a().get("/snapshots").await.json(), json!([]));
    stage.balance(4).await;
}

#[tokio::test]
async fn templates_are_read_by_all_and_written_by_an_admin_tenant() {
    let config = two_tenants() + "admin = true\n";
    let stage = real(Profile::V070, &config).await;
    assert_eq!(stage.a().get("/templates").await.status, 200);
    refused(&stage.a().post("/templates", "{}").await, 422, "UNGOVERNED_ROUTE");
    refused(&stage.a().delete("/templates/tpl-000000000000000000000001").await, 422, "UNGOVERNED_ROUTE");
    refused(&stage.a().post("/anything", "{}").await, 422, "UNGOVERNED_ROUTE");
    let admin = stage.b().post("/templates", "{}").await;
    assert_ne!(admin.json()["error_code"], "UNGOVERNED_ROUTE", "{admin:?}");
    assert_eq!(stage.times("POST /templates"), 1, "what it thinks of the body is Cube's to say");
}

#[tokio::test]
async fn in_open_mode_everything_is_everybodys() {
    let stage = real(Profile::V070, "").await;
    let planted = stage.cube.plant(Plant::default());
    let caller = stage.warden.caller().with("x-api-key", "anything");
    for (method, tail, body) in [
        ("GET", "", None),
        ("POST", "/timeout", Some(r#"{"timeout":60}"#)),
        ("POST", "/pause", Some("")),
        ("POST", "/connect", Some(r#"{"timeout":60}"#)),
        ("GET", "/logs", None),
    ] {
        let answer = caller.call(method, &path(&planted, tail), body).await;
        assert!(answer.status.is_success(), "{method} {tail}: {answer:?}");
    }
    let direct = Caller::new(&stage.cube.url()).get(&path(NOBODY, "")).await;
    let through = caller.get(&path(NOBODY, "")).await;
    assert_eq!((through.status, through.body), (direct.status, direct.body), "Cube's own 404");
    let elsewhere = caller.with("x-cube-namespace", "web").with("x-cube-env", "prod");
    let id = elsewhere.create(BODY).await;
    assert_eq!(caller.get(&path(&id, "")).await.status, 200);
    assert_eq!(stage.cube.sandbox(&id).unwrap().metadata["namespace"], "web");
    assert_eq!(stage.metric(r#"cubewarden_admissions_total{bucket="other"}"#), 1);
    refused(&caller.post(&path(&id, "/fork"), "{}").await, 422, "UNGOVERNED_ROUTE");
}

#[tokio::test]
async fn owners_are_readable_and_injective() {
    let stage = real(Profile::V070, &two_tenants()).await;
    for (metadata, owner) in [
        (json!({"project": "p 1", "run": "r_1"}), "a.prod.p_201.r__1"),
        (json!({"project_id": "p", "thread_id": "t"}), "a.prod.p.t"),
        (json!({"session_id": "ü.x"}), "a.prod.-._c3_bc_2ex"),
        (json!({"owner_id": "mine", "run": "r"}), "mine"),
    ] {
        let id = stage.a().create(&body_with(&metadata)).await;
        assert_eq!(stage.cube.sandbox(&id).unwrap().metadata["owner_id"], owner);
    }
    let named = stage.a().with("x-cube-project", "h").with("x-cube-run", "1").with("x-cube-env", "dev");
    let id = named.create(&body_with(&json!({"run": "r"}))).await;
    assert_eq!(stage.cube.sandbox(&id).unwrap().metadata["owner_id"], "a.dev.h.1");
    let id = stage.a().create(BODY).await;
    let metadata = stage.cube.sandbox(&id).unwrap().metadata;
    assert_eq!(metadata["owner_id"], format!("a.prod.-.{}", metadata["cw_marker"]));
    stage.balance(6).await;
}

#[tokio::test]
async fn ids_are_accepted_qualified_and_with_a_client_tail_and_a_stale_generation_is_gone() {
    let config = two_tenants() + "[bucket_defaults]\nids = \"qualified\"\n";
    let stage = real(Profile::V070, &config).await;
    let named = stage.a().create(BODY).await;
    let current = SandboxRef::parse(&named).unwrap();
    let generation = current.generation.expect("a qualified id");
    let bare = current.id.to_string();
    let overtaken =
        SandboxRef { generation: Some(Generation(generation.0 - 1)), ..current.clone() }.to_string();
    let listed = stage.a().get("/v2/sandboxes").await.json();
    assert_eq!(listed[0]["sandboxID"], named);
    for (name, shown) in [
        (named.clone(), &named),
        (bare.clone(), &named),
        (format!("{bare}-node-1"), &named),
        (format!("{named}-00000000-0000-4000-8000-000000000000"), &named),
    ] {
        let read = stage.a().get(&path(&name, "")).await;
        assert_eq!((read.status.as_u16(), read.text("sandboxID")), (200, shown.clone()), "{name}");
        for (tail, body) in [
            ("/timeout", r#"{"timeout":60}"#),
            ("/refreshes", r#"{"duration":60}"#),
            ("/pause", ""),
            ("/connect", r#"{"timeout":60}"#),
            ("/snapshots", "{}"),
        ] {
            let answer = stage.a().post(&path(&name, tail), body).await;
            assert!(answer.status.is_success(), "{name}{tail}: {answer:?}");
        }
    }
    assert!(!stage.asked().iter().any(|line| line.contains("-g")), "upstream sees the bare id");
    stage.cube.forget_requests();
    for (method, tail, body) in CALLS {
        let route = path(&overtaken, tail);
        let answer = stage.a().call(method, &route, body).await;
        // A pause must not be taken for one that happened by itself: it is told apart.
        let allowed: &[u16] = if tail == "/pause" { &[412] } else { &[404, 422] };
        assert!(allowed.contains(&answer.status.as_u16()), "{method} {route} {answer:?}");
    }
    assert!(!stage.asked().iter().any(|line| line.contains(&bare)), "{:?}", stage.asked());
    stage.balance(1).await;
    assert_eq!(stage.a().delete(&path(&named, "")).await.status, 204);
    stage.balance(0).await;
}

#[tokio::test]
async fn ids_that_another_reader_could_take_for_one_are_nobodys() {
    let stage = timed(Profile::V070, "").await;
    let id = stage.warden.caller().create(BODY).await;
    stage.cube.forget_requests();
    for odd in [
        id[..31].to_owned(),
        id[..12].to_owned(),
        id.to_uppercase(),
        format!("{id}0"),
        format!("{id}-"),
        format!("{}%{:02x}{}", &id[..3], id.as_bytes()[3], &id[4..]),
        format!("{id}%2f"),
        format!("x/../{id}"),
    ] {
        for method in ["GET", "DELETE"] {
            let answer = stage.warden.caller().call(method, &path(&odd, ""), None).await;
            assert!([404, 422].contains(&answer.status.as_u16()), "{method} {odd} {answer:?}");
        }
    }
    assert_eq!(stage.asked(), [""; 0]);
    stage.balance(1).await;
}

#[tokio::test]
async fn without_a_key_of_cubes_the_clients_goes_through_and_is_never_shown() {
    let cube = CubeSim::builder().lock(Lock::Key("cubes-own".into())).start().await.unwrap();
    let warden = warden::before(&cube.url()).config(&two_tenants()).start().await;
    let answer = warden.caller_with("e2b_aa").post("/sandboxes", BODY).await;
    assert_eq!(answer.status, 401, "the client's own credential went through: {answer:?}");
    assert_eq!(warden.held().await, 0);
    warden.warden.ledger.write_notes().await.unwrap();
    let log = warden.warden.ledger.decisions(0, 1000).await.unwrap();
    assert!(!format!("{log:?} {answer:?}").contains("e2b_aa"));
}

#[tokio::test]
async fn the_old_prefix_is_governed_as_the_new_one() {
    let stage = timed(Profile::V051, &two_tenants()).await;
    let id = stage.a().create(BODY).await;
    let under = |prefix: &str| format!("{prefix}/sandboxes/{id}");
    for prefix in ["", "/cubeapi/v1"] {
        assert_eq!(stage.a().get(&under(prefix)).await.status, 200, "{prefix}");
        assert_eq!(stage.b().get(&under(prefix)).await.status, 404, "{prefix}");
        let shown = |answer: Answer| answer.json().as_array().map(Vec::len);
        assert_eq!(shown(stage.a().get(&format!("{prefix}/sandboxes")).await), Some(1));
        assert_eq!(shown(stage.b().get(&format!("{prefix}/sandboxes")).await), Some(0));
    }
    assert_eq!(stage.a().delete(&under("/cubeapi/v1")).await.status, 204);
    stage.balance(0).await;
}
