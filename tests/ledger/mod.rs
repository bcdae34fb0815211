//! The ledger's verbs on an in-memory store, where a story needs no Cube.

mod memory;

use std::sync::Arc;

use cubewarden::ids::{Bucket, Marker, ObjectKind, OwnerId, SandboxId, UpstreamName};
use cubewarden::ledger::{Ask, Condemned, IdempotencyKey, Ledger, Limits, Reserved, Settings};
use cubewarden::rules::delete::Shown;
use cubewarden::rules::entry::{Actor, Birth, Entry, State, Timing};
use cubewarden::store::Store;
use cubewarden::store::embedded::Embedded;
use cubewarden::time::{Chance, ManualClock, UnixMillis};

const ID: &str = "0cbc7f6b7af7453fac450e3313bcc679";

fn bucket(text: &str) -> Bucket {
    Bucket::parse(text).expect("a bucket of the test is well formed")
}

fn store(clock: &ManualClock) -> Arc<dyn Store> {
    Arc::new(Embedded::in_memory(Arc::new(clock.clone())).expect("an in-memory store opens"))
}

fn clock() -> ManualClock {
    ManualClock::at(UnixMillis(1_800_000_000_000))
}

async fn open(store: &Arc<dyn Store>, upstream: &str) -> Ledger {
    let upstream = UpstreamName::new(upstream).expect("the name is well formed");
    let settings = Settings { upstream, timing: Timing::default() };
    Ledger::open(Arc::clone(store), settings, Chance::seeded(7)).await.expect("the ledger opens")
}

/// A create that has gone upstream.
async fn dispatched(ledger: &Ledger, key: Option<IdempotencyKey>) -> Marker {
    let ask = ask(ledger, key);
    let reserved = ledger.reserve(&ask, Limits::default()).await.expect("the store works");
    assert!(matches!(reserved, Reserved::Slot(_)), "{reserved:?}");
    ledger.dispatch(&ask.marker).await.expect("the store works").expect("it was reserved");
    ask.marker
}

fn ask(ledger: &Ledger, key: Option<IdempotencyKey>) -> Ask {
    Ask {
        marker: ledger.new_marker(),
        bucket: bucket("a/prod"),
        owner: OwnerId::new("a.prod.-.r").expect("the owner is well formed"),
        tenant: None,
        template: "tpl".into(),
        metadata: None,
        key,
        request: None,
        lease: None,
    }
}

fn birth() -> Birth {
    Birth { sandbox: SandboxId::new(ID).expect("it is one"), answer: Some("{}".into()), deadline: None }
}

async fn entry(ledger: &Ledger, marker: &Marker) -> Entry {
    ledger.entry(marker).await.expect("the store works").expect("the entry is there")
}

#[tokio::test]
async fn what_the_reconciler_found_first_waits_for_no_claim_once_its_client_has_the_answer() {
    let clock = clock();
    let ledger = open(&store(&clock), "cube").await;
    let key = IdempotencyKey::new(None, "k", &[b"body"]);
    let marker = dispatched(&ledger, Some(key)).await;
    ledger.lost(&marker, "the clock jumped").await.expect("the store works");
    ledger.found(&marker, &Birth { answer: None, ..birth() }).await.expect("the store works");
    assert!(entry(&ledger, &marker).await.claim_until.is_some());
    let answered = ledger.done(&marker, &birth(), None).await.expect("the store works").expect("it is there");
    assert!(answered.usable());
    let kept = entry(&ledger, &marker).await;
    assert_eq!((kept.claim_until, kept.due, kept.answer.as_deref()), (None, None, Some("{}")));
}

#[tokio::test]
async fn a_create_that_nobody_awaits_is_condemned_in_the_commit_in_which_it_is_born() {
    let clock = clock();
    let ledger = open(&store(&clock), "cube").await;
    let marker = dispatched(&ledger, None).await;
    let before = ledger.decisions(0, 100).await.expect("the store works").len();
    ledger.done_for_nobody(&marker, &birth()).await.expect("the store works");
    let State::Killing(kill) = entry(&ledger, &marker).await.state else { panic!("it is not condemned") };
    assert_eq!(kill.actor, Actor::Abandoned);
    assert_eq!(ledger.decisions(0, 100).await.expect("the store works").len(), before + 1);
}

#[tokio::test]
async fn an_entry_of_another_cube_is_charged_and_neither_found_nor_judged() {
    let clock = clock();
    let store = store(&clock);
    let first = open(&store, "first").await;
    let marker = dispatched(&first, None).await;
    let soon = Birth { deadline: Some(UnixMillis(1_800_000_000_001)), ..birth() };
    first.done(&marker, &soon, None).await.expect("the store works");
    clock.advance(std::time::Duration::from_secs(3600));
    let second = open(&store, "second").await;
    let id = SandboxId::new(ID).expect("it is one");
    assert_eq!(second.find(&id).await.expect("the store works"), None);
    assert!(second.due(10).await.expect("the store works").1.is_empty());
    assert!(second.past_deadline(None, 10).await.expect("the store works").is_empty());
    assert!(second.charged_here().await.expect("the store works").0.is_empty());
    assert_eq!(second.counts(&[]).await.expect("the store works").all.held(), 1);
    assert_eq!(first.due(10).await.expect("the store works").1.len(), 1);
}

#[tokio::test]
async fn a_name_that_is_made_anew_belongs_to_its_maker_and_a_late_forget_does_not_take_it_away() {
    let clock = clock();
    let ledger = open(&store(&clock), "cube").await;
    let (a, b) = (bucket("a/prod"), bucket("b/prod"));
    let whose = || ledger.object_bucket(ObjectKind::Volume, "data");
    ledger.record_object(ObjectKind::Volume, "data", &a).await.expect("the store works");
    // Its delete went round the warden; the name came free and somebody else took it.
    ledger.record_object(ObjectKind::Volume, "data", &b).await.expect("the store works");
    assert_eq!(whose().await.expect("the store works"), Some(b.clone()));
    let of_a = |bucket: &Bucket| *bucket == a;
    ledger.forget_object(ObjectKind::Volume, "data", of_a).await.expect("the store works");
    assert_eq!(whose().await.expect("the store works"), Some(b.clone()));
    ledger.forget_object(ObjectKind::Volume, "data", |bucket| *bucket == b).await.expect("the store works");
    assert_eq!(whose().await.expect("the store works"), None);
}

#[tokio::test]
async fn a_stale_generation_ends_nothing_and_is_written_down() {
    let clock = clock();
    let ledger = open(&store(&clock), "cube").await;
    let marker = dispatched(&ledger, None).await;
    let live = ledger.done(&marker, &birth(), None).await.expect("the store works").expect("it is there");
    let stale = cubewarden::ids::Generation(live.generation.0 - 1);
    let condemned =
        ledger.condemn(&marker, Actor::Client, &Shown::of_generation(Some(stale)), "DELETE").await;
    assert_eq!(condemned.expect("the store works"), Condemned::Fenced);
    assert!(entry(&ledger, &marker).await.usable());
    let log = ledger.decisions(0, 100).await.expect("the store works");
    assert!(log.iter().any(|(_, text)| text.contains("\"fenced\"")));
}
