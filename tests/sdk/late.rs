//! The late clean-up: one process of a session dies slowly, another has taken its sandbox over, and then the first one's
//! `kill()`, `set_timeout(0)` and `connect(id).kill()` arrive.
//!
//! Must stay true in each story: the second one's sandbox lives, whatever the first one does; its own kill works; and what
//! the first one is told is what its SDK's users know how to read.

use std::time::Duration;

use cubewarden::rules::entry::{Entry, State};
use cubewarden::time::{ManualClock, UnixMillis};
use serde_json::json;

use super::driver::{Driver, Sdk};
use super::{check, for_each_e2b, for_each_sdk};
use crate::cube::{CubeSim, Profile};
use crate::support::until;
use crate::support::warden::{Running, before};

const BARE: &str = "[bucket_defaults]\nreuse = true\n";
const QUALIFIED: &str = "[bucket_defaults]\nreuse = true\nids = \"qualified\"\n";
/// How the late one goes about it.
const WAYS: [&str; 3] = ["kill", "set_timeout", "connect and kill"];

/// A Cube and a warden before it.
struct Stage {
    cube: CubeSim,
    warden: Running,
    clock: ManualClock,
}

impl Stage {
    /// On the machine's clock, with background tasks.
    async fn real(config: &str) -> Self {
        let cube = CubeSim::builder().profile(Profile::V070).start().await.expect("a simulator starts");
        let warden = before(&cube.url()).config(config).start().await;
        Self { cube, warden, clock: ManualClock::at(UnixMillis(0)) }
    }

    /// On a clock that the test moves, without background tasks.
    async fn timed(config: &str) -> Self {
        let clock = ManualClock::at(UnixMillis(1_800_000_000_000));
        let builder = CubeSim::builder().profile(Profile::V070).clock(clock.clone());
        let cube = builder.start().await.expect("a simulator starts");
        let warden = before(&cube.url()).config(config).clock(&clock).without_tasks().start().await;
        Self { cube, warden, clock }
    }

    /// A process of the session that has made, or been given, its sandbox.
    fn process(&self, sdk: Sdk, lease: Option<&str>) -> Driver {
        let url = self.warden.url();
        let mut process = match lease {
            Some(lease) => sdk.start_with_lease(&url, lease, "session", "s-1"),
            None => sdk.start(&url, "e2b_00", "session", &["s-1"]),
        };
        let created = process.next().expect("a create");
        check(sdk, &[created], &["create: {\"id\":\"<id 1>\"}".to_owned()]);
        process
    }

    /// The only sandbox, as the ledger knows it.
    async fn only(&self) -> Entry {
        let entries = self.warden.entries().await;
        let [entry] = &entries[..] else { panic!("one entry, not {entries:#?}") };
        assert!(matches!(entry.state, State::Live(_)), "{entry:?}");
        entry.clone()
    }

    /// The only sandbox, as Cube has it: its id, state and end.
    fn alive(&self) -> (String, crate::cube::model::State, Option<u64>) {
        let [one] = &self.cube.alive()[..] else { panic!("one sandbox, not {:?}", self.cube.alive()) };
        (one.id.clone(), one.state, one.deadline_ms)
    }

    /// How many DELETEs of the only sandbox Cube has seen.
    fn deletes(&self) -> usize {
        let target = format!("/sandboxes/{}", self.alive().0);
        let requests = self.cube.requests();
        requests.iter().filter(|seen| seen.head.method == "DELETE" && seen.head.target == target).count()
    }

    /// So long passes, and everything that is due is looked at.
    async fn pass(&self, length: Duration) {
        self.clock.advance(length);
        self.cube.tick();
        for _ in 0..2 {
            self.warden.warden.tasks.tick_due().await.expect("the ledger works");
            self.warden.warden.finish().await;
        }
    }

