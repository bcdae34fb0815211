//! The faulty store does what its faults' names say, and nothing else.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use cubewarden::store::{Batch, Committed, Store, StoreError};
use cubewarden::time::{Clock, ManualClock, UnixMillis};
use futures_util::poll;

use super::place::{Place, put, volume};
use crate::support::faulty_store::{FaultyStore, When};

fn wrapped() -> (Place, Arc<FaultyStore>) {
    let place = Place::embedded_in_memory();
    let faulty = FaultyStore::wrap(place.store());
    (place, faulty)
}

async fn there(place: &Place, id: &str) -> bool {
    place.record(&volume(id)).await.version > 0
}

#[tokio::test]
async fn an_unavailable_commit_is_not_done_and_one_whose_reply_is_lost_is() {
    let (place, faulty) = wrapped();
    faulty.unavailable(When::Next(1));
    faulty.lose_reply(When::Nth(3));
    faulty
        .unavailable(When::Matching(Box::new(|batch| batch.put.iter().any(|(key, _)| *key == volume("d")))));
    let commit = async |id| faulty.commit(put(&volume(id), "x")).await;
    assert!(matches!(commit("a").await, Err(StoreError::Unavailable(_))));
    assert!(matches!(commit("b").await, Ok(Committed::Done(_))));
    assert!(matches!(commit("c").await, Err(StoreError::Unavailable(_))));
    assert!(matches!(commit("d").await, Err(StoreError::Unavailable(_))));
    let found = [there(&place, "a").await, there(&place, "b").await, there(&place, "c").await];
    assert_eq!((found, there(&place, "d").await), ([false, true, true], false));

    faulty.down();
    assert!(faulty.read(&[]).await.is_err() && faulty.commit(Batch::default()).await.is_err());
    faulty.heal();
    assert!(matches!(commit("d").await, Ok(Committed::Done(_))));
    assert_eq!(faulty.commits(), 5);
}

#[tokio::test]
async fn a_dead_one_never_answers_again_and_its_last_commit_is_done_or_not_as_planned() {
    for (after, plan) in
        [(false, FaultyStore::hang_before as fn(&FaultyStore, u64)), (true, FaultyStore::hang_after)]
    {
        let (place, faulty) = wrapped();
        plan(&faulty, 2);
        faulty.commit(put(&volume("a"), "x")).await.unwrap();
        let last = faulty.clone();
        let last = tokio::spawn(async move { last.commit(put(&volume("b"), "x")).await });
        faulty.died().await;
        faulty.heal();
        assert_eq!((there(&place, "a").await, there(&place, "b").await), (true, after));
        assert!(
            never_answers(faulty.read(&[])).await && never_answers(faulty.commit(Batch::default())).await
        );
        assert!(!last.is_finished());
    }
}

async fn never_answers<T>(call: impl Future<Output = T>) -> bool {
    let mut call = Box::pin(call);
    tokio::task::yield_now().await;
    poll!(call.as_mut()).is_pending()
}

#[tokio::test]
async fn a_slow_one_takes_the_time_that_the_test_gives_it() {
    let (_place, faulty) = wrapped();
    let clock = ManualClock::at(UnixMillis(0));
    let slow: Arc<dyn Clock> = Arc::new(clock.clone());
    faulty.slow(When::Next(1), slow, Duration::from_secs(3));
    let mut commit = Box::pin(faulty.commit(put(&volume("a"), "x")));
    assert!(poll!(commit.as_mut()).is_pending());
    clock.advance(Duration::from_secs(2));
    assert!(matches!(poll!(commit.as_mut()), Poll::Pending));
    clock.advance(Duration::from_secs(1));
    assert!(matches!(commit.await, Ok(Committed::Done(_))));
}
