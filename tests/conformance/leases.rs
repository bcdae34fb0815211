//! The laws of leases, through the ledger's verbs, on every store.

use std::sync::Arc;
use std::time::Duration;

use cubewarden::ids::{Bucket, Generation, LeaseId, Marker, OwnerId, SandboxId, UpstreamName};
use cubewarden::ledger::{
    Acquired, Ask, ByHolder, Condemned, Holding, LeasePlan, Ledger, Limits, OwnerClaim, Reserved, Settings,
};
use cubewarden::rules::colour::Ceilings;
use cubewarden::rules::delete::{Judged, Shown};
use cubewarden::rules::entry::{Activity, Actor, Birth, Entry, Keeper, Proof, State, Timing};
use cubewarden::store::schema::Key;
use cubewarden::time::{Chance, UnixMillis};

use super::place::Place;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A ledger on the store of a place.
pub(super) struct Books {
    pub(super) place: Place,
    pub(super) ledger: Arc<Ledger>,
}

pub(super) fn bucket() -> Bucket {
    Bucket::parse("a/prod").unwrap()
}

pub(super) fn owner(name: &str) -> OwnerId {
    OwnerId::new(&format!("a.prod.-.{name}")).unwrap()
}

pub(super) fn lease(name: &str) -> LeaseId {
    LeaseId::new(name).unwrap()
}

pub(super) fn plan(name: &str) -> LeasePlan {
    let length = Some(Duration::from_secs(300));
    LeasePlan { id: lease(name), keeper: Keeper::Heartbeats, length, asked_for: "the same".to_owned() }
}

pub(super) async fn ledger_on(place: &Place, seed: u64) -> Arc<Ledger> {
    let settings = Settings { upstream: UpstreamName::new("cube").unwrap(), timing: Timing::default() };
    Arc::new(Ledger::open(place.store(), settings, Chance::seeded(seed)).await.unwrap())
}

impl Books {
    async fn on(place: Place) -> Self {
        let ledger = ledger_on(&place, 7).await;
        Self { place, ledger }
    }

    /// The claim of an owner that holds nothing.
    async fn free(&self, of: &str) -> OwnerClaim {
        match self.ledger.holding(&bucket(), &owner(of), None).await.unwrap() {
            Holding::Free(claim) => claim,
            held => panic!("{of} holds {held:?}"),
        }
    }

    pub(super) fn ask(&self, of: &str, claim: OwnerClaim, plan: LeasePlan) -> Ask {
        Ask {
            marker: self.ledger.new_marker(),
            bucket: bucket(),
            owner: owner(of),
            tenant: None,
            template: "tpl".to_owned(),
            metadata: None,
            key: None,
            request: None,
            lease: Some((claim, plan)),
        }
    }

    /// A create on its way, of an owner that holds nothing.
    async fn dispatched(&self, of: &str, by: &str) -> Marker {
        let ask = self.ask(of, self.free(of).await, plan(by));
        let reserved = self.ledger.reserve(&ask, Limits::default()).await.unwrap();
        assert!(matches!(reserved, Reserved::Slot(_)), "{reserved:?}");
        self.ledger.dispatch(&ask.marker).await.unwrap().unwrap();
        ask.marker
    }

    /// A living sandbox of an owner that held nothing; it ends in 300 seconds.
    async fn living(&self, of: &str, by: &str) -> Entry {
        let marker = self.dispatched(of, by).await;
        let deadline = Some(self.place.now().await.plus(300 * SECOND));
        let sandbox = SandboxId::new(marker.as_str()).unwrap();
        let birth = Birth { sandbox, answer: None, deadline };
        self.ledger.done(&marker, &birth, Some(&lease(by))).await.unwrap().unwrap()
    }

    async fn entry(&self, marker: &Marker) -> Entry {
        self.ledger.entry(marker).await.unwrap().unwrap()
    }

    async fn acquired(&self, marker: &Marker, by: &str) -> Entry {
        match self.ledger.acquire(marker, &plan(by)).await.unwrap() {
            Acquired::Yes(entry) => *entry,
            refused => panic!("{by} was refused: {refused:?}"),
        }
    }

