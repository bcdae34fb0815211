//! What lives, is used, or comes to life at the last moment is never ended.

use super::{HOUR, SECOND, world};
use crate::cube::Profile;
use crate::cube::ask::Kind;
use crate::cube::faults::Fault;
use crate::cube::model::Traffic;
use crate::support::http::Caller;

/// For hours under a timeout of 300 s: its own traffic keeps it, and nobody here sees that.
#[tokio::test]
async fn what_works_for_hours_unseen_is_never_ended() {
    let world = world(Profile::V060, "[bucket_defaults]\nretention = \"1m\"\n").await;
    let id = world.create(300, "kill").await;
    for _ in 0..240 {
        assert_eq!(world.cube.traffic(&id), Traffic::Served);
        world.cycles(1).await;
    }
    assert!(world.is_there(&id));
    let deadline = world.entry(&id).await.deadline.unwrap();
    assert!(world.now().since(deadline) > 3 * HOUR, "it is overdue by hours, and that says nothing");
}

/// It is paused beyond its retention, and wakes after the cycle that marked it: what the sweep finds is another life.
#[tokio::test]
async fn what_resumes_by_itself_between_mark_and_sweep_is_not_ended() {
    for pauses_again in [false, true] {
        let world = world(Profile::V070, "[bucket_defaults]\nretention = \"30m\"\n").await;
        let id = world.create(300, "pause").await;
        world.cycles(35).await;
        assert!(world.is_there(&id));
        // From now on each cycle may be the last: it wakes between the listing and the look at it alone.
        let held = world.cube.fault(Fault::Hold { done: false }.on(Kind::Get));
        let mut woken = false;
        for _ in 0..6 {
            world.cube.advance(world.cycle).unwrap();
            let cycle = async {
                world.tick().await;
            };
            let wake = async {
                world.cube.until_held(1).await;
                if !woken {
                    assert_eq!(world.cube.traffic(&id), Traffic::Woken);
                    if pauses_again {
                        world.cube.advance(SECOND).unwrap();
                        let cube = Caller::new(&world.cube.url());
                        assert_eq!(cube.post(&format!("/sandboxes/{id}/pause"), "").await.status, 204);
                    }
                    woken = true;
                }
                loop {
                    world.cube.release();
                    world.cube.until_held(1).await;
                }
            };
            tokio::select! {
                () = cycle => {}
                () = wake => {}
            }
        }
        world.cube.remove_fault(held);
        world.cube.release();
        assert!(woken, "the sweep looked at it");
        assert!(world.is_there(&id), "pauses again: {pauses_again}");
    }
}

/// The reverse test: a collector that renews what it scans keeps it for ever.
#[tokio::test]
async fn an_idle_lease_through_two_confirmation_cycles_sees_no_renewal_and_no_resume() {
    let world = world(Profile::V060, "").await;
    let lease = world.lease("default/dev", "run", 300).await;
    world.cycles(10).await;
    let id = lease.text("sandbox_id");
    let before = world.entry(&id).await;
    assert!(before.paused_since().is_some());
    world.cube.forget_requests();
    world.cycles(2).await;
    for deed in ["timeout", "refreshes", "connect", "resume"] {
        assert_eq!(world.asked("POST", deed), 0, "{deed}");
    }
    let after = world.entry(&id).await;
    assert_eq!((after.last_sign, after.deadline), (before.last_sign, before.deadline));
    assert_eq!(after.lease, before.lease);
}