    async fn nothing_is_left(&self, sdk: Sdk) {
        until("the sandbox is gone", || self.cube.alive().is_empty()).await;
        // A release is carried out whoever waits; its proof may still be on its way into the ledger.
        self.warden.warden.finish().await;
        assert_eq!(self.warden.held().await, 0, "{sdk}: what is gone holds no slot");
    }
}

/// Each of them is told `expected`, and nothing happens.
fn come_late(sdk: Sdk, stage: &Stage, late: &mut Driver, expected: [String; 3]) {
    let before = stage.alive();
    for (way, expected) in WAYS.into_iter().zip(expected) {
        let told = late.order(way);
        check(sdk, &[told], &[expected]);
        let now = stage.alive();
        assert_eq!((&now.0, now.1), (&before.0, before.1), "{sdk}: its successor's, after {way}");
        assert!(now.2 >= before.2, "{sdk}: {way} shortened its successor's life");
    }
    assert_eq!(stage.deletes(), 0, "{sdk}: nothing was sent to Cube");
}

for_each_sdk!(by_a_qualified_id_it_is_told_that_its_sandbox_is_gone);

async fn by_a_qualified_id_it_is_told_that_its_sandbox_is_gone(sdk: Sdk) {
    let stage = Stage::real(QUALIFIED).await;
    let mut a = stage.process(sdk, None);
    let first = stage.only().await;
    let mut b = stage.process(sdk, None);
    let second = stage.only().await;
    assert_eq!((&second.sandbox, second.holders), (&first.sandbox, 2), "{sdk}: the same sandbox");
    assert!(second.generation > first.generation);
    // Only cubesandbox shows the server's words, which name the id as Cube does.
    let words = "sandbox <id 2> not found";
    let gone = |step| sdk.misses(step, "<id 1>", words);
    let told =
        [sdk.kills_nothing_itself("kill", "<id 1>", words), gone("set_timeout"), gone("connect and kill")];
    come_late(sdk, &stage, &mut a, told);
    check(sdk, &[b.order("kill")], &[sdk.kills_itself("kill")]);
    stage.nothing_is_left(sdk).await;
}

for_each_sdk!(the_holder_that_connects_by_its_qualified_id_can_still_end_its_sandbox);

/// Python's SDK and cubesandbox go on with the id that the answer to a connect names.
async fn the_holder_that_connects_by_its_qualified_id_can_still_end_its_sandbox(sdk: Sdk) {
    let stage = Stage::real(QUALIFIED).await;
    let _a = stage.process(sdk, None);
    let mut b = stage.process(sdk, None);
    check(sdk, &[b.order("connect and kill")], &[sdk.kills_itself("connect and kill")]);
    stage.nothing_is_left(sdk).await;
}

/// What a stale lease is told.
const STALE: &str =
    "the lease in X-Cube-Lease-Id does not hold this sandbox; nothing was done, create or connect anew";
/// What a bare id is told where it must prove more.
const UNPROVEN: &str = "this sandbox has had several holders and a bare id does not show which one you are; nothing was done, \
                        use the id with its generation or send X-Cube-Lease-Id";

for_each_e2b!(by_a_lease_id_it_is_told_that_it_was_overtaken);

async fn by_a_lease_id_it_is_told_that_it_was_overtaken(sdk: Sdk) {
    let stage = Stage::real(BARE).await;
    let mut a = stage.process(sdk, Some("lease-a"));
    let mut b = stage.process(sdk, Some("lease-b"));
    assert_eq!(stage.only().await.holders, 2);
    come_late(sdk, &stage, &mut a, WAYS.map(|way| sdk.raises_plainly(way, 409, STALE)));
    check(sdk, &[b.order("kill")], &[sdk.kills_itself("kill")]);
    stage.nothing_is_left(sdk).await;
}

for_each_sdk!(by_a_bare_id_it_gives_up_its_claim_and_the_sandbox_goes_with_the_last_one);