    async fn beat(&self, of: &str, by: &str) -> ByHolder {
        self.ledger.lease_beat(&bucket(), &owner(of), &lease(by)).await.unwrap()
    }

    async fn release(&self, of: &str, by: &str) -> ByHolder {
        self.ledger.release(&bucket(), &owner(of), &lease(by)).await.unwrap()
    }

    async fn held(&self) -> u64 {
        self.ledger.counts(&[]).await.unwrap().all.held()
    }

    /// It is gone, and its tombstone is over.
    async fn gone_and_forgotten(&self, marker: &Marker) {
        self.ledger
            .kill_tried(
                &self.entry(marker).await,
                cubewarden::ledger::KillReport::Proof(Proof::Deleted),
                "gone",
            )
            .await
            .unwrap()
            .unwrap();
        self.place.clock.advance(Timing::default().tombstone + SECOND);
        self.ledger.purge(marker).await.unwrap();
        assert!(self.ledger.entry(marker).await.unwrap().is_none());
    }
}

pub(super) async fn of_creates_of_one_owner_at_once_exactly_one_takes_a_slot(place: Place) {
    let books = Books::on(place).await;
    let claim = books.free("r").await;
    let racers: Vec<_> = (0..16)
        .map(|racer| {
            let ask = books.ask("r", claim.clone(), plan(&format!("lease-{racer}")));
            let ledger = Arc::clone(&books.ledger);
            tokio::spawn(async move { ledger.reserve(&ask, Limits::default()).await.unwrap() })
        })
        .collect();
    let mut slots = 0;
    for racer in racers {
        match racer.await.unwrap() {
            Reserved::Slot(_) => slots += 1,
            other => assert!(matches!(other, Reserved::Taken), "{other:?}"),
        }
    }
    assert_eq!((slots, books.held().await), (1, 1));
    let holding = books.ledger.holding(&bucket(), &owner("r"), None).await.unwrap();
    assert!(matches!(holding, Holding::OnItsWay(_)), "whoever comes now joins: {holding:?}");
}

pub(super) async fn each_holder_is_given_a_greater_generation_whatever_the_clock_does(place: Place) {
    let books = Books::on(place).await;
    let first = books.living("r", "lease-0").await;
    let mut last = first.generation;
    for round in 1..6 {
        let now = books.place.now().await;
        books.place.clock.set(UnixMillis(now.0 - 3_600_000));
        let next = books.acquired(&first.marker, &format!("lease-{round}")).await.generation;
        assert!(next > last, "{round}: {next:?} after {last:?}");
        last = next;
    }
    assert_eq!(
        books.acquired(&first.marker, "lease-5").await.generation,
        last,
        "the present holder keeps its own"
    );
    let shown = Shown::of_generation(Some(last));
    books.ledger.condemn(&first.marker, Actor::Client, &shown, "over").await.unwrap();
    let next = books.living("r", "lease-6").await;
    assert!(next.generation > last, "also in the next sandbox of its owner");
}

pub(super) async fn a_sealed_lease_never_acquires_beats_or_releases_again(place: Place) {
    let books = Books::on(place).await;
    let held = books.living("r", "lease-a").await;
    let second = books.acquired(&held.marker, "lease-b").await;
    for _ in 0..2 {
        assert!(matches!(
            books.ledger.acquire(&held.marker, &plan("lease-a")).await.unwrap(),
            Acquired::Sealed
        ));
        assert!(matches!(books.beat("r", "lease-a").await, ByHolder::Sealed));
        assert!(matches!(books.release("r", "lease-a").await, ByHolder::Sealed));
        let holding = books.ledger.holding(&bucket(), &owner("r"), Some(&lease("lease-a"))).await.unwrap();
        assert!(matches!(holding, Holding::Sealed), "{holding:?}");
    }
    assert_eq!(books.entry(&held.marker).await, second, "and changes nothing by trying");
    // Nor does it begin anew once its owner holds nothing.
    assert!(matches!(books.release("r", "lease-b").await, ByHolder::Done(_)));
    for ended in ["lease-a", "lease-b"] {
        let ask = books.ask("r", books.free("r").await, plan(ended));
        assert!(matches!(books.ledger.reserve(&ask, Limits::default()).await.unwrap(), Reserved::Taken));
    }
    assert!(
        matches!(books.beat("other", "lease-a").await, ByHolder::Mismatch),
        "a name is sealed for its owner"
    );
}

