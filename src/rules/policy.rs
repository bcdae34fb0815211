//! What a bucket is allowed and what happens to its sandboxes: one policy for each bucket, resolved once.
//!
//! Must stay true: [`Policies::of`] always answers (a bucket that the configuration does not name lives by the defaults
//! of its environment), and [`Policies::label`] comes from a closed set, so that a stranger's bucket names never become
//! metric series. Deliberately absent: how the layers were written; `config` resolves them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::num::NonZeroU32;
use std::time::Duration;

pub use super::colour::Ceilings;
use super::limits::LimitSheet;
use crate::ids::{Bucket, Env, OTHER};

/// The policy of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPolicy {
    /// Slots; `None` counts without limiting, 0 refuses at once.
    pub limit: Option<u32>,
    /// How long a paused sandbox is kept; `None` keeps it for ever.
    pub retention: Option<Duration>,
    /// The longest idle time and the longest life.
    pub ceilings: Ceilings,
    /// Whether a create gets the living sandbox of its owner.
    pub reuse: bool,
    /// How ids are handed out.
    pub ids: IdForm,
    /// What a bare id may end on an entry that has had several holders.
    pub unproven_delete: UnprovenDelete,
    /// What Cube does when a sandbox times out.
    pub on_timeout: OnTimeout,
    /// The timeout of a create that names none, in whole seconds; `None` leaves it to Cube.
    pub default_timeout: Option<Duration>,
    /// The longest timeout, in whole seconds; longer ones, or never, are clamped to it. `None` clamps nothing.
    pub max_timeout: Option<Duration>,
    /// The template of a lease that names none.
    pub template: Option<String>,
    /// The template of a lease that asks for `light`.
    pub light_template: Option<String>,
    /// How often creates may come; `None` counts nothing.
    pub creates: Option<CreateRate>,
    /// Whether a create may mount a directory of the host.
    pub host_mount: Permission,
    /// Whether a create may choose its distribution scope.
    pub distribution_scope: Permission,
}

impl Default for BucketPolicy {
    /// The policy that harms nobody: nothing is limited, clamped, collected or denied.
    fn default() -> Self {
        Self {
            limit: None,
            retention: None,
            ceilings: Ceilings::default(),
            reuse: false,
            ids: IdForm::Bare,
            unproven_delete: UnprovenDelete::Defer,
            on_timeout: OnTimeout::Client,
            default_timeout: None,
            max_timeout: None,
            template: None,
            light_template: None,
            creates: None,
            host_mount: Permission::Allow,
            distribution_scope: Permission::Allow,
        }
    }
}

impl BucketPolicy {
    /// Eight digits that stand for the whole policy: another policy has others. For records, never compared for safety.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut print = Print(0xcbf2_9ce4_8422_2325);
        // Writing into a number cannot fail.
        let _never = write!(print, "{self:?}");
        format!("{:08x}", (print.0 >> 32) ^ (print.0 & 0xffff_ffff))
    }
}

/// FNV-1a of a text that is written piece by piece.
struct Print(u64);

impl fmt::Write for Print {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.0 = text.bytes().fold(self.0, fold);
        Ok(())
    }
}

/// How ids are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// As Cube names them.
    Bare,
    /// With the generation as a suffix.
    Qualified,
}

/// What a delete by bare id means when the entry has had several holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnprovenDelete {
    /// Drop this caller's claim; the sandbox goes when no claim and no root is left.
    Defer,
    /// Refuse.
    Refuse,
}

/// What Cube does when a sandbox times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// What the client asked for.
    Client,
    /// Pause it.
    Pause,
    /// Kill it.
    Kill,
}

/// Whether a field may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It passes.
    Allow,
    /// It is refused.
    Deny,
}

/// How often creates may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CreateRate {
    /// Creates per minute in the long run.
    pub per_minute: NonZeroU32,
    /// How many may come at once.
    pub burst: NonZeroU32,
}

/// The policies of all buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    defaults: BucketPolicy,
    by_env: BTreeMap<Env, BucketPolicy>,
    named: BTreeMap<Bucket, Named>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    label: String,
    policy: BucketPolicy,
}

