//! The shadow report: what enforcing would have refused, changed and ended, and how often wrongly.

use std::time::Duration;

use cubewarden::ledger::{Began, Beginning, Decision};
use cubewarden::rules::delete::{Reach, Shown};
use cubewarden::rules::entry::Effect;
use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};

use super::{TEMPLATE, view};
use crate::cube::CubeSim;
use crate::support::warden::{Running, before};

const CONFIG: &str = "mode = \"shadow\"\n[bucket_defaults]\nlimit = 1\nmax_timeout = \"5m\"\n";

async fn create(warden: &Running, timeout: u32) {
    warden.caller().create(&json!({ "templateID": TEMPLATE, "timeout": timeout }).to_string()).await;
}

/// Somebody uses a sandbox.
async fn use_it(warden: &Running, number: usize) {
    let (ledger, entries) = (&warden.warden.ledger, warden.entries().await);
    let nothing = Shown::nothing();
    let call =
        Beginning { kind: "connect", budget: Duration::from_secs(1), reach: Reach::Joins, shown: &nothing };
    let began = ledger.begin(&entries[number].marker, call).await.unwrap();
    let Began::Registered(operation) = began else { panic!("{began:?}") };
    ledger.end(&entries[number].marker, &operation, Effect::None).await.unwrap();
}

#[tokio::test]
async fn the_report_counts_what_would_have_been_and_what_would_have_been_wrong() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let warden = before(&cube.url()).config(CONFIG).clock(&clock).without_tasks().start().await;
    let empty = view(&warden, "/v1/admin/shadow").await;
    assert_eq!((&empty["since"], &empty["would_refuse"]["total"]), (&Value::Null, &json!(0)));
    create(&warden, 60).await;
    for _ in 0..6 {
        create(&warden, 3600).await;
    }
    let entries = warden.entries().await;
    // As in each cycle anew: it would have ended in the first.
    for _ in 0..2 {
        for entry in &entries[..2] {
            warden.warden.ledger.note(Decision::about(entry, "would_condemn", "retention"));
        }
        warden.warden.ledger.write_notes().await.unwrap();
        clock.advance(Duration::from_secs(60));
    }
    use_it(&warden, 1).await;
    let report = view(&warden, "/v1/admin/shadow").await;
    assert_eq!(report["enforces"], false);
    assert_eq!(report["would_refuse"]["by_reason"], json!({ "CAPACITY_EXCEEDED": 6 }), "also the uncounted");
    assert_eq!(report["would_change"]["by_reason"], json!({ "max_timeout": 6 }));
    assert_eq!(report["would_end"]["by_reason"], json!({ "retention": 2 }));
    assert_eq!((&report["would_end_wrongly"], &report["would_end_forgotten"]), (&json!(1), &json!(0)));
    assert_eq!(report["wrong"][0]["marker"], entries[1].marker.as_str());
    let later = view(&warden, "/v1/admin/shadow?since=2100-01-01T00:00:00Z").await;
    assert_eq!(later["would_refuse"]["total"], 0);
}
