//! What an operator is told of as it happens: one log line each, always with the same fields, and the same as JSON for a
//! webhook if there is one.
//!
//! Must stay true: whoever tells waits for nobody; a webhook that cannot keep up loses events, and they are counted.
//! Deliberately absent: sending (`tasks` does it).

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::labels::EventKind;

/// So many wait for the webhook; more are lost.
const QUEUE: usize = 1024;
/// The block of SHA-256.
const BLOCK: usize = 64;

/// Something an operator may want to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The bucket, if it concerns one.
    pub bucket: Option<String>,
    /// The sandbox, if it concerns one.
    pub sandbox_id: Option<String>,
    /// Its entry.
    pub marker: Option<String>,
    /// Why, in a word or a sentence.
    pub reason: String,
    /// How many, if it concerns several.
    pub count: Option<u64>,
    /// For how long it has been so.
    pub lasted_seconds: Option<u64>,
}

/// Where events are told.
#[derive(Debug)]
pub struct Events {
    queue: Option<mpsc::Sender<String>>,
}

/// What waits for the webhook.
pub type Waiting = mpsc::Receiver<String>;

/// Whether an event found its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It did, or nobody else is told.
    Yes,
    /// The webhook's queue is full.
    Lost,
}

impl Events {
    /// Only in the log.
    #[must_use]
    pub fn logged() -> Self {
        Self { queue: None }
    }

    /// In the log, and to whoever takes from what is returned.
    #[must_use]
    pub fn queued() -> (Self, Waiting) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        (Self { queue: Some(queue) }, waiting)
    }

    /// Tells of one.
    pub fn tell(&self, kind: EventKind, at: &str, event: &Event) -> Told {
        tracing::info!(
            event = kind.name(),
            bucket = event.bucket.as_deref(),
            sandbox_id = event.sandbox_id.as_deref(),
            marker = event.marker.as_deref(),
            reason = event.reason,
            count = event.count,
            lasted_seconds = event.lasted_seconds,
            "{}",
            kind.sentence()
        );
        let Some(queue) = &self.queue else { return Told::Yes };
        match queue.try_send(body(kind, at, event).to_string()) {
            Ok(()) => Told::Yes,
            Err(_) => Told::Lost,
        }
    }
}

fn body(kind: EventKind, at: &str, event: &Event) -> Value {
    json!({
        "event": kind.name(),
        "at": at,
        "text": kind.sentence(),
        "bucket": event.bucket,
        "sandbox_id": event.sandbox_id,
        "marker": event.marker,
        "reason": event.reason,
        "count": event.count,
        "lasted_seconds": event.lasted_seconds,
    })
}

/// The signature of a webhook's body: HMAC-SHA256 (RFC 2104), hexadecimal.
#[must_use]
pub fn signature(secret: &[u8], body: &[u8]) -> String {
    let mut key = [0_u8; BLOCK];
    if secret.len() > BLOCK {
        key[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        key[..secret.len()].copy_from_slice(secret);
    }
    let padded = |pad: u8| key.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    hex::encode(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test cases 2 and 6 of RFC 4231.
    #[test]
    fn signatures_are_those_of_the_standard() {
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            signature(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_full_queue_loses_events_and_says_so() {
        let (events, mut waiting) = Events::queued();
        let tell = || events.tell(EventKind::Collected, "now", &Event::default());
        assert!((0..QUEUE).all(|_| tell() == Told::Yes));
        assert_eq!(tell(), Told::Lost);
        let first: Value =
            waiting.try_recv().ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        assert_eq!((&first["event"], &first["at"]), (&json!("collected"), &json!("now")));
        assert_eq!(tell(), Told::Yes);
    }
}
