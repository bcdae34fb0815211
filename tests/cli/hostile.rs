//! What clients and operators may write, and how much of it.

use std::sync::Arc;

use cubewarden::ids::{Bucket, OwnerId, SandboxId};
use cubewarden::ledger::Import;
use cubewarden::rules::entry::{Activity, Origin, Shape};
use serde_json::{Value, json};

use super::{Served, cubewarden, said};
use crate::cube::CubeSim;
use crate::support::warden::before;

const TEMPLATE: &str = "tpl-000000000000000000000001";
const NASTY: &str = "\u{1b}[2J\u{9b}31m\u{1b}]0;title\u{7}\u{202e}evil\r\n\u{0}\u{200b}\u{feff}";

/// Nothing that a terminal would obey but the ends of lines.
fn is_harmless(text: &str) -> bool {
    !text
        .chars()
        .any(|c| (c.is_control() && c != '\n') || ('\u{200b}'..='\u{206f}').contains(&c) || c == '\u{feff}')
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_client_or_an_operator_reaches_the_terminal_as_a_command() {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = before(&cube.url()).without_tasks().start().await;
    let admin = Served::of(&warden).await;
    let metadata = json!({ "project": NASTY, "run": NASTY, NASTY: NASTY, "owner": "\u{202e}" });
    let body = json!({ "templateID": TEMPLATE, "timeout": 300, "metadata": metadata }).to_string();
    let id = warden.caller().create(&body).await;
    let owner = warden.entries().await[0].owner.to_string();
    let hold = ["hold", &id, "--reason", "\u{1b}[31mred\u{202e}\nkept: forged"];
    said(&cubewarden(&admin.url(), &hold, &[]).await);
    let commands: [&[&str]; 7] = [
        &["ls", "sandboxes"],
        &["ls", "sandboxes", "--json"],
        &["explain", &id],
        &["explain", &id, "--json"],
        &["explain", &owner],
        &["decisions"],
        &["decisions", "--json"],
    ];
    for args in commands {
        let text = said(&cubewarden(&admin.url(), args, &[]).await);
        assert!(is_harmless(&text), "{args:?}: {text:?}");
        assert!(text.lines().all(|line| !line.starts_with("kept: forged")), "{args:?}: {text}");
        if args.contains(&"--json") && args[0] != "decisions" {
            serde_json::from_str::<Value>(&text).unwrap();
        }
    }
    let json = said(&cubewarden(&admin.url(), &["ls", "sandboxes", "--json"], &[]).await);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sandboxes"][0]["metadata"]["project"], NASTY, "the same data all the same");
    let missing = cubewarden(&admin.url(), &["explain", "\u{1b}[2J"], &[]).await;
    let complaint = String::from_utf8(missing.stderr).unwrap();
    assert!(!missing.status.success() && is_harmless(&complaint), "{complaint:?}");
}

fn import(number: u32) -> Import {
    Import {
        sandbox: SandboxId::new(&format!("{number:032x}")).unwrap(),
        marker: None,
        bucket: Bucket::parse("default/dev").unwrap(),
        owner: OwnerId::new("default.dev.p.r").unwrap(),
        template: TEMPLATE.to_owned(),
        shape: Shape::default(),
        activity: Activity::Running,
        origin: Origin::Imported,
        deadline: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_sandboxes_are_listed_without_a_gap() {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = before(&cube.url()).without_tasks().start().await;
    // Many at once: the ledger writes them together.
    let imports = (0..10_000_u32).map(|number| {
        let ledger = Arc::clone(&warden.warden.ledger);
        tokio::spawn(async move { ledger.import(&import(number)).await.unwrap() })
    });
    for import in imports.collect::<Vec<_>>() {
        import.await.unwrap();
    }
    let admin = Served::of(&warden).await;
    let text = said(&cubewarden(&admin.url(), &["ls", "sandboxes"], &[]).await);
    let mut ids: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 10_000);
}
