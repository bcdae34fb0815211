//! The SDKs on a bare Cube: that the drivers and the simulator tell what the recordings of the real ones told.

use super::driver::Sdk;
use super::expected::{self, Seen};
use super::{check, check_beginnings, for_each_sdk};
use crate::cube::faults::Fault;
use crate::cube::model::Plant;
use crate::cube::{CubeSim, Profile};

for_each_sdk!(a_life_on_a_bare_cube_is_as_recorded);

async fn a_life_on_a_bare_cube_is_as_recorded(sdk: Sdk) {
    for profile in [Profile::V051, Profile::V070] {
        let cube = CubeSim::builder().profile(profile).start().await.expect("a simulator starts");
        let told = sdk.run(&cube.url(), "e2b_00", "life", &[]);
        check(sdk, &told, &expected::life(sdk, Seen::Bare(profile)));
        assert!(cube.alive().is_empty(), "{sdk} left something behind: {:?}", cube.alive());
    }
}

for_each_sdk!(answers_like_the_wardens_are_read_as_stated);

/// The words and statuses of refusals are chosen for how SDKs read them; here Cube itself says them.
async fn answers_like_the_wardens_are_read_as_stated(sdk: Sdk) {
    let cube = CubeSim::builder().start().await.expect("a simulator starts");
    let id = cube.plant(Plant::default());
    // The newest SDKs create by a route that this Cube does not have; an answer to their kill is read the same way.
    let step = if sdk.speaks_v2() { "kill" } else { "create" };
    let argument = if sdk.speaks_v2() { &id } else { "1" };
    for (status, expected) in
        [(429, expected::over_quota(sdk, step)), (504, expected::outcome_unknown(sdk, step))]
    {
        let body = format!(r#"{{"code":{status},"message":"words","error_code":"REASON"}}"#);
        let standing = cube.fault(Fault::Refuse { status, body, retry_after: None });
        let told = sdk.run_impatiently(&cube.url(), "e2b_00", step, &[argument]);
        check_beginnings(sdk, &told, &[&expected]);
        cube.remove_fault(standing);
    }
}

/// Where governance has nothing to say, a user cannot tell whether the warden is there.
#[test]
fn through_the_warden_a_life_differs_only_where_it_governs_or_mends() {
    for sdk in [Sdk::Python("2.15.2"), Sdk::Python("2.50.0"), Sdk::Js("2.12.1")] {
        let on_v051 = ["list", "pages", "set_timeout killed"];
        assert_eq!(differing_steps(sdk, Profile::V051), on_v051, "{sdk}");
        assert_eq!(differing_steps(sdk, Profile::V070), ["list", "get_info paused", "pages"], "{sdk}");
    }
    // cubesandbox neither filters nor pages, so that less needs mending.
    let cube = Sdk::Cube("0.7.3");
    assert_eq!(differing_steps(cube, Profile::V051), ["set_timeout killed"]);
    assert_eq!(differing_steps(cube, Profile::V070), ["get_info paused"]);
}

fn differing_steps(sdk: Sdk, profile: Profile) -> Vec<String> {
    let bare = expected::life(sdk, Seen::Bare(profile));
    let through = expected::life(sdk, Seen::Through(profile));
    let differing = bare.iter().zip(&through).filter(|(bare, through)| bare != through);
    differing.filter_map(|(bare, _)| bare.split_once(':').map(|(step, _)| step.to_owned())).collect()
}
