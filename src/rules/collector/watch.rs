//! What a source of traffic is worth: it may have forgotten what it saw.
//!
//! Must stay true: a source that failed, or that lost one of those it told of before, has watched only since then.

use std::collections::HashMap;
use std::time::Duration;

use super::mark::Traffic;
use crate::ids::SandboxId;
use crate::time::UnixMillis;

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    since: Option<UnixMillis>,
    last: HashMap<SandboxId, UnixMillis>,
}

impl Watch {
    /// The source told of these at `now`, and how long ago it saw them (`None`: it told nothing). `lives` says of whom it
    /// must not forget.
    pub fn told(
        &mut self,
        ages: Option<HashMap<SandboxId, Duration>>,
        now: UnixMillis,
        lives: impl Fn(&SandboxId) -> bool,
    ) {
        let Some(ages) = ages else {
            *self = Self::default();
            return;
        };
        let forgot = self.last.keys().any(|sandbox| !ages.contains_key(sandbox) && lives(sandbox));
        if forgot || self.since.is_none() {
            self.since = Some(now);
        }
        self.last = ages.into_iter().map(|(sandbox, age)| (sandbox, now.minus(age))).collect();
    }

    /// What is known of one sandbox's traffic.
    #[must_use]
    pub fn of(&self, sandbox: &SandboxId, now: UnixMillis) -> Traffic {
        match (self.since, self.last.get(sandbox)) {
            (None, _) => Traffic::Unknown,
            (Some(_), Some(last)) => Traffic::Last(*last),
            (Some(since), None) => Traffic::NoneFor(now.since(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_source_that_failed_or_forgot_has_watched_only_since_then() {
        let at = |second| UnixMillis(1_800_000_000_000).plus(Duration::from_secs(second));
        let id = |digit: &str| SandboxId::new(&digit.repeat(32)).unwrap();
        let ages = |seen: &[(&str, u64)]| {
            Some(seen.iter().map(|(who, age)| (id(who), Duration::from_secs(*age))).collect())
        };
        let (mut watch, all) = (Watch::default(), |_: &SandboxId| true);
        assert_eq!(watch.of(&id("a"), at(0)), Traffic::Unknown);
        watch.told(ages(&[("b", 5)]), at(10), all);
        watch.told(ages(&[("b", 65)]), at(70), all);
        assert_eq!(watch.of(&id("a"), at(70)), Traffic::NoneFor(Duration::from_secs(60)));
        assert_eq!(watch.of(&id("b"), at(70)), Traffic::Last(at(5)));
        watch.told(ages(&[]), at(130), |_| false);
        assert_eq!(watch.of(&id("a"), at(130)), Traffic::NoneFor(Duration::from_secs(120)), "b is dead");
        watch.told(ages(&[("c", 0)]), at(140), all);
        watch.told(ages(&[]), at(200), all);
        assert_eq!(watch.of(&id("a"), at(200)), Traffic::NoneFor(Duration::ZERO), "it forgot c");
        watch.told(None, at(260), all);
        assert_eq!(watch.of(&id("a"), at(260)), Traffic::Unknown);
    }
}
