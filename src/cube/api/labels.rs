//! What we write into the metadata of each create, and read back from it.
//!
//! Must stay true: values are within `[A-Za-z0-9_.-]`, which E2B's list filter leaves alone. Metadata is a recovery
//! hint, never the truth about ownership: Cube 0.7.0 loses it after a pause.

use std::collections::BTreeMap;

use crate::ids::{Bucket, Env, LedgerId, Marker, Namespace, OwnerId};

/// The value of `managed_by`.
pub const MANAGED_BY: &str = "cubewarden";

/// The names of our keys: a prefix of the operator's choice before each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelNames {
    prefix: String,
}

impl LabelNames {
    /// Names with this prefix (`""` for the plain ones).
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// One of our keys with the prefix before it.
    #[must_use]
    pub fn name(&self, plain: &str) -> String {
        format!("{}{plain}", self.prefix)
    }

    /// May only we write this key? `namespace`, `env` and `owner_id` are taken by their exact name (`ENV` may be an
    /// application's own); `managed_by` and `cw_*` in any letter case.
    #[must_use]
    pub fn reserves(&self, key: &str) -> bool {
        let Some(plain) = key.strip_prefix(self.prefix.as_str()) else { return false };
        let lower = plain.to_ascii_lowercase();
        matches!(plain, "namespace" | "env" | "owner_id") || lower == "managed_by" || lower.starts_with("cw_")
    }
}

/// Our labels on one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Where it is counted.
    pub bucket: Bucket,
    /// Whose it is.
    pub owner: OwnerId,
    /// Which ledger made it: several wardens may stand before one Cube.
    pub ledger: LedgerId,
    /// Which create made it: how a lost answer is found again.
    pub marker: Marker,
}

impl Labels {
    /// As metadata.
    #[must_use]
    pub fn pairs(&self, names: &LabelNames) -> Vec<(String, String)> {
        let pair = |plain, value: &str| (names.name(plain), value.to_owned());
        vec![
            pair("namespace", self.bucket.namespace.as_str()),
            pair("env", self.bucket.env.as_str()),
            pair("owner_id", self.owner.as_str()),
            pair("managed_by", MANAGED_BY),
            pair("cw_ledger", self.ledger.as_str()),
            pair("cw_marker", self.marker.as_str()),
        ]
    }

    /// From metadata under these names or, failing that, under another prefix: the operator may have changed it since.
    #[must_use]
    pub fn read_under_any(metadata: &BTreeMap<String, String>, names: &LabelNames) -> Option<Self> {
        let prefixes = metadata.keys().filter_map(|key| key.strip_suffix("cw_marker"));
        let mut others = prefixes.map(|prefix| Self::read(metadata, &LabelNames::new(prefix)));
        Self::read(metadata, names).or_else(|| others.find_map(|labels| labels))
    }

    /// From metadata; `None` unless all six are there and well formed.
    #[must_use]
    pub fn read(metadata: &BTreeMap<String, String>, names: &LabelNames) -> Option<Self> {
        let value = |plain| metadata.get(&names.name(plain)).map(String::as_str);
        if value("managed_by")? != MANAGED_BY {
            return None;
        }
        Some(Self {
            bucket: Bucket {
                namespace: Namespace::new(value("namespace")?).ok()?,
                env: Env::new(value("env")?).ok()?,
            },
            owner: OwnerId::new(value("owner_id")?).ok()?,
            ledger: LedgerId::new(value("cw_ledger")?).ok()?,
            marker: Marker::new(value("cw_marker")?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn labels_read_back_as_written_under_their_prefix_and_under_no_other() {
        let labels = Labels {
            bucket: Bucket::parse("sin/prod").unwrap(),
            owner: OwnerId::new("sin.prod.-.r1").unwrap(),
            ledger: LedgerId::new("0123456789abcdef").unwrap(),
            marker: Marker::new("0123456789abcdef0123456789abcdef").unwrap(),
        };
        let (plain, other) = (LabelNames::new(""), LabelNames::new("acme_"));
        let mut metadata: BTreeMap<_, _> = labels.pairs(&plain).into_iter().collect();
        assert_eq!(Labels::read(&metadata, &plain), Some(labels.clone()));
        assert_eq!(Labels::read(&metadata, &other), None);
        assert_eq!(Labels::read_under_any(&metadata, &other), Some(labels.clone()));
        let two: BTreeMap<_, _> = labels.pairs(&plain).into_iter().chain(labels.pairs(&other)).collect();
        assert_eq!(Labels::read_under_any(&two, &other), Some(labels.clone()));
        assert!(labels.pairs(&other).iter().all(|(key, _)| other.reserves(key) && !plain.reserves(key)));
        metadata.insert("managed_by".into(), "somebody".into());
        assert_eq!(Labels::read(&metadata, &plain), None);
        assert_eq!(Labels::read_under_any(&metadata, &other), None);
    }

    #[test]
    fn only_we_write_our_keys_and_an_application_keeps_its_own() {
        let names = LabelNames::new("");
        for ours in ["namespace", "env", "owner_id", "managed_by", "MANAGED_BY", "cw_x", "CW_Marker"] {
            assert!(names.reserves(ours), "{ours}");
        }
        for theirs in ["ENV", "Namespace", "environment", "cw", "xcw_a", "owner", ""] {
            assert!(!names.reserves(theirs), "{theirs}");
        }
    }
}
