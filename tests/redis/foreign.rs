//! What lies in Redis under our names and is not ours: named, left as it is, and nobody else is hurt.

use cubewarden::ids::{Bucket, Marker};
use cubewarden::store::schema::{Key, Set};
use cubewarden::store::{Batch, Store, StoreError};

use super::{body, is_done, take, volume};
use crate::cube::CubeSim;
use crate::support::redis::RedisServer;
use crate::support::warden;

/// The key that an error names.
fn named<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Corrupt { key, .. }) => key,
        other => panic!("no key is named: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_ours_is_named_and_nothing_is_written() {
    let server = RedisServer::start();
    let store = server.store().await;
    let mut link = server.connection();
    let mut run = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).exec(&mut link).unwrap();
    assert!(is_done(&store.commit(take("fine")).await.unwrap()));

    // A record: what it should be, another type, a string without a version.
    run(&["RPUSH", "{cw:test}:o:volume:list", "1"]);
    run(&["SET", "{cw:test}:o:volume:text", "by hand"]);
    for id in ["list", "text"] {
        assert_eq!(named(store.commit(take(id)).await), format!("{{cw:test}}:o:volume:{id}"));
        let read = store.read(&[volume(id), volume("fine")]).await.unwrap().records;
        assert_eq!(
            (read[0].version, read[1].value.as_slice()),
            (cubewarden::store::UNREADABLE, b"x".as_slice())
        );
    }
    // A set.
    run(&["SET", "{cw:test}:slots:a/b", "by hand"]);
    let set = Set::Slots(Bucket::parse("a/b").unwrap());
    let joins = |room: bool| Batch {
        room: if room { vec![(set.clone(), 9)] } else { Vec::new() },
        join: vec![(Set::AllSlots, "x".to_owned()), (set.clone(), "x".to_owned())],
        ..take("x")
    };
    for room in [true, false] {
        assert_eq!(named(store.commit(joins(room)).await), "{cw:test}:slots:a/b");
    }
    assert_eq!(named(store.sizes(&[Set::AllSlots, set.clone()]).await), "{cw:test}:slots:a/b");
    assert_eq!(named(store.members(&set, None, 9).await), "{cw:test}:slots:a/b");
    assert_eq!(store.sizes(&[Set::AllSlots]).await.unwrap(), [1]);
    assert_eq!(store.read(&[volume("x")]).await.unwrap().records[0].version, 0);
    // Another bucket goes on.
    let other = Set::Slots(Bucket::parse("a/c").unwrap());
    assert!(is_done(
        &store.commit(Batch { join: vec![(other, "y".to_owned())], ..take("y") }).await.unwrap()
    ));

    // The ledger's own: log, appointments, head.
    for (key, healed) in [("log", true), ("due", true), ("head", false)] {
        let key = format!("{{cw:test}}:{key}");
        run(&["RENAME", "{cw:test}:head", "{cw:test}:head-before"]);
        run(&["COPY", "{cw:test}:head-before", "{cw:test}:head"]);
        run(&["DEL", &key]);
        run(&["SET", &key, "by hand"]);
        assert_eq!(named(store.commit(take("z")).await), key);
        run(&["DEL", &key]);
        run(&["RENAME", "{cw:test}:head-before", "{cw:test}:head"]);
        if healed {
            assert_eq!(store.read(&[volume("z")]).await.unwrap().records[0].version, 0);
        }
    }
    run(&["HSET", "{cw:test}:head", "sequence", "many"]);
    assert_eq!(named(store.read(&[volume("fine")]).await), "{cw:test}:head");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broken_entry_hurts_nobody_else() {
    let server = RedisServer::start();
    let cube = CubeSim::builder().start().await.unwrap();
    let warden = warden::before(&cube.url()).store(server.store().await).without_tasks().start().await;
    let caller = warden.caller();
    let (broken, whole) = (caller.create(&body()).await, caller.create(&body()).await);
    let marker: Marker = {
        let id = cubewarden::ids::SandboxId::new(&broken).unwrap();
        warden.warden.ledger.find(&id).await.unwrap().unwrap().marker
    };
    let key = format!("{{cw:test}}:{}", Key::Entry(marker));
    redis::cmd("SET").arg(&key).arg("by hand").exec(&mut server.connection()).unwrap();

    assert_eq!(caller.delete(&format!("/sandboxes/{broken}")).await.status, 503);
    assert_eq!(caller.get(&format!("/sandboxes/{whole}")).await.status, 200);
    let (entries, corrupt) = warden.warden.ledger.charged(None).await.unwrap();
    assert_eq!((entries.len(), corrupt.len()), (1, 1));
    assert!(corrupt[0].to_string().contains(&key), "{}", corrupt[0]);
    assert_eq!(caller.delete(&format!("/sandboxes/{whole}")).await.status, 204);
    caller.create(&body()).await;
}
