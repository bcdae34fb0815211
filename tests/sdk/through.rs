//! The SDKs through the warden: the same lives, and what it says no to.

use super::driver::Sdk;
use super::expected::{self, Seen};
use super::{check, check_beginnings, for_each_sdk};
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::{CubeSim, Profile};
use crate::support::warden::before;

const PROFILES: [Profile; 2] = [Profile::V051, Profile::V070];

/// Two tenants; the keys are `e2b_aa` and `e2b_bb`.
const TENANTS: &str = r#"
[[tenant]]
name = "ours"
keys_sha256 = ["OURS"]
buckets = ["ours/prod"]
[[tenant]]
name = "theirs"
keys_sha256 = ["THEIRS"]
buckets = ["theirs/prod"]
"#;

async fn cube(profile: Profile) -> CubeSim {
    CubeSim::builder().profile(profile).start().await.expect("a simulator starts")
}

for_each_sdk!(a_life_through_the_warden_is_as_stated);

async fn a_life_through_the_warden_is_as_stated(sdk: Sdk) {
    for profile in PROFILES {
        let cube = cube(profile).await;
        let warden = before(&cube.url()).start().await;
        let told = sdk.run(&warden.url(), "e2b_00", "life", &[]);
        check(sdk, &told, &expected::life(sdk, Seen::Through(profile)));
        assert!(cube.alive().is_empty(), "{sdk} left something behind: {:?}", cube.alive());
        assert_eq!(warden.held().await, 0, "{sdk}: a sandbox that is gone holds no slot");
    }
}

for_each_sdk!(another_tenants_sandbox_is_one_that_does_not_exist);

async fn another_tenants_sandbox_is_one_that_does_not_exist(sdk: Sdk) {
    for profile in PROFILES {
        let cube = cube(profile).await;
        let warden = before(&cube.url()).config(&tenants()).start().await;
        sdk.run(&warden.url(), "e2b_bb", "create", &["1"]);
        let [theirs] = &cube.alive()[..] else { panic!("one sandbox, not {:?}", cube.alive()) };
        let told = sdk.run(&warden.url(), "e2b_aa", "foreign", &[&theirs.id]);
        check(sdk, &told, &expected::foreign(sdk));
        let after = cube.sandbox(&theirs.id).expect("it still lives");
        assert_eq!((after.state, after.end_at_ms), (theirs.state, theirs.end_at_ms), "{sdk} moved it");
    }
}

for_each_sdk!(a_create_over_the_quota_is_refused_with_the_sdks_own_class);

async fn a_create_over_the_quota_is_refused_with_the_sdks_own_class(sdk: Sdk) {
    let cube = cube(Profile::V070).await;
    let config = "admission.wait = \"0s\"\n[[bucket]]\nnamespace = \"default\"\nenv = \"dev\"\nlimit = 2\n";
    let warden = before(&cube.url()).config(config).start().await;
    let told = sdk.run_impatiently(&warden.url(), "e2b_00", "create", &["3"]);
    check_beginnings(sdk, &told, &["create: {", "create: {", &expected::over_quota(sdk, "create")]);
    assert!(told[2].told().contains("all of its 2 slots are taken"), "{}", told[2].told());
    assert_eq!((cube.alive().len(), warden.held().await), (2, 2));
}

for_each_sdk!(a_create_whose_answer_is_lost_is_sent_once_and_said_to_be_unknown);

/// Lost with the connection, and lost because Cube's write path hangs. The newest SDKs would repeat a 504 by themselves;
/// the answer tells them not to. Without its tasks the warden does not go and look, so that the entry stays to be seen.
async fn a_create_whose_answer_is_lost_is_sent_once_and_said_to_be_unknown(sdk: Sdk) {
    for (profile, fault) in
        [(Profile::V051, Fault::LoseAnswer), (Profile::V070, Fault::Block { late_ms: None })]
    {
        let cube = cube(profile).await;
        let warden =
            before(&cube.url()).config("upstream.call_timeout = \"1s\"").without_tasks().start().await;
        let standing = cube.fault(fault.on(Kind::Create));
        let told = sdk.run(&warden.url(), "e2b_00", "create", &["1"]);
        check_beginnings(sdk, &told, &[&expected::outcome_unknown(sdk, "create")]);
        assert_eq!(cube.struck(standing), 1, "{sdk}: one create, one request that reached Cube's handler");
        assert_eq!(warden.held().await, 1, "{sdk}: what may have happened holds its slot");
    }
}

for_each_sdk!(a_worker_goes_on_while_a_cube_with_250_others_is_governed);

async fn a_worker_goes_on_while_a_cube_with_250_others_is_governed(sdk: Sdk) {
    let cube = cube(Profile::V070).await;
    let mine = cube.plant(crate::cube::model::Plant::default());
    cube.seed_sandboxes(250, &std::collections::BTreeMap::new());
    let warden = before(&cube.url()).start().await;
    let mut worker = sdk.start(&warden.url(), "e2b_00", "works", &[&mine]);
    let ready = worker.next().expect("a first round");
    check(sdk, &[ready], &["ready: null".to_owned()]);
    check(sdk, &worker.finish(), &["works: null".to_owned()]);
    assert_eq!(cube.alive().len(), 251, "nobody was touched");
}

fn tenants() -> String {
    let digest = |key: &str| {
        use sha2::Digest;
        hex::encode(sha2::Sha256::digest(key))
    };
    TENANTS.replace("OURS", &digest("e2b_aa")).replace("THEIRS", &digest("e2b_bb"))
}