async fn by_a_bare_id_it_gives_up_its_claim_and_the_sandbox_goes_with_the_last_one(sdk: Sdk) {
    let stage = Stage::timed(BARE).await;
    let mut a = stage.process(sdk, None);
    let mut b = stage.process(sdk, None);
    let id = stage.alive().0;
    check(sdk, &[a.order("kill")], &[sdk.kills_itself("kill")]);
    assert_eq!(
        (stage.only().await.claims, stage.deletes()),
        (1, 0),
        "{sdk}: the claim of the one that came last"
    );
    // Its end passes and Cube pauses it: nothing keeps it but that claim.
    stage.pass(Duration::from_secs(306)).await;
    assert_eq!((stage.alive().0, stage.deletes()), (id, 0), "{sdk}");
    assert!(stage.only().await.paused_since().is_some());
    check(sdk, &[b.order("connect")], &["connect: {\"id\":\"<id 1>\"}".to_owned()]);
    // It is at it again, in every way it knows: what runs is not ended by anybody who cannot prove to hold it.
    come_late(
        sdk,
        &stage,
        &mut a,
        [sdk.kills_itself("kill"), "set_timeout: null".to_owned(), sdk.kills_itself("connect and kill")],
    );
    check(sdk, &[b.order("kill")], &[sdk.kills_itself("kill")]);
    assert_eq!(
        (stage.only().await.claims, stage.deletes()),
        (0, 0),
        "{sdk}: a 204 at once, and it still runs"
    );
    stage.pass(Duration::from_secs(406)).await;
    stage.nothing_is_left(sdk).await;
}

for_each_sdk!(beside_the_native_api_a_bare_id_ends_nothing_and_the_holder_does);

/// Two holders by lease; somebody with the bare id comes late, under both settings for such deletes.
async fn beside_the_native_api_a_bare_id_ends_nothing_and_the_holder_does(sdk: Sdk) {
    for unproven in ["defer", "refuse"] {
        let config = format!("[bucket_defaults]\nunproven_delete = \"{unproven}\"\n");
        let stage = Stage::real(&config).await;
        let caller = stage.warden.caller();
        let acquire = async |lease: &str| {
            let body =
                json!({"run": "s-1", "lease_id": lease, "template_id": "tpl-000000000000000000000001"});
            let answer = caller.post("/v1/leases", &body.to_string()).await;
            (answer.status.as_u16(), answer.text("sandbox_id"), answer.text("owner_id"))
        };
        let (first, second) = (acquire("lease-a").await, acquire("lease-b").await);
        assert_eq!((first.0, second.0, &second.1), (201, 200, &first.1));
        let (id, owner) = (second.1, second.2);
        let mut late = sdk.start(&stage.warden.url(), "e2b_00", "late", &[&id]);
        let told = if unproven == "defer" {
            let kills = |step| if step == "kill" { sdk.kills(step) } else { sdk.kills_itself(step) };
            [kills("kill"), "set_timeout: null".to_owned(), kills("connect and kill")]
        } else {
            WAYS.map(|way| sdk.raises_plainly(way, 409, UNPROVEN))
        };
        come_late(sdk, &stage, &mut late, told);
        let by = |lease: &str| json!({"owner_id": owner, "lease_id": lease}).to_string();
        for path in ["/v1/lease-releases", "/v1/lease-heartbeats"] {
            let answer = caller.post(path, &by("lease-a")).await;
            assert_eq!((answer.status.as_u16(), answer.text("error_code").as_str()), (409, "LEASE_SEALED"));
        }
        assert_eq!(stage.alive().0, id);
        // Its holder ends it: by its lease in the header where the SDK can send one, else by releasing it.
        if matches!(sdk, Sdk::Cube(_)) {
            assert_eq!(caller.post("/v1/lease-releases", &by("lease-b")).await.status, 202);
        } else {
            let mut holder = sdk.start_with_lease(&stage.warden.url(), "lease-b", "late", &id);
            check(sdk, &[holder.order("kill")], &[sdk.kills("kill")]);
        }
        stage.nothing_is_left(sdk).await;
    }
}
