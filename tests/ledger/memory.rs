//! What a warden has in hand of an entry may be old: another warden has moved it meanwhile. And what all this saves.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Generation, Marker, SandboxId, UpstreamName};
use cubewarden::ledger::{
    Began, Beginning, Condemned, Import, Imported, KillReport, Ledger, Limits, Reserved, Settings,
};
use cubewarden::rules::delete::{Reach, Shown};
use cubewarden::rules::entry::{Activity, Actor, Birth, Effect, Entry, Origin, Proof, Shape, State, Timing};
use cubewarden::store::Store;
use cubewarden::time::{Chance, ManualClock};

use super::{ID, ask, birth, bucket, clock, entry, store};
use crate::support::faulty_store::{FaultyStore, When};

const BUDGET: Duration = Duration::from_secs(45);

/// Two wardens on one ledger. The first's requests are counted.
struct Two {
    clock: ManualClock,
    store: Arc<FaultyStore>,
    one: Ledger,
    other: Ledger,
}

async fn ledger(store: Arc<dyn Store>, seed: u64) -> Ledger {
    let settings = Settings { upstream: UpstreamName::new("cube").unwrap(), timing: Timing::default() };
    Ledger::open(store, settings, Chance::seeded(seed)).await.unwrap()
}

impl Two {
    async fn start() -> Self {
        let clock = clock();
        let below = store(&clock);
        let store = FaultyStore::wrap(below.clone());
        let (one, other) = (ledger(store.clone(), 1).await, ledger(below, 2).await);
        Self { clock, store, one, other }
    }

    /// A create that the first warden has sent.
    async fn sent(&self) -> Marker {
        let ask = ask(&self.one, None);
        let reserved = self.one.reserve_dispatched(&ask, Limits::default()).await.unwrap();
        assert!(
            matches!(&reserved, Reserved::Slot(entry) if entry.state == State::Dispatched),
            "{reserved:?}"
        );
        ask.marker
    }

    /// A sandbox that lives, and is old enough for its absence to be believed.
    async fn live(&self) -> Marker {
        let marker = self.sent().await;
        self.one.done(&marker, &birth(), None).await.unwrap();
        self.clock.advance(Duration::from_secs(200));
        marker
    }

    /// The first warden takes it in hand.
    async fn find(&self) -> Entry {
        self.one.find(&id()).await.unwrap().unwrap()
    }

    /// How often `work` asks the store: commits, and all else.
    async fn asked<T>(&self, work: impl Future<Output = T>) -> (T, u64, u64) {
        let (commits, touches) = (self.store.commits(), self.store.touches());
        let done = work.await;
        let commits = self.store.commits() - commits;
        (done, commits, self.store.touches() - touches - commits)
    }
}

fn id() -> SandboxId {
    SandboxId::new(ID).unwrap()
}

fn connect(shown: &Shown) -> Beginning<'_> {
    Beginning { kind: "connect", budget: BUDGET, reach: Reach::Joins, shown }
}

async fn begin(ledger: &Ledger, marker: &Marker) -> cubewarden::ids::OperationId {
    match ledger.begin(marker, connect(&Shown::nothing())).await.unwrap() {
        Began::Registered(operation) => operation,
        other => panic!("it lives: {other:?}"),
    }
}

#[tokio::test]
async fn a_create_takes_two_commits_a_delete_one_read_and_two_commits() {
    let two = Two::start().await;
    let (marker, commits, reads) = two.asked(two.sent()).await;
    assert_eq!((commits, reads), (1, 0));
    let (_, commits, reads) = two.asked(two.one.done(&marker, &birth(), None)).await;
    assert_eq!((commits, reads), (1, 0));
    let delete = async {
        let marker = two.find().await.marker;
        two.one.condemn(&marker, Actor::Client, &Shown::nothing(), "DELETE").await.unwrap();
        let condemned = two.one.condemned(&marker).await.unwrap().unwrap();
        assert!(condemned.kill().is_some());
        two.one.kill_tried(&condemned, KillReport::Proof(Proof::Deleted), "").await.unwrap().unwrap()
    };
    let (gone, commits, reads) = two.asked(delete).await;
    assert!(!gone.charged());
    assert_eq!((commits, reads), (2, 1));
    // A call: find, begin, end.
    let two = Two::start().await;
    let marker = two.live().await;
    let call = async {
        two.find().await;
        let operation = begin(&two.one, &marker).await;
        two.one.end(&marker, &operation, Effect::Running).await.unwrap()
    };
    let (_, commits, reads) = two.asked(call).await;
    assert_eq!((commits, reads), (2, 1));
}

#[tokio::test]
async fn a_condemnation_of_what_moved_meanwhile_loses_nothing_of_what_another_wrote() {
    let two = Two::start().await;
    let marker = two.live().await;
    two.find().await;
    let operation = begin(&two.other, &marker).await;
    let nothing = Shown::nothing();
    let condemn = two.one.condemn(&marker, Actor::Client, &nothing, "DELETE");
    let (condemned, commits, reads) = two.asked(condemn).await;
    assert_eq!((condemned.unwrap(), commits, reads), (Condemned::Yes, 2, 1));
    let now = entry(&two.other, &marker).await;
    assert!(now.kill().is_some());
    assert_eq!(now.operations.iter().map(|one| &one.id).collect::<Vec<_>>(), [&operation]);
}

