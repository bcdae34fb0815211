//! A ledger as text: out of one store and into another, and what is wrong with it.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use cubewarden::ids::{InstanceId, Marker};
use cubewarden::ledger::moving::{self, ImportError};
use cubewarden::ledger::verify;
use cubewarden::store::embedded::Embedded;
use cubewarden::store::schema::lines::{self, Text};
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Appointment, Batch, Store};
use cubewarden::time::{ManualClock, UnixMillis};

use super::stage::{BODY, START};
use crate::cube::CubeSim;
use crate::support::faulty_store::{FaultyStore, When};
use crate::support::redis::RedisServer;
use crate::support::warden;

/// A ledger with entries in several states, tombstones, an idempotency record, an object, and decisions.
async fn lived_in(store: Arc<dyn Store>) {
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = warden::before(&cube.url()).store(store).without_tasks().start().await;
    let caller = warden.caller();
    let mut made = Vec::new();
    for number in 0..130 {
        made.push(caller.with("idempotency-key", &number.to_string()).create(BODY).await);
    }
    assert_eq!(caller.post(&format!("/sandboxes/{}/pause", made[0]), "").await.status, 204);
    assert_eq!(caller.post(&format!("/sandboxes/{}/snapshots", made[1]), "{}").await.status, 201);
    assert_eq!(caller.delete(&format!("/sandboxes/{}", made[2])).await.status, 204);
    warden.warden.finish().await;
}

fn memory() -> Arc<dyn Store> {
    Arc::new(Embedded::in_memory(Arc::new(ManualClock::at(START))).unwrap())
}

async fn exported(store: &dyn Store) -> Text {
    let text = moving::export(store).await.unwrap();
    assert_eq!(lines::read(&lines::write(&text)).unwrap(), text);
    text
}

