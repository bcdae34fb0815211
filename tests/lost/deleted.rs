//! The directory of an embedded ledger is deleted; what stands beside it, or what the operator says, tells whose the
//! sandboxes are.

use std::path::Path;

use cubewarden::ledger::Standing;
use cubewarden::rules::rebuild::UNPROVEN;

use super::stage::{BODY, CONFIG, unavailable};
use crate::cube::CubeSim;
use crate::support::warden::{self, Running};

async fn start(cube: &CubeSim, path: &Path, more: &str) -> Running {
    let plan = warden::before(&cube.url()).config(&format!("{CONFIG}\n{more}")).without_tasks();
    let plan = plan.env("CUBEWARDEN_STORE_KIND", "embedded");
    plan.env("CUBEWARDEN_STORE_PATH", &path.display().to_string()).start().await
}

async fn comes_back(cube: &CubeSim, warden: &Running, ledger: &str) {
    assert_eq!(warden.warden.ledger.standing(), Standing::Rebuilding);
    unavailable(&warden.caller().post("/sandboxes", BODY).await);
    assert!(warden.warden.tasks.tick_rebuild().await.unwrap());
    assert_eq!(warden.warden.ledger.id().as_str(), ledger);
    let entries = warden.entries().await;
    assert_eq!((entries.len(), cube.alive().len()), (5, 5));
    for alive in cube.alive() {
        let entry =
            entries.iter().find(|entry| entry.marker.as_str() == alive.metadata["cw_marker"]).unwrap();
        assert_eq!(entry.sandbox.as_ref().unwrap().as_str(), alive.id);
        assert_eq!(entry.owner.as_str(), alive.metadata["owner_id"]);
        assert_eq!(entry.holders, UNPROVEN);
    }
    let more = async || warden.caller().post("/sandboxes", BODY).await.status.as_u16();
    assert_eq!([more().await, more().await, more().await, more().await], [201, 201, 201, 429]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_directory_is_rebuilt_from_what_cube_lists_before_anything_is_admitted() {
    let (cube, dir) = (CubeSim::builder().start().await.unwrap(), tempfile::tempdir().unwrap());
    let path = dir.path().join("data");
    let first = start(&cube, &path, "").await;
    let ledger = first.warden.ledger.id();
    for _ in 0..5 {
        first.caller().create(BODY).await;
    }
    drop(first);
    std::fs::remove_dir_all(&path).unwrap();
    let again = start(&cube, &path, "").await;
    comes_back(&cube, &again, ledger.as_str()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_is_remembered_the_operator_may_say_which_ledger_was_lost() {
    let (cube, dir) = (CubeSim::builder().start().await.unwrap(), tempfile::tempdir().unwrap());
    let first = start(&cube, &dir.path().join("one"), "").await;
    let ledger = first.warden.ledger.id();
    for _ in 0..5 {
        first.caller().create(BODY).await;
    }
    drop(first);
    // Elsewhere nobody knows; what carries another ledger's labels is another's, and stays so.
    let stranger = start(&cube, &dir.path().join("two"), "").await;
    stranger.warden.tasks.tick_inventory().await.unwrap();
    assert_eq!((stranger.held().await, stranger.warden.tasks.foreign()), (0, 5));
    drop(stranger);
    let told = format!("[store]\nlost_ledger = \"{ledger}\"");
    let again = start(&cube, &dir.path().join("three"), &told).await;
    comes_back(&cube, &again, ledger.as_str()).await;
}