#[tokio::test]
async fn nobody_is_refused_on_the_strength_of_what_is_remembered() {
    let two = Two::start().await;
    let marker = two.live().await;
    let operation = begin(&two.other, &marker).await;
    assert_eq!(two.find().await.operations.len(), 1);
    two.other.end(&marker, &operation, Effect::Running).await.unwrap();
    // By what it has in hand a call is under way, and recovery would have to wait.
    let condemned = two.one.condemn(&marker, Actor::Recovery, &Shown::nothing(), "nobody claimed it").await;
    assert_eq!(condemned.unwrap(), Condemned::Yes);
}

#[tokio::test]
async fn what_another_has_condemned_takes_no_call_and_is_condemned_once() {
    let two = Two::start().await;
    let marker = two.live().await;
    two.find().await;
    two.other.condemn(&marker, Actor::Recovery, &Shown::nothing(), "by hand").await.unwrap();
    assert!(matches!(two.one.begin(&marker, connect(&Shown::nothing())).await.unwrap(), Began::Dead));
    two.find().await;
    assert_eq!(
        two.one.condemn(&marker, Actor::Client, &Shown::nothing(), "DELETE").await.unwrap(),
        Condemned::Yes
    );
    assert_eq!(entry(&two.other, &marker).await.kill().unwrap().actor, Actor::Recovery);
}

#[tokio::test]
async fn a_stale_generation_stays_fenced_whatever_is_remembered() {
    let two = Two::start().await;
    let marker = two.live().await;
    let live = two.find().await;
    begin(&two.other, &marker).await;
    let stale = Shown::of_generation(Some(Generation(live.generation.0 - 1)));
    let condemned = two.one.condemn(&marker, Actor::Client, &stale, "DELETE").await.unwrap();
    assert_eq!(condemned, Condemned::Fenced);
    assert_eq!(entry(&two.other, &marker).await.operations.len(), 1);
}

#[tokio::test]
async fn the_end_of_a_call_leaves_the_other_calls_and_a_condemnation_as_they_are() {
    let two = Two::start().await;
    let marker = two.live().await;
    two.find().await;
    let mine = begin(&two.one, &marker).await;
    let other = begin(&two.other, &marker).await;
    let ended = two.one.end(&marker, &mine, Effect::Paused).await.unwrap().unwrap();
    assert_eq!(ended.operations.iter().map(|one| &one.id).collect::<Vec<_>>(), [&other]);
    assert!(ended.paused_since().is_some());

    let mine = begin(&two.one, &marker).await;
    two.other.condemn(&marker, Actor::Client, &Shown::nothing(), "DELETE").await.unwrap();
    let ended = two.one.end(&marker, &mine, Effect::Running).await.unwrap().unwrap();
    assert!(!ended.usable(), "from killing there is no way back");
    assert!(entry(&two.other, &marker).await.kill().is_some());
}

#[tokio::test]
async fn a_birth_finds_out_what_the_reconciler_of_another_warden_made_of_it() {
    // Taken over, found, and claimable no longer: condemned.
    let two = Two::start().await;
    let marker = two.sent().await;
    two.other.lost(&marker, "its warden was silent").await.unwrap();
    two.other.found(&marker, &Birth { answer: None, ..birth() }).await.unwrap();
    let (born, commits, reads) = two.asked(two.one.done(&marker, &birth(), None)).await;
    assert!(born.unwrap().unwrap().kill().is_some());
    assert_eq!((commits, reads), (1, 1));

    // Given up for lost by one, and found by the other, which had it in hand as sent.
    let two = Two::start().await;
    let marker = two.sent().await;
    two.other.lost(&marker, "its warden was silent").await.unwrap();
    assert!(two.one.found(&marker, &birth()).await.unwrap().unwrap().kill().is_some());

    // Given up for lost, and not found yet.
    let two = Two::start().await;
    let marker = two.sent().await;
    two.other.lost(&marker, "its warden was silent").await.unwrap();
    assert!(two.one.done(&marker, &birth(), None).await.unwrap().unwrap().usable());

    // Taken for one that was made round the warden: that record gives way.
    let two = Two::start().await;
    let marker = two.sent().await;
    let round = Import {
        sandbox: id(),
        marker: None,
        bucket: bucket("b/prod"),
        owner: super::OwnerId::new("b.prod.-.r").unwrap(),
        template: "tpl".into(),
        shape: Shape::default(),
        activity: Activity::Running,
        origin: Origin::Round,
        deadline: None,
    };
    assert_eq!(two.other.import(&round).await.unwrap(), Imported::Yes);
    assert!(two.one.done(&marker, &birth(), None).await.unwrap().unwrap().usable());
    assert_eq!(two.find().await.marker, marker);
    assert_eq!(two.other.counts(&[]).await.unwrap().all.held(), 1);
}

