//! How calls ask the guard of the write path: whether creates are open, and for a place in a lane.
//!
//! Must stay true: nobody waits for a place longer than their client's patience; whoever is gone or late by then is not sent,
//! and what is not sent has changed nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Response;

use super::admit::LEAST_PATIENCE;
use super::context::{Ask, Governor};
use crate::cube::guard::{Entered, Place};
use crate::rules::lanes::Lane;
use crate::rules::latency::{Change, Latency};
use crate::rules::write_path::{Cause, Shut};
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

/// Nobody is sent away for longer than this: by then everything may be different.
const LONGEST: u64 = 120;

impl Governor {
    /// Are creates sent at all? Asked before they wait for a slot.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check_write_path(&self) -> Result<(), Refusal> {
        self.cube.guard().check_create().map_err(|shut| self.shut(shut))
    }

    /// A place in this lane, at once or in turn.
    ///
    /// # Errors
    /// The refusal of whoever must not be sent, or is not there any more.
    pub(super) async fn place(&self, ask: &Ask, lane: Lane) -> Result<Place, Refusal> {
        let in_line = match self.cube.guard().enter(lane) {
            Ok(Entered::Now(place)) => return Ok(place),
            Ok(Entered::InLine(in_line)) => in_line,
            Err(shut) => return Err(self.shut(shut)),
        };
        let passed = self.clock.now().since(ask.arrived);
        let left = ask.settings.admission.patience.saturating_sub(passed).saturating_sub(LEAST_PATIENCE);
        tokio::select! {
            biased;
            () = ask.caller.gone() => Err(busy("the caller left the line")),
            turn = in_line.turn() => turn.map_err(|shut| self.shut(shut)),
            () = self.clock.sleep(left) => {
                let message = "Cube takes no more writes at once, and you would not have lived to see the answer; nothing was sent";
                Err(busy(message).after(self.spread(5)))
            }
        }
    }

    fn shut(&self, Shut { cause, wait }: Shut) -> Refusal {
        let seconds = u32::try_from(wait.as_secs().saturating_add(1).min(LONGEST)).unwrap_or(u32::MAX);
        let message = match cause {
            Cause::Open => {
                "Cube does not carry creates out now; nothing was sent, one is tried from time to time"
            }
            Cause::Recovering => {
                "Cube is recovering: condemned sandboxes are deleted first, and creates follow as they go; nothing was sent"
            }
        };
        busy(message).after(self.spread(seconds))
    }

    /// Up to half as long again, so that those who were sent away together do not come back together.
    fn spread(&self, seconds: u32) -> u32 {
        let more = self.ledger.jitter(u64::from(seconds / 2) + 1);
        seconds + u32::try_from(more).unwrap_or(0)
    }
}

fn busy(message: &str) -> Refusal {
    Refusal::new(Reason::WritePathOpen, message)
}

/// How long the creates of each bucket take, by its label.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<HashMap<String, Latency>>);

impl Governor {
    /// A create of this bucket ended that began then. If it was done, its time is watched: what leaks on a node makes creates slow
    /// before they fail.
    pub(super) fn time_create(&self, bucket: &str, began: UnixMillis, answer: Option<&Response<Bytes>>) {
        if !answer.is_some_and(|answer| answer.status().is_success()) {
            return;
        }
        let took = self.clock.now().since(began);
        let (change, latency) = {
            let mut all = self.latencies.0.lock().unwrap_or_else(PoisonError::into_inner);
            let latency = all.entry(bucket.to_owned()).or_default();
            (latency.took(took), *latency)
        };
        let (lately_ms, usually_ms) = (latency.lately().as_millis(), latency.usually().as_millis());
        self.metrics.create_latency(bucket, latency.lately(), latency.usually());
        match change {
            Some(Change::Slow) => tracing::warn!(
                bucket,
                lately_ms,
                usually_ms,
                "creates take far longer than usual: look for leftover shims on the node"
            ),
            Some(Change::Usual) => {
                tracing::info!(bucket, lately_ms, usually_ms, "creates are as fast as usual again");
            }
            None => {}
        }
    }
}