async fn problems(store: &dyn Store) -> Vec<String> {
    let problems = verify::problems(&moving::content(store).await.unwrap());
    problems.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_moves_to_redis_and_back_and_is_the_same_byte_by_byte() {
    let (first, server) = (memory(), RedisServer::start());
    lived_in(Arc::clone(&first)).await;
    let text = exported(first.as_ref()).await;
    assert!(text.records.len() > 390 && text.decisions.len() > 260 && text.records[0].0 == "meta");
    let redis = server.store().await;
    moving::import(redis.as_ref(), &text).await.unwrap();
    assert_eq!(exported(redis.as_ref()).await, text);
    let last = memory();
    moving::import(last.as_ref(), &exported(redis.as_ref()).await).await.unwrap();
    assert_eq!(exported(last.as_ref()).await, text);
    let [was, there, back] = [first.as_ref(), redis.as_ref(), last.as_ref()];
    assert_eq!(moving::content(was).await.unwrap(), moving::content(there).await.unwrap());
    assert_eq!(moving::content(was).await.unwrap(), moving::content(back).await.unwrap());
    assert_eq!(problems(there).await, [] as [&str; 0]);

    // Not on top of another, not even of itself.
    for full in [there, back] {
        let refused = moving::import(full, &text).await.unwrap_err();
        assert!(matches!(refused, ImportError::NotEmpty(_)), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_was_broken_off_is_no_ledger_and_goes_on_with_the_same_text_only() {
    let first = memory();
    lived_in(Arc::clone(&first)).await;
    let text = exported(first.as_ref()).await;
    let below = memory();
    for broken_off_at in 1..=5 {
        let store = FaultyStore::wrap(Arc::clone(&below));
        store.lose_reply(When::Nth(broken_off_at));
        assert!(moving::import(store.as_ref(), &text).await.is_err());
        let opened = cubewarden::ledger::Ledger::open(
            Arc::clone(&below),
            cubewarden::ledger::Settings {
                upstream: cubewarden::ids::UpstreamName::new("cube").unwrap(),
                timing: cubewarden::rules::entry::Timing::default(),
            },
            cubewarden::time::Chance::seeded(1),
        );
        assert!(opened.await.unwrap_err().to_string().contains("not finished"));
        let other = Text { decisions: Vec::new(), ..text.clone() };
        assert!(matches!(moving::import(below.as_ref(), &other).await, Err(ImportError::Another)));
    }
    moving::import(below.as_ref(), &text).await.unwrap();
    assert_eq!(exported(below.as_ref()).await, text);
    assert_eq!(problems(below.as_ref()).await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_wrong_is_named_by_its_key_with_what_to_do() {
    let store = memory();
    lived_in(Arc::clone(&store)).await;
    assert_eq!(problems(store.as_ref()).await, [] as [&str; 0]);
    let content = moving::content(store.as_ref()).await.unwrap();
    let entries: Vec<Marker> =
        content.sets["slots"].iter().map(|member| Marker::new(member).unwrap()).collect();
    let due = content.appointments[entries[3].as_str()];
    let index = content
        .records
        .iter()
        .find(|(key, value)| key.starts_with("s:") && **value == *entries[5].as_str().as_bytes());
    let nobody = "f".repeat(32);
    let named = |name: &str| Key::Named(name.to_owned());
    let spoil = Batch {
        put: vec![
            (Key::Entry(entries[0].clone()), b"{}".to_vec()),
            (Key::Entry(entries[1].clone()), content.records[&format!("e:{}", entries[2])].clone()),
            (named("surprise"), b"x".to_vec()),
            (named(&format!("s:{nobody}")), nobody.clone().into_bytes()),
            (named("o:snapshot:x"), b"[]".to_vec()),
            (Key::Instance(InstanceId::new("0123456789abcdef").unwrap()), b"{\"at\":1}".to_vec()),
        ],
        remove: vec![named(index.unwrap().0)],
        join: vec![(Set::AllState("killing"), nobody.clone())],
        leave: vec![(Set::AllSlots, entries[4].to_string())],
        appointments: vec![
            Appointment { member: entries[3].to_string(), was: Some(due), is: Some(UnixMillis(5)) },
            Appointment { member: nobody.clone(), was: None, is: Some(UnixMillis(5)) },
        ],
        ..Batch::default()
    };
    store.commit(spoil).await.unwrap();
    let said = problems(store.as_ref()).await;
    for start in [
        format!("e:{}: missing field", entries[0]),
        format!("e:{}: it holds the entry of the marker {}", entries[1], entries[2]),
        "surprise: no version".to_owned(),
        format!("s:{nobody}: it names the entry e:{nobody}, which is not there"),
        "o:snapshot:x: ".to_owned(),
        "instances: 0123456789abcdef is missing from it".to_owned(),
        format!("e:{}: it holds a slot for the sandbox", entries[5]),
        format!("state:killing: {nobody} is in it"),
        format!("slots: {} is missing from it", entries[4]),
        format!("e:{}: it is to be looked at", entries[3]),
        format!("e:{nobody}: it has an appointment"),
    ] {
        assert!(
            said.iter().any(|line| line.starts_with(&start) && line.contains("; ")),
            "{start} in {said:#?}"
        );
    }
}

fn cubewarden(words: &[&str], config: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cubewarden"));
    command.args(words).arg("--config").arg(config).env_clear().output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_moves_a_ledger_and_says_by_its_exit_code_whether_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let config = |name: &str| {
        let file = dir.path().join(format!("{name}.toml"));
        let path = dir.path().join(name);
        std::fs::write(&file, format!("[store]\npath = \"{}\"\n", path.display())).unwrap();
        file
    };
    let (from, to) = (config("from"), config("to"));
    let open = |name: &str| Embedded::open(&dir.path().join(name), Arc::new(ManualClock::at(START))).unwrap();
    lived_in(Arc::new(open("from"))).await;
    let file = dir.path().join("ledger.jsonl");
    let file = file.to_str().unwrap();
    // The last connection may hold it a moment longer.
    let mut exported = cubewarden(&["ledger", "export", "--output", file], &from);
    for _ in 0..200 {
        if exported.status.success() {
            break;
        }
        assert!(String::from_utf8_lossy(&exported.stderr).contains("in use"), "{exported:?}");
        exported = cubewarden(&["ledger", "export", "--output", file], &from);
    }
    assert!(exported.status.success(), "{exported:?}");
    assert!(cubewarden(&["ledger", "import", file], &to).status.success());
    let verified = cubewarden(&["ledger", "verify"], &to);
    assert!(
        verified.status.success() && String::from_utf8_lossy(&verified.stdout).ends_with(" 0 problems\n")
    );
    let again = cubewarden(&["ledger", "import", file], &to);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("holds a ledger already"), "{again:?}");
    assert_eq!(cubewarden(&["ledger", "export"], &to).stdout, std::fs::read(file).unwrap());

    let text = std::fs::read_to_string(file).unwrap();
    std::fs::write(dir.path().join("bad"), text.replacen("\"kind\":\"entry\"", "\"kind\":entry", 1)).unwrap();
    let bad = cubewarden(&["ledger", "import", dir.path().join("bad").to_str().unwrap()], &config("empty"));
    assert_eq!(bad.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("line 3"), "{bad:?}");
    let store = open("to");
    store
        .commit(Batch { put: vec![(Key::Named("surprise".into()), vec![1])], ..Batch::default() })
        .await
        .unwrap();
    drop(store);
    let verified = cubewarden(&["ledger", "verify"], &to);
    assert_eq!(verified.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&verified.stdout).starts_with("surprise: "), "{verified:?}");
}
