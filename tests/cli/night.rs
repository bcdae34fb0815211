//! The bad night: who deleted my sandbox, why is this one still there, why was I refused; with the real program.

use std::time::Duration;

use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::{Value, json};

use super::{Served, complained, cubewarden, said};
use crate::cube::CubeSim;
use crate::support::warden::before;

const TEMPLATE: &str = "tpl-000000000000000000000001";
const FULL: &str =
    "[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 2\n[admission]\nwait = \"0s\"\n";

fn body(run: &str) -> String {
    json!({ "templateID": TEMPLATE, "timeout": 300, "metadata": { "project": "p", "run": run } }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_questions_at_three_in_the_morning_have_answers() {
    let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
    let cube = CubeSim::builder().clock(clock.clone()).start().await.unwrap();
    let warden = before(&cube.url()).config(FULL).clock(&clock).without_tasks().start().await;
    let admin = Served::of(&warden).await;
    let caller = |request: &str| warden.caller().with("x-request-id", request);
    let one = caller("req-a").create(&body("one")).await;
    let two = caller("req-b").create(&body("two")).await;
    assert_eq!(caller("req-c").post("/sandboxes", &body("three")).await.status, 429);
    assert_eq!(caller("req-d").delete(&format!("/sandboxes/{one}")).await.status, 204);
    assert_eq!(warden.caller().post(&format!("/sandboxes/{two}/pause"), "").await.status, 204);
    clock.advance(Duration::from_secs(21 * 3600));
    warden.warden.ledger.write_notes().await.unwrap();

    let explain = async |name: &str| said(&cubewarden(&admin.url(), &["explain", name], &[]).await);
    // Why was I refused?
    let text = explain("req-c").await;
    assert!(text.starts_with("refused: the call was refused with CAPACITY_EXCEEDED: "), "{text}");
    assert!(text.contains("limit 3 for bucket default/dev would have admitted it"), "{text}");
    // Why is this one still there?
    let text = explain(&two).await;
    assert!(text.starts_with("kept: no root keeps it, and its bucket keeps paused ones for ever"), "{text}");
    assert!(text.contains("retention 24h for bucket default/dev would collect it in 3h"), "{text}");
    let json = said(&cubewarden(&admin.url(), &["explain", "--json", &two], &[]).await);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["verdict"], &json["sandbox"]["sandbox_id"]), (&json!("kept"), &json!(two)));
    let paused = json["evidence"].as_array().unwrap().iter().find(|piece| piece["what"] == "state").unwrap();
    assert!(paused["source"] == "ledger" && paused["age_s"].as_u64() > Some(20 * 3600), "{paused}");
    // What does its owner have?
    let text = explain("default.dev.p.two").await;
    assert!(text.starts_with("admitted: one more create in bucket default/dev would find a slot"), "{text}");
    assert!(text.contains(&format!("\nsandbox {two}\nkept: ")), "{text}");
    // Who deleted my sandbox? Also when the ledger has long forgotten it.
    clock.advance(Duration::from_secs(30 * 24 * 3600));
    warden.warden.tasks.tick_due().await.unwrap();
    assert_eq!(
        warden.warden.ledger.find(&cubewarden::ids::SandboxId::new(&one).unwrap()).await.unwrap(),
        None
    );
    for name in [one.as_str(), "req-d", "req-a"] {
        let text = explain(name).await;
        assert!(text.starts_with("ended: client wanted its end"), "{name}: {text}");
        assert!(text.contains("req-d"), "{name}: {text}");
    }
    let owner = explain("default.dev.p.one").await;
    assert!(owner.starts_with("ended: "), "{owner}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_go_from_the_command_line_to_the_end_of_a_sandbox() {
    let cube = CubeSim::builder().start().await.unwrap();
    let plan = before(&cube.url()).env("T", "s3cret").config("[admin]\ntoken_env = \"T\"\n");
    let warden = plan.without_tasks().start().await;
    let admin = Served::of(&warden).await;
    let id = warden.caller().create(&body("one")).await;
    let no_token = cubewarden(&admin.url(), &["ls"], &[]).await;
    assert!(complained(&no_token).contains("CUBEWARDEN_ADMIN_TOKEN"));
    let token = [("CUBEWARDEN_ADMIN_TOKEN", "s3cret")];
    let run = async |args: &[&str]| said(&cubewarden(&admin.url(), args, &token).await);
    assert!(run(&["ls", "sandboxes"]).await.contains(&id));
    assert!(run(&["hold", &id, "--reason", "evidence"]).await.contains("is kept until"));
    assert!(run(&["explain", &id]).await.contains("cubewarden unhold"));
    run(&["unhold", &id]).await;
    let generation = warden.entries().await[0].generation.0;
    let stale = (generation - 1).to_string();
    let refused = cubewarden(&admin.url(), &["kill", &id, "--generation", &stale], &token).await;
    assert!(complained(&refused).contains(&generation.to_string()));
    run(&["kill", &id, "--generation", &generation.to_string()]).await;
    warden.warden.tasks.tick_due().await.unwrap();
    warden.warden.finish().await;
    assert_eq!(warden.held().await, 0);
    let log = run(&["decisions", "--sandbox", &id]).await;
    let kinds: Vec<_> = log.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(kinds, ["live", "held", "unheld", "fenced", "condemned", "gone"]);
    let recent = run(&["decisions", "--kind", "gone", "--since", "1h"]).await;
    assert_eq!(recent.lines().count(), 2, "{recent}");
    let plan = cubewarden(&admin.url(), &["plan"], &token).await;
    assert!(plan.status.success() || complained(&plan).contains("no collector"));
}

#[tokio::test]
async fn where_no_warden_is_the_complaint_says_what_to_do() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = cubewarden(&format!("http://{nobody}"), &["ls"], &[]).await;
    assert!(complained(&output).contains("--admin or CUBEWARDEN_ADMIN"));
}