impl Policies {
    /// Policies in which no bucket has a name yet; each of `by_env` is already laid over `defaults`.
    #[must_use]
    pub fn new(defaults: BucketPolicy, by_env: BTreeMap<Env, BucketPolicy>) -> Self {
        Self { defaults, by_env, named: BTreeMap::new() }
    }

    /// Names a bucket, with its whole policy.
    #[must_use]
    pub fn with(mut self, bucket: &Bucket, policy: BucketPolicy) -> Self {
        self.named.insert(bucket.clone(), Named { label: bucket.to_string(), policy });
        self
    }

    /// Names a bucket that keeps the policy it has.
    #[must_use]
    pub fn naming(self, bucket: &Bucket) -> Self {
        let policy = self.of(bucket).clone();
        self.with(bucket, policy)
    }

    /// The policy that holds for a bucket.
    #[must_use]
    pub fn of(&self, bucket: &Bucket) -> &BucketPolicy {
        match self.named.get(bucket) {
            Some(named) => &named.policy,
            None => self.by_env.get(&bucket.env).unwrap_or(&self.defaults),
        }
    }

    /// The limits alone, with the one over all buckets.
    #[must_use]
    pub fn limits(&self, global: Option<u32>) -> LimitSheet {
        let limit = |policy: &BucketPolicy| policy.limit.map(u64::from);
        LimitSheet {
            global: global.map(u64::from),
            default: limit(&self.defaults),
            envs: self.by_env.iter().map(|(env, policy)| (env.clone(), limit(policy))).collect(),
            buckets: self
                .named
                .iter()
                .map(|(bucket, named)| (bucket.clone(), limit(&named.policy)))
                .collect(),
        }
    }

    /// `namespace/env` if the configuration names the bucket, else [`OTHER`].
    #[must_use]
    pub fn label(&self, bucket: &Bucket) -> &str {
        self.named.get(bucket).map_or(OTHER, |named| &named.label)
    }

    /// Every bucket that the configuration names, with its policy, in order.
    pub fn named(&self) -> impl Iterator<Item = (&Bucket, &BucketPolicy)> {
        self.named.iter().map(|(bucket, named)| (bucket, &named.policy))
    }

    /// Every label that [`Policies::label`] can give.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.named.values().map(|named| named.label.as_str()).chain([OTHER])
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn a_fingerprint_is_the_same_for_the_same_policy_and_another_for_another() {
        let plain = BucketPolicy::default();
        assert_eq!(plain.fingerprint(), BucketPolicy::default().fingerprint());
        assert_eq!(plain.fingerprint().len(), 8);
        let limited = BucketPolicy { limit: Some(1), ..plain.clone() };
        let kept = BucketPolicy { retention: Some(Duration::from_secs(1)), ..plain.clone() };
        let prints = [&plain, &limited, &kept].map(BucketPolicy::fingerprint);
        assert!(prints[0] != prints[1] && prints[1] != prints[2] && prints[0] != prints[2], "{prints:?}");
    }

    #[test]
    fn a_bucket_lives_by_its_own_policy_else_its_environments_else_the_defaults() {
        let limited = |limit| BucketPolicy { limit: Some(limit), ..BucketPolicy::default() };
        let bucket = |text| Bucket::parse(text).unwrap();
        let policies = Policies::new(limited(1), BTreeMap::from([(Env::new("prod").unwrap(), limited(2))]))
            .with(&bucket("a/prod"), limited(3))
            .naming(&bucket("b/prod"));
        let limits = ["a/prod", "b/prod", "c/prod", "c/dev"].map(|b| policies.of(&bucket(b)).limit);
        assert_eq!(limits, [Some(3), Some(2), Some(2), Some(1)]);
        let labels = ["a/prod", "b/prod", "c/prod", "c/dev"].map(|b| policies.label(&bucket(b)).to_owned());
        assert_eq!(labels, ["a/prod", "b/prod", "other", "other"]);
        assert_eq!(policies.labels().collect::<Vec<_>>(), ["a/prod", "b/prod", "other"]);
    }
}
