//! How many sandboxes each bucket may have, as one warden is configured, and what holds where several differ.
//!
//! Must stay true: where two differ, the smaller holds for every bucket there is or may be, whatever layer says so.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Bucket, Env};

/// Limits of all buckets; `None` stands for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSheet {
    /// Over all buckets.
    pub global: Option<u64>,
    /// Of a bucket that nothing else names.
    pub default: Option<u64>,
    /// Of a bucket of this environment that is not named itself.
    pub envs: BTreeMap<Env, Option<u64>>,
    /// Of a bucket that is named.
    pub buckets: BTreeMap<Bucket, Option<u64>>,
}

impl LimitSheet {
    /// The limit of a bucket.
    #[must_use]
    pub fn of(&self, bucket: &Bucket) -> Option<u64> {
        self.buckets.get(bucket).copied().unwrap_or_else(|| self.of_env(&bucket.env))
    }

    fn of_env(&self, env: &Env) -> Option<u64> {
        self.envs.get(env).copied().unwrap_or(self.default)
    }

    /// The limits that keep within both.
    #[must_use]
    pub fn smaller(&self, other: &Self) -> Self {
        let envs: BTreeSet<&Env> = self.envs.keys().chain(other.envs.keys()).collect();
        let buckets: BTreeSet<&Bucket> = self.buckets.keys().chain(other.buckets.keys()).collect();
        Self {
            global: smaller(self.global, other.global),
            default: smaller(self.default, other.default),
            envs: envs.into_iter().map(|e| (e.clone(), smaller(self.of_env(e), other.of_env(e)))).collect(),
            buckets: buckets.into_iter().map(|b| (b.clone(), smaller(self.of(b), other.of(b)))).collect(),
        }
    }
}

/// The smaller of two limits.
#[must_use]
pub fn smaller(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    /// `default env.prod a/prod`, `-` for what is not said and `0` for no limit.
    fn sheet(text: &str) -> LimitSheet {
        let said: Vec<Option<Option<u64>>> = text
            .split(' ')
            .map(|word| word.parse().ok().map(|limit| Some(limit).filter(|limit| *limit > 0)))
            .collect();
        LimitSheet {
            global: said[0].flatten(),
            default: said[0].flatten(),
            envs: said[1].map(|limit| (Env::new("prod").unwrap(), limit)).into_iter().collect(),
            buckets: said[2].map(|limit| (Bucket::parse("a/prod").unwrap(), limit)).into_iter().collect(),
        }
    }

    #[test]
    fn the_smaller_of_two_is_the_smaller_for_every_bucket_whichever_layers_speak() {
        let words = ["-", "0", "3", "7"];
        let all: Vec<LimitSheet> = ["0", "5"]
            .iter()
            .flat_map(|default| words.iter().map(move |env| format!("{default} {env}")))
            .flat_map(|start| words.iter().map(move |bucket| sheet(&format!("{start} {bucket}"))))
            .collect();
        let buckets = ["a/prod", "b/prod", "a/dev"].map(|bucket| Bucket::parse(bucket).unwrap());
        for one in &all {
            assert_eq!(one.smaller(one), *one);
            for other in &all {
                let both = one.smaller(other);
                assert_eq!(both, other.smaller(one));
                assert_eq!(both.global, smaller(one.global, other.global));
                for bucket in &buckets {
                    assert_eq!(
                        both.of(bucket),
                        smaller(one.of(bucket), other.of(bucket)),
                        "{one:?} {other:?}"
                    );
                }
            }
        }
        assert_eq!(all.len(), 32);
    }
}