#[tokio::test]
async fn a_try_to_kill_what_another_has_proven_gone_changes_nothing() {
    for report in [KillReport::Proof(Proof::DeleteNotFound), KillReport::Failed] {
        let two = Two::start().await;
        let marker = two.live().await;
        two.find().await;
        two.one.condemn(&marker, Actor::Client, &Shown::nothing(), "DELETE").await.unwrap();
        two.other
            .kill_tried(&entry(&two.other, &marker).await, KillReport::Proof(Proof::Deleted), "")
            .await
            .unwrap();
        let gone = entry(&two.other, &marker).await;
        assert_eq!(two.one.kill_tried(&gone, report, "").await.unwrap(), None);
        assert_eq!(entry(&two.other, &marker).await, gone);
        assert!(matches!(gone.state, State::Gone { proof: Proof::Deleted, .. }));
        assert_eq!(two.one.condemned(&marker).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_decision_that_comes_too_late_is_made_anew_by_the_time_that_it_is() {
    let two = Two::start().await;
    let marker = two.live().await;
    two.find().await;
    let (stopped, one) = (Duration::from_secs(10), Arc::new(two.one));
    two.store.slow(When::Nth(two.store.commits() + 1), Arc::new(two.clock.clone()), stopped);
    let call = {
        let (one, marker) = (one.clone(), marker.clone());
        tokio::spawn(async move { begin(&one, &marker).await })
    };
    while two.clock.next_due().is_none() {
        tokio::task::yield_now().await;
    }
    two.clock.advance(stopped);
    call.await.unwrap();
    let until = entry(&two.other, &marker).await.operations[0].until;
    assert_eq!(until, one.now().await.unwrap().plus(BUDGET), "it holds for as long as the call may take");

    // A slot is taken by the time that it is, too.
    let ask = ask(&one, None);
    let (marker, already) = (ask.marker.clone(), two.store.commits());
    two.store.slow(When::Nth(already + 1), Arc::new(two.clock.clone()), stopped);
    let create = {
        let one = one.clone();
        tokio::spawn(async move { one.reserve_dispatched(&ask, Limits::default()).await.unwrap() })
    };
    while two.clock.next_due().is_none() {
        tokio::task::yield_now().await;
    }
    two.clock.advance(stopped);
    assert!(matches!(create.await.unwrap(), Reserved::Slot(_)));
    assert_eq!(two.store.commits() - already, 2);
    assert_eq!(entry(&two.other, &marker).await.dispatched, Some(one.now().await.unwrap()));
}

#[tokio::test]
async fn a_slot_whose_reply_was_lost_is_taken_once_and_not_used_after_it_was_given_back() {
    let two = Two::start().await;
    let ask = ask(&two.one, None);
    two.store.lose_reply(When::Nth(two.store.commits() + 1));
    let limits = Limits { bucket: Some(1), global: None };
    two.one.reserve_dispatched(&ask, limits).await.unwrap_err();
    // The same again is the same slot.
    assert!(matches!(two.one.reserve_dispatched(&ask, limits).await.unwrap(), Reserved::Slot(_)));
    assert_eq!(two.other.counts(&[]).await.unwrap().all.held(), 1);
    two.one.never_sent(&ask.marker);
    two.one.give_back().await.unwrap();
    assert_eq!(two.other.counts(&[]).await.unwrap().all.held(), 0);
    two.one.reserve_dispatched(&ask, limits).await.unwrap_err();
}

#[tokio::test]
async fn what_another_warden_made_is_known_after_an_inventory_and_forgotten_after_it_has_ended() {
    let two = Two::start().await;
    let marker = two.live().await;
    let seen = FaultyStore::wrap(two.store.clone());
    let third = ledger(seen.clone(), 3).await;
    let find = async || {
        let before = seen.touches();
        assert!(third.find(&id()).await.unwrap().is_some());
        seen.touches() - before
    };
    assert_eq!(third.known(&id()), None);
    assert_eq!(find().await, 2, "the name, then the entry");
    assert_eq!(find().await, 1);
    let fourth = ledger(two.store.clone(), 4).await;
    fourth.find_all(&[id()]).await.unwrap();
    assert_eq!(fourth.known(&id()).map(|known| known.marker), Some(marker.clone()));

    two.one.condemn(&marker, Actor::Client, &Shown::nothing(), "DELETE").await.unwrap();
    two.one.kill_tried(&entry(&two.one, &marker).await, KillReport::Proof(Proof::Deleted), "").await.unwrap();
    assert_eq!(two.one.known(&id()), None, "its own warden knows");
    third.forget_ended(&[id()]).await.unwrap();
    assert!(third.known(&id()).is_some(), "what Cube shows is not asked about");
    third.forget_ended(&[]).await.unwrap();
    assert_eq!(third.known(&id()), None);
}
