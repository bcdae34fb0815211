//! The simulator held to the record of real `CubeAPI` binaries, and to its own promises.

mod faults;
mod fixture;
mod handle;
mod lifecycle;
mod mask;
mod raw;
mod replay;

use crate::cube::Profile;
use replay::Findings;

async fn replayed(profile: Profile, text: &str) -> usize {
    let mut findings = Findings::default();
    for section in fixture::read(text) {
        replay::play(profile, &section, &mut findings).await;
    }
    let differences = &findings.differences;
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    findings.exchanges
}

#[tokio::test]
async fn all_273_recorded_exchanges_of_v051_are_answered_alike() {
    let exchanges = replayed(Profile::V051, include_str!("../cube/recorded/v051.txt")).await;
    assert_eq!(exchanges, 273, "the record has 273, none is left out");
}

#[tokio::test]
async fn all_273_recorded_exchanges_of_v060_are_answered_alike() {
    let exchanges = replayed(Profile::V060, include_str!("../cube/recorded/v060.txt")).await;
    assert_eq!(exchanges, 273, "the record has 273, none is left out");
}

#[tokio::test]
async fn of_the_273_recorded_exchanges_of_august_2026_all_but_one_are_answered_alike_by_v070() {
    let exchanges = replayed(Profile::V070, include_str!("../cube/recorded/v070.txt")).await;
    assert_eq!(exchanges, 272, "left out: PUT network, a 404 then, a route of 0.7.0");
}
