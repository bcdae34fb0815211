//! Who calls: clients that want a sandbox, use it, end it and want the next; and the reclaimer of that day's service.
//!
//! Clients retry as SDKs and applications do: whatever is no sandbox is asked for again, after the `Retry-After` of the answer or after
//! one to five seconds. The reclaimer lists, picks what belongs to instances that no longer exist, and kills.
//! Must stay true: nobody here knows whether Cube or a warden answers.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cubewarden::time::{Chance, Clock as _, ManualClock};
use futures_util::{StreamExt as _, stream};

use crate::support::http::{Answer, Caller};

const TEMPLATE: &str = "tpl-000000000000000000000001";
/// The metadata key under which the service of that day noted which of its instances made a sandbox.
pub(super) const INSTANCE: &str = "instance";

/// What came of all calls, from the callers' side.
#[derive(Default)]
pub(super) struct Tally {
    /// Answers heard, of any kind.
    pub(super) heard: AtomicU64,
    /// Creates that were answered with a sandbox.
    pub(super) created: AtomicU64,
    pub(super) creates_failed: AtomicU64,
    /// Kills that were answered: it is gone.
    pub(super) killed: AtomicU64,
    pub(super) kills_failed: AtomicU64,
    told: Mutex<BTreeSet<String>>,
}

impl Tally {
    /// The sandboxes that clients were told of, and have not ended.
    pub(super) fn kept(&self) -> BTreeSet<String> {
        self.told.lock().unwrap().clone()
    }
}

/// Whoever calls: by which way, on which clock, with which luck.
pub(super) struct Person {
    pub(super) caller: Caller,
    pub(super) clock: ManualClock,
    pub(super) tally: Arc<Tally>,
    pub(super) chance: Chance,
}

/// From this to that, evenly.
type Span = (Duration, Duration);

/// How a client lives.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    /// Before its first create.
    pub(super) enters: Span,
    /// With a sandbox.
    pub(super) works: Span,
    /// Without one.
    pub(super) rests: Span,
}

/// Between two tries, where the answer names no time.
const BACK_OFF: Span = (Duration::from_secs(1), Duration::from_secs(5));

impl Person {
    async fn wait(&self, (least, most): Span) {
        let spread = u64::try_from(most.saturating_sub(least).as_millis()).unwrap();
        self.clock.sleep(least + Duration::from_millis(self.chance.below(spread + 1))).await;
    }

    async fn call(&self, method: &str, path: &str, body: Option<&str>) -> Option<Answer> {
        let answer = self.caller.try_call(method, path, body).await.ok();
        self.tally.heard.fetch_add(1, Relaxed);
        answer
    }

    async fn back_off(&self, answer: Option<&Answer>) {
        let named = answer.and_then(|answer| answer.header("retry-after")?.parse().ok());
        match named.map(Duration::from_secs) {
            // As SDKs do, a little later than told: not everybody at once.
            Some(told) => self.wait((told, told + Duration::from_secs(1))).await,
            None => self.wait(BACK_OFF).await,
        }
    }

    /// One try to get a sandbox: its id, or the answer that is none.
    pub(super) async fn try_create(&self) -> Result<String, Option<Answer>> {
        let body = format!(r#"{{"templateID":"{TEMPLATE}","timeout":3600}}"#);
        let answer = self.call("POST", "/sandboxes", Some(&body)).await;
        match answer {
            Some(answer) if answer.status == 201 => {
                let id = answer.text("sandboxID");
                self.tally.created.fetch_add(1, Relaxed);
                self.tally.told.lock().unwrap().insert(id.clone());
                Ok(id)
            }
            other => {
                self.tally.creates_failed.fetch_add(1, Relaxed);
                Err(other)
            }
        }
    }

    /// One try to end a sandbox: `Ok` if it is gone.
    async fn try_kill(&self, id: &str) -> Result<(), Option<Answer>> {
        let answer = self.call("DELETE", &format!("/sandboxes/{id}"), None).await;
        match answer {
            Some(answer) if answer.status == 204 || answer.status == 404 => {
                self.tally.killed.fetch_add(1, Relaxed);
                self.tally.told.lock().unwrap().remove(id);
                Ok(())
            }
            other => {
                self.tally.kills_failed.fetch_add(1, Relaxed);
                Err(other)
            }
        }
    }

    /// Asks until it is gone.
    pub(super) async fn kill(&self, id: &str) {
        while let Err(answer) = self.try_kill(id).await {
            self.back_off(answer.as_ref()).await;
        }
    }

    /// A client's life.
    pub(super) async fn live(self, habits: Habits) {
        self.wait(habits.enters).await;
        loop {
            let id = loop {
                match self.try_create().await {
                    Ok(id) => break id,
                    Err(answer) => self.back_off(answer.as_ref()).await,
                }
            };
            self.wait(habits.works).await;
            self.kill(&id).await;
            self.wait(habits.rests).await;
        }
    }

    /// The reclaimer's life: round after round at most `most` of what no living instance owns, so many kills at once.
    pub(super) async fn reclaim(self, most: usize, at_once: usize) {
        loop {
            let (found, this) = (self.unowned().await, &self);
            let kills = found.into_iter().take(most).map(|id| async move { this.try_kill(&id).await });
            // What failed is found again in the next round.
            let _outcomes: Vec<_> = stream::iter(kills).buffer_unordered(at_once).collect().await;
            self.clock.sleep(Duration::from_secs(30)).await;
        }
    }

    async fn unowned(&self) -> Vec<String> {
        let listed = self.call("GET", "/sandboxes", None).await.map(|answer| answer.json());
        let listed =
            listed.as_ref().and_then(|listed| listed.as_array()).map(Vec::as_slice).unwrap_or_default();
        let unowned = listed.iter().filter(|item| item["metadata"][INSTANCE].is_string());
        unowned.filter_map(|item| item["sandboxID"].as_str().map(str::to_owned)).collect()
    }
}