pub(super) async fn a_release_is_written_down_once(place: Place) {
    let books = Books::on(place).await;
    let marker = books.dispatched("on-its-way", "lease-a").await;
    assert!(matches!(books.release("on-its-way", "lease-a").await, ByHolder::Later));
    assert!(matches!(books.entry(&marker).await.state, State::Dispatched));

    let held = books.living("r", "lease-a").await;
    assert!(matches!(books.release("r", "lease-x").await, ByHolder::Mismatch));
    assert_eq!(books.entry(&held.marker).await, held);
    let ByHolder::Done(released) = books.release("r", "lease-a").await else { panic!("it holds it") };
    assert_eq!(released.kill().map(|kill| kill.actor), Some(Actor::Holder));
    for _ in 0..2 {
        assert!(matches!(books.release("r", "lease-a").await, ByHolder::Sealed));
        assert!(matches!(books.beat("r", "lease-a").await, ByHolder::Sealed));
    }
    assert_eq!(books.entry(&held.marker).await, *released);
}

pub(super) async fn a_stale_generation_or_lease_ends_nothing_whoever_shows_it(place: Place) {
    let books = Books::on(place).await;
    let held = books.living("r", "lease-a").await;
    let second = books.acquired(&held.marker, "lease-b").await;
    let ahead = Generation(second.generation.0 + 1);
    let by_lease = Shown { lease: Some(lease("lease-a")), ..Shown::nothing() };
    let both = Shown { lease: Some(lease("lease-b")), ..Shown::of_generation(Some(held.generation)) };
    let stale =
        [Shown::of_generation(Some(held.generation)), Shown::of_generation(Some(ahead)), by_lease, both];
    for actor in [Actor::Client, Actor::Holder, Actor::Collector, Actor::Operator] {
        for shown in &stale {
            let condemned = books.ledger.condemn(&held.marker, actor, shown, "late").await.unwrap();
            assert_eq!(condemned, Condemned::Fenced, "{actor:?} {shown:?}");
        }
    }
    assert_eq!(books.entry(&held.marker).await, second);
    let bare = books.ledger.condemn(&held.marker, Actor::Client, &Shown::nothing(), "bare").await.unwrap();
    assert_eq!(bare, Condemned::Unproven);
    let current = Shown::of_generation(Some(second.generation));
    assert_eq!(
        books.ledger.condemn(&held.marker, Actor::Client, &current, "own").await.unwrap(),
        Condemned::Yes
    );
}

pub(super) async fn the_record_of_an_owner_goes_with_its_entry_and_never_with_another(place: Place) {
    let books = Books::on(place).await;
    let record = Key::Owner(bucket(), owner("r"));
    let first = books.living("r", "lease-a").await;
    assert!(books.place.record(&record).await.version > 0);
    assert!(matches!(books.release("r", "lease-a").await, ByHolder::Done(_)));
    // The next one comes while the first is dying: the record is the next one's when the first is forgotten.
    let second = books.living("r", "lease-b").await;
    books.gone_and_forgotten(&first.marker).await;
    let holding = books.ledger.holding(&bucket(), &owner("r"), None).await.unwrap();
    let Holding::Held(held) = holding else { panic!("{holding:?}") };
    assert_eq!(held.marker, second.marker);

    assert!(matches!(books.release("r", "lease-b").await, ByHolder::Done(_)));
    books.gone_and_forgotten(&second.marker).await;
    assert_eq!(
        books.place.record(&record).await.version,
        0,
        "nothing is left of an owner that holds nothing"
    );
    assert!(books.living("r", "lease-c").await.generation > second.generation);
}

