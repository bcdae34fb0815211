//! Every create body and every path that the six recorded SDKs send.

use bytes::Bytes;
use cubewarden::calls::classify::{Prefix, classify};
use cubewarden::calls::filter::ListQuery;
use cubewarden::calls::mends::lifecycle;
use cubewarden::calls::settings::Compat;
use cubewarden::cube::api::{CreateBody, Edits, LabelNames, Labels, Listed, OnTimeout, snapshot_id};
use cubewarden::cube::profile::Profile;
use cubewarden::ids::{Bucket, LedgerId, Marker, OwnerId};
use serde_json::Value;

/// (SDK, body)
const CREATES: &[(&str, &str)] = &[
    (
        "js-e2b-2.12.1",
        r#"{"autoPause":false,"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true}"#,
    ),
    (
        "js-e2b-2.12.1",
        r#"{"autoPause":false,"templateID":"tpl-custom","metadata":{"team":"a b","user":"ü/1"},"envVars":{"FOO":"bar"},"timeout":121,"secure":true,"allow_internet_access":false}"#,
    ),
    (
        "js-e2b-2.12.1",
        r#"{"autoPause":false,"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true,"network":{"allowOut":["1.1.1.1/32"],"denyOut":["0.0.0.0/0"],"allowPublicTraffic":false,"maskRequestHost":"${PORT}-x.example.com"}}"#,
    ),
    (
        "js-e2b-2.12.1",
        r#"{"autoPause":true,"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true}"#,
    ),
    ("js-e2b-2.51.0", r#"{"templateID":"base"}"#),
    (
        "js-e2b-2.51.0",
        r#"{"templateID":"tpl-custom","metadata":{"team":"a b","user":"ü/1"},"envVars":{"FOO":"bar"},"timeout":121,"allow_internet_access":false}"#,
    ),
    (
        "js-e2b-2.51.0",
        r#"{"templateID":"base","network":{"allowOut":["1.1.1.1/32"],"denyOut":["0.0.0.0/0"],"allowPublicTraffic":false,"maskRequestHost":"${PORT}-x.example.com"}}"#,
    ),
    ("js-e2b-2.51.0", r#"{"templateID":"base","autoPause":true,"autoResume":{"enabled":true}}"#),
    ("py-cubesandbox-0.7.3", r#"{"templateID": "tpl-1"}"#),
    (
        "py-cubesandbox-0.7.3",
        r#"{"templateID": "tpl-1", "timeout": 120, "envVars": {"FOO": "bar"}, "metadata": {"team": "a b"}, "distributionScope": ["10.0.0.1"], "allow_internet_access": false, "lifecycle": {"onTimeout": "pause", "autoResume": true}}"#,
    ),
    (
        "py-cubesandbox-0.7.3",
        r#"{"templateID": "tpl-1", "network": {"allowOut": ["1.1.1.1/32"], "denyOut": ["0.0.0.0/0"], "allowPublicTraffic": false}}"#,
    ),
    ("py-cubesandbox-0.7.3", r#"{"templateID": "tpl-1", "autoPause": true}"#),
    ("py-cubesandbox-0.7.3", r#"{"templateID": "tpl-1", "timeout": -1}"#),
    ("py-cubesandbox-0.7.3", r#"{"templateID": "snap-1:default"}"#),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"base","allow_internet_access":true,"autoPause":false,"envVars":{},"metadata":{},"secure":true,"timeout":300}"#,
    ),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"tpl-custom","allow_internet_access":false,"autoPause":false,"envVars":{"FOO":"bar"},"metadata":{"team":"a b","user":"ü/1"},"secure":true,"timeout":120}"#,
    ),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"base","allow_internet_access":true,"autoPause":false,"envVars":{},"metadata":{},"network":{"allowOut":["1.1.1.1/32","api.example.com"],"allowPublicTraffic":false,"denyOut":["0.0.0.0/0"],"maskRequestHost":"${PORT}-x.example.com"},"secure":true,"timeout":300}"#,
    ),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"base","allow_internet_access":true,"autoPause":true,"autoResume":{"enabled":true},"envVars":{},"metadata":{},"secure":true,"timeout":300}"#,
    ),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"base","allow_internet_access":true,"autoPause":true,"autoResume":{"enabled":false},"envVars":{},"metadata":{},"secure":true,"timeout":300}"#,
    ),
    (
        "py-e2b-2.15.2",
        r#"{"templateID":"base","allow_internet_access":true,"autoPause":false,"envVars":{},"metadata":{"team":"a"},"secure":true,"timeout":45}"#,
    ),
    (
        "py-e2b-2.50.0",
        r#"{"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true,"metadata":{},"envVars":{}}"#,
    ),
    (
        "py-e2b-2.50.0",
        r#"{"templateID":"tpl-custom","timeout":120,"secure":true,"allow_internet_access":false,"metadata":{"team":"a b","user":"ü/1"},"envVars":{"FOO":"bar"}}"#,
    ),
    (
        "py-e2b-2.50.0",
        r#"{"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true,"network":{"allowPublicTraffic":false,"allowOut":["1.1.1.1/32","api.example.com"],"denyOut":["0.0.0.0/0"],"maskRequestHost":"${PORT}-x.example.com"},"metadata":{},"envVars":{}}"#,
    ),
    (
        "py-e2b-2.50.0",
        r#"{"templateID":"base","timeout":300,"autoPause":true,"autoResume":{"enabled":true},"secure":true,"allow_internet_access":true,"metadata":{},"envVars":{}}"#,
    ),
    (
        "py-e2b-2.50.0",
        r#"{"templateID":"base","timeout":45,"secure":true,"allow_internet_access":true,"metadata":{"team":"a"},"envVars":{}}"#,
    ),
    ("py-e2b-2.63.0", r#"{"templateID":"base","metadata":{},"envVars":{}}"#),
    (
        "py-e2b-2.63.0",
        r#"{"templateID":"tpl-custom","timeout":120,"allow_internet_access":false,"metadata":{"team":"a b","user":"ü/1"},"envVars":{"FOO":"bar"}}"#,
    ),
    (
        "py-e2b-2.63.0",
        r#"{"templateID":"base","network":{"allowPublicTraffic":false,"allowOut":["1.1.1.1/32","api.example.com"],"denyOut":["0.0.0.0/0"],"maskRequestHost":"${PORT}-x.example.com"},"metadata":{},"envVars":{}}"#,
    ),
    (
        "py-e2b-2.63.0",
        r#"{"templateID":"base","autoPause":true,"autoResume":{"enabled":true},"metadata":{},"envVars":{}}"#,
    ),
    ("py-e2b-2.63.0", r#"{"templateID":"base","timeout":45,"metadata":{"team":"a"},"envVars":{}}"#),
];

fn labels() -> Labels {
    Labels {
        bucket: Bucket::parse("default/dev").unwrap(),
        owner: OwnerId::new("default.dev.-.r").unwrap(),
        ledger: LedgerId::new("0123456789abcdef").unwrap(),
        marker: Marker::new("0123456789abcdef0123456789abcdef").unwrap(),
    }
}

#[test]
fn every_recorded_create_gets_its_labels_and_keeps_all_else() {
    let names = LabelNames::new("");
    for (sdk, text) in CREATES {
        let body = CreateBody::read(&Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(body.left_to_cube, None, "{sdk} {text}");
        let edits = Edits { set_metadata: labels().pairs(&names), ..Edits::default() };
        let edited = body.edit(&edits);
        assert!(edited.overwritten.is_empty());
        let mut after: Value = serde_json::from_slice(&edited.body).unwrap();
        let metadata = serde_json::from_value(after["metadata"].clone()).unwrap();
        assert_eq!(Labels::read(&metadata, &names), Some(labels()), "{sdk} {text}");
        // without our labels it is what the client sent
        let before: Value = serde_json::from_str(text).unwrap();
        for (key, _) in labels().pairs(&names) {
            after["metadata"].as_object_mut().unwrap().remove(&key);
        }
        if before.get("metadata").is_none() {
            assert!(after["metadata"].as_object().unwrap().is_empty());
            after.as_object_mut().unwrap().remove("metadata");
        }
        assert_eq!(after, before, "{sdk}");
    }
}

#[test]
fn the_recorded_auto_pause_is_said_as_lifecycle_and_nothing_else_is() {
    for (sdk, text) in CREATES {
        let body = CreateBody::read(&Bytes::from_static(text.as_bytes())).unwrap();
        let said = lifecycle(&Compat::default(), &Profile::default(), &body);
        assert_eq!(said.is_some(), body.auto_pause == Some(true), "{sdk} {text}");
        assert!(said.is_none_or(|said| said.on_timeout == Some(OnTimeout::Pause)));
    }
}

#[test]
fn a_snapshot_that_an_sdk_creates_from_is_known_as_one() {
    let from = CREATES.iter().filter_map(|(_, text)| {
        let body = CreateBody::read(&Bytes::from_static(text.as_bytes())).unwrap();
        body.template_id.as_deref().and_then(snapshot_id).map(str::to_owned)
    });
    assert_eq!(from.collect::<Vec<_>>(), ["snap-1"]);
}

#[test]
fn every_recorded_path_is_the_call_that_the_sdk_means() {
    let id = "7c8fbcd45ffe450fb8f7fb223ad45507";
    for (request, name) in [
        ("GET /health", "pass"),
        ("GET /sandboxes", "sandbox_list"),
        ("POST /sandboxes", "sandbox_create"),
        ("DELETE /sandboxes/{id}", "sandbox_delete"),
        ("GET /sandboxes/{id}", "sandbox_get"),
        ("POST /sandboxes/{id}/connect", "sandbox_connect"),
        ("POST /sandboxes/{id}/fork", "ungoverned_write"),
        ("GET /sandboxes/{id}/metrics", "sandbox_metrics"),
        ("PUT /sandboxes/{id}/network", "sandbox_network"),
        ("POST /sandboxes/{id}/pause", "sandbox_pause"),
        ("POST /sandboxes/{id}/resume", "sandbox_resume"),
        ("POST /sandboxes/{id}/rollback", "sandbox_rollback"),
        ("POST /sandboxes/{id}/snapshots", "sandbox_snapshot"),
        ("POST /sandboxes/{id}/timeout", "sandbox_timeout"),
        ("GET /snapshots", "snapshot_list"),
        ("GET /templates", "template_read"),
        ("DELETE /templates/snap-1%3Adefault", "snapshot_delete"),
        ("DELETE /templates/snap-1:default", "snapshot_delete"),
        ("GET /v2/sandboxes", "sandbox_list"),
        ("POST /v2/sandboxes", "sandbox_create"),
        ("POST /v2/sandboxes/{id}/connect", "sandbox_connect"),
        ("GET /volumes", "volume_list"),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        let path = path.replace("{id}", id);
        assert_eq!(classify(&method.parse().unwrap(), &path).name(), name, "{request}");
    }
}

#[test]
fn every_recorded_list_query_is_understood_or_its_page_token_is_refused() {
    let item = |team: &str| {
        let metadata = serde_json::json!({"team": team, "u": "x&y"});
        let item = serde_json::json!({"sandboxID": "0".repeat(32), "state": "paused", "metadata": metadata});
        Listed::read(&item.to_string()).unwrap()
    };
    for text in [
        "metadata=team%3Da%252520b%26u%3Dx%252526y&state=running%2Cpaused&limit=2",
        "metadata=team%3Da%252520b%26u%3Dx%252526y&state=running,paused&limit=2",
    ] {
        let query = ListQuery::parse(Prefix::V2, text).unwrap();
        assert!(query.matches(&item("a b")) && !query.matches(&item("a  b")), "{text}");
    }
    let newer = "order=desc&startedAfter=2026-01-01T00%3A00%3A00%2B00%3A00&template=tpl-1&limit=5";
    assert!(ListQuery::parse(Prefix::V2, newer).unwrap().matches(&item("a")));
    assert!(ListQuery::parse(Prefix::V2, "nextToken=tok-page-2").is_err());
}
