//! A caller presents a generation that the ledger does not know: either it has forgotten, or that is made up.

use cubewarden::ids::{Generation, SandboxId, SandboxRef};

use super::stage::{BODY, Stage, decisions, rebuilt, state, unavailable};
use crate::support::redis::RedisServer;
use crate::support::warden::Running;

async fn qualified(warden: &Running, sandbox: &str, by: u64) -> String {
    let id = SandboxId::new(sandbox).unwrap();
    let entry = warden.warden.ledger.find(&id).await.unwrap().unwrap();
    SandboxRef { id, generation: Some(Generation(entry.generation.0 + by)) }.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_issued_unseen_is_believed_after_a_rebuild_and_what_cannot_have_been_is_not() {
    let stage = Stage::on(RedisServer::start()).await;
    let first = stage.warden().await;
    stage.pass(10);
    let sandbox = first.caller().create(BODY).await;
    let path = |name: &str| format!("/sandboxes/{name}");
    // It has watched since before that could have been issued.
    for by in [1, 5_000, 10_000_000_000] {
        let ahead = qualified(&first, &sandbox, by).await;
        assert_eq!(first.caller().get(&path(&ahead)).await.status, 404);
    }
    assert_eq!(state(&first).await, "sound");
    first.warden.ledger.farewell().await.unwrap();
    drop(first);

    stage.pass(100);
    let second = stage.warden().await;
    second.warden.tasks.tick_beat().await.unwrap();
    let made_up = qualified(&second, &sandbox, 200_000).await;
    assert_eq!(second.caller().get(&path(&made_up)).await.status, 404);
    let ahead = qualified(&second, &sandbox, 7).await;
    // Reads are answered from what can be told without the ledger; nothing else is.
    assert_eq!(second.caller().get(&path(&ahead)).await.status, 200);
    assert_eq!(state(&second).await, "lost");
    unavailable(&second.caller().post("/sandboxes", BODY).await);
    stage.pass(1);
    rebuilt(&[&second]).await;
    assert_eq!(second.caller().get(&path(&ahead)).await.status, 200);
    assert_eq!(decisions(&second, "generation_raised").await.len(), 1);
    assert!(second.entries().await[0].holders >= 2);
    // Once is enough: nobody can stop it over and over.
    let again = qualified(&second, &sandbox, 7).await;
    assert_eq!(second.caller().get(&path(&again)).await.status, 200);
    assert_eq!(second.caller().post("/sandboxes", BODY).await.status, 201);
}