pub(super) async fn a_seal_is_forgotten_after_thirty_days_and_not_before(place: Place) {
    let books = Books::on(place).await;
    let held = books.living("r", "lease-a").await;
    books.acquired(&held.marker, "lease-b").await;
    let sealed = async || {
        books.ledger.due(100).await.unwrap();
        matches!(books.beat("r", "lease-a").await, ByHolder::Sealed)
    };
    books.place.clock.advance(29 * DAY);
    books.place.clock.advance(Duration::from_millis(24 * 3_600_000 - 1));
    assert!(sealed().await);
    books.place.clock.advance(Duration::from_millis(1));
    assert!(!sealed().await, "and then it is only a lease that its owner does not hold");
    let due = books.place.due(u64::MAX).await;
    assert!(due.iter().all(|member| !member.starts_with("z:")), "{due:?}");
}

pub(super) async fn the_last_claim_that_is_given_up_condemns_what_nothing_keeps(place: Place) {
    let books = Books::on(place).await;
    let ledger = &books.ledger;
    let held = books.living("r", "lease-a").await.marker;
    books.acquired(&held, "lease-b").await;
    for left in [1, 0, 0] {
        ledger.drop_claim(&held, "bare").await.unwrap();
        let entry = books.entry(&held).await;
        assert!((entry.claims, entry.usable()) == (left, true), "it runs, and its end is ahead: {entry:?}");
    }
    // Cube pauses it at its end: whoever looks then ends it, for nobody claims it.
    books.place.clock.advance(306 * SECOND);
    let began = books.place.now().await;
    ledger.asked(&held, Some(Activity::Paused(began)), began).await.unwrap();
    assert_eq!(books.entry(&held).await.kill().map(|kill| kill.actor), Some(Actor::Deferred));

    // Paused first, given up later: the last claim keeps it, and goes with the sandbox.
    let held = books.living("s", "lease-a").await.marker;
    books.acquired(&held, "lease-b").await;
    books.place.clock.advance(306 * SECOND);
    let began = books.place.now().await;
    ledger.asked(&held, Some(Activity::Paused(began)), began).await.unwrap();
    ledger.drop_claim(&held, "bare").await.unwrap();
    assert!(books.entry(&held).await.usable());
    ledger.drop_claim(&held, "bare").await.unwrap();
    assert_eq!(books.entry(&held).await.kill().map(|kill| kill.actor), Some(Actor::Deferred));
}

pub(super) async fn a_lapsed_lease_lives_again_by_a_beat_unless_somebody_has_overtaken_it(place: Place) {
    let books = Books::on(place).await;
    let held = books.living("r", "lease-a").await;
    books.place.clock.advance(DAY);
    let lapsed = async || {
        let now = books.place.now().await;
        books.entry(&held.marker).await.lease_lapsed(now, &Timing::default()).is_some()
    };
    assert!(lapsed().await);
    assert!(matches!(books.beat("r", "lease-a").await, ByHolder::Done(_)));
    assert!(!lapsed().await);
    assert_eq!(books.entry(&held.marker).await.generation, held.generation);
    books.place.clock.advance(DAY);
    books.acquired(&held.marker, "lease-b").await;
    assert!(matches!(books.beat("r", "lease-a").await, ByHolder::Sealed));
}

fn judged(entry: &Entry, marked: UnixMillis, age: Option<Duration>) -> Shown {
    let ceilings = Ceilings { idle: None, age };
    let judged = Judged { incarnation: entry.incarnation, marked, ceilings };
    Shown { judged: Some(judged), ..Shown::of_generation(Some(entry.generation)) }
}

