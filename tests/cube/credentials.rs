//! Who may call, and how often: `CubeAPI`'s two middlewares, pure.

use std::collections::BTreeMap;
use std::time::Duration;

use cubewarden::time::{UnixMillis, millis};
use http::HeaderMap;

use super::answer::Answer;

const MISSING: &str = "Missing authentication: provide 'Authorization: Bearer <token>' or 'X-API-Key: <key>'";

/// How Cube is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Every request passes, whatever it carries.
    #[default]
    Open,
    /// One static key.
    Key(String),
    /// A callback that accepts this one credential.
    Callback(String),
}

impl Lock {
    /// The refusal, if the request must not pass.
    pub(crate) fn refuse(&self, headers: &HeaderMap) -> Option<Answer> {
        let (good, rejection) = match self {
            Self::Open => return None,
            Self::Key(key) => (key, "Invalid API key or token"),
            Self::Callback(key) => (key, "Authentication rejected by callback"),
        };
        match credential(headers) {
            None => Some(Answer::error(401, MISSING)),
            Some(given) if given == good => None,
            Some(_) => Some(Answer::error(401, rejection)),
        }
    }
}

/// The bearer if there is one, else the key; blanks are nothing.
fn credential(headers: &HeaderMap) -> Option<&str> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = value("authorization").and_then(|text| text.strip_prefix("Bearer "));
    let full = |text: &&str| !text.is_empty();
    bearer.map(str::trim).filter(full).or_else(|| value("x-api-key").map(str::trim).filter(full))
}

/// A bucket of calls per key; full at first, filled again evenly.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_second: u64,
    buckets: BTreeMap<String, (u64, UnixMillis)>,
}

impl RateLimit {
    /// `per_second` calls, and as many at once.
    pub(crate) fn new(per_second: u64) -> Self {
        Self { per_second, buckets: BTreeMap::new() }
    }

    /// The refusal, if the key's bucket is empty. Callers without a key header share one.
    pub(crate) fn refuse(&mut self, headers: &HeaderMap, now: UnixMillis) -> Option<Answer> {
        let key = headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or("anonymous");
        // Thousandths of a call, so that a millisecond refills a whole number of them.
        let full = self.per_second * 1000;
        let (level, last) = self.buckets.entry(key.to_owned()).or_insert((full, now));
        let refill = millis(now.since(*last).min(Duration::from_mins(1))) * self.per_second;
        *level = (*level + refill).min(full);
        *last = now;
        if *level < 1000 {
            return Some(Answer::error(429, "Rate limit exceeded. Slow down."));
        }
        *level -= 1000;
        None
    }
}
