//! `mode = "transparent"` with every mend switched off: whatever is asked, the answer through the warden is the direct one.
//!
//! Left out: ids with a suffix, which are stripped in this mode too (`enforced` has them). Masked: `Date`, and the
//! place of `Connection` among the fields. Not compared: where chunks begin and end, which no hop promises to keep.

use super::table;
use super::world::World;
use crate::cube::Profile;

const STANDING_ASIDE: &str = r#"
mode = "transparent"
[compat]
v2_create = false
lifecycle = false
error_bodies = false
missing_end_at = false
pausing_state = false
capacity_answers = false
"#;

async fn check(profile: Profile) {
    let world = World::of(profile, STANDING_ASIDE).await;
    let mut all = table::plain(&world.names);
    all.extend(table::governed(&world.names));
    all.extend(table::unspeakable(&world.names));
    assert!(all.len() > 400, "{} requests", all.len());
    let mut differences = Vec::new();
    for request in &all {
        let (direct, through) = world.both(request).await;
        if direct != through {
            differences.push(format!("{}\n direct:  {direct:?}\n through: {through:?}", request.line));
        }
    }
    assert!(
        differences.is_empty(),
        "{profile}: {} of {} answers differ:\n{}",
        differences.len(),
        all.len(),
        differences.join("\n")
    );
    assert_eq!(world.cube.alive(), world.twin.alive(), "{profile}");
    assert_eq!(world.warden.held().await, 0, "a warden that stands aside keeps no account");
}

#[tokio::test]
async fn a_transparent_warden_before_v051_is_not_noticed() {
    check(Profile::V051).await;
}

#[tokio::test]
async fn a_transparent_warden_before_v060_is_not_noticed() {
    check(Profile::V060).await;
}

#[tokio::test]
async fn a_transparent_warden_before_v070_is_not_noticed() {
    check(Profile::V070).await;
}