/// EB02
pub(super) async fn of_a_beat_and_a_collector_at_once_exactly_one_wins_a_thousand_times(place: Place) {
    let books = Books::on(place).await;
    let (mut kept, mut held) = (0, books.living("r-0", "lease-a").await);
    for round in 1..=1000_u32 {
        books.place.clock.advance(400 * SECOND);
        let shown = judged(&held, books.place.now().await, None);
        books.place.clock.advance(60 * SECOND);
        let (ledger, marker) = (Arc::clone(&books.ledger), held.marker.clone());
        let collecting = tokio::spawn(async move {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            ledger.condemn(&marker, Actor::Collector, &shown, "idle").await.unwrap()
        });
        let (ledger, of, lease) = (Arc::clone(&books.ledger), held.owner.clone(), lease("lease-a"));
        let beating = tokio::spawn(async move { ledger.lease_beat(&bucket(), &of, &lease).await.unwrap() });
        let (collected, beaten) = (collecting.await.unwrap(), beating.await.unwrap());
        let entry = books.entry(&held.marker).await;
        match (collected, beaten) {
            (Condemned::Kept, ByHolder::Done(_)) => {
                assert!(entry.usable(), "round {round}: {entry:?}");
                kept += 1;
            }
            (Condemned::Yes, ByHolder::Mismatch | ByHolder::Later) => {
                let kill = entry.kill().unwrap();
                let silent = kill.since.since(entry.last_sign);
                assert!(
                    silent >= Timing::default().root_fresh,
                    "round {round}: it had a fresh beat: {entry:?}"
                );
                held = books.living(&format!("r-{round}"), "lease-a").await;
            }
            both => panic!("round {round}: {both:?}"),
        }
    }
    assert!(kept > 0, "neither side won every time");
}

/// EB24
pub(super) async fn a_holder_that_beats_for_ever_does_not_outlive_its_ceiling(place: Place) {
    let books = Books::on(place).await;
    let held = books.living("r", "lease-a").await;
    let ceiling = Duration::from_secs(8 * 3600);
    // The end that it was granted is never behind, for it renews as a stuck agent does.
    let renewed = async || {
        let until = books.place.now().await.plus(300 * SECOND);
        let lease = lease("lease-a");
        books.ledger.lease_renewed(&held.marker, &lease, Ok(Some(until))).await.unwrap();
    };
    let mut marked = books.place.now().await;
    for beat in 0..9 * 120_u64 {
        let lived = books.place.now().await.since(held.first_seen.unwrap());
        assert!(matches!(books.beat("r", "lease-a").await, ByHolder::Done(_)), "beat {beat}");
        renewed().await;
        if beat % 60 == 30 {
            // A lease that begins anew under the same name does not make it younger.
            books.acquired(&held.marker, "lease-a").await;
        }
        if beat % 2 == 0 {
            let shown = judged(&held, marked, Some(ceiling));
            let condemned =
                books.ledger.condemn(&held.marker, Actor::Collector, &shown, "old").await.unwrap();
            if lived >= ceiling {
                assert_eq!(condemned, Condemned::Yes, "after {lived:?}");
                return;
            }
            assert_eq!(condemned, Condemned::Kept, "after {lived:?}");
            marked = books.place.now().await;
        }
        books.place.clock.advance(30 * SECOND);
    }
    panic!("it lived for nine hours");
}

/// RD09
pub(super) async fn a_late_release_frees_nobody_elses_slot(place: Place) {
    let books = Books::on(place).await;
    let one = Limits { bucket: Some(1), global: None };
    let first = books.living("r", "lease-a").await;
    assert!(matches!(books.release("r", "lease-a").await, ByHolder::Done(_)));
    let gone = cubewarden::ledger::KillReport::Proof(Proof::Deleted);
    let condemned = books.entry(&first.marker).await;
    books.ledger.kill_tried(&condemned, gone, "gone").await.unwrap();
    let ask = books.ask("s", books.free("s").await, plan("lease-b"));
    assert!(matches!(books.ledger.reserve(&ask, one).await.unwrap(), Reserved::Slot(_)));
    for _ in 0..2 {
        assert!(matches!(books.release("r", "lease-a").await, ByHolder::Sealed));
        books.ledger.kill_tried(&condemned, gone, "gone again").await.unwrap();
        books.ledger.refused(&first.marker, "late").await.unwrap();
    }
    assert_eq!(books.held().await, 1);
    let third = books.ask("t", books.free("t").await, plan("lease-c"));
    let full = books.ledger.reserve(&third, one).await.unwrap();
    assert!(matches!(full, Reserved::Full(_)), "{full:?}");
}
