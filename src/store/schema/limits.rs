//! How limits are written: in the record `limits`, and in the beat of each warden that runs with them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{Bucket, Env, Malformed};
use crate::rules::limits::LimitSheet;

/// The limits that hold in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Rises with each change.
    pub revision: u64,
    /// What holds.
    pub sheet: WrittenSheet,
}

/// Limits as they are written; `null` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenSheet {
    global: Option<u64>,
    default: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    envs: BTreeMap<String, Option<u64>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    buckets: BTreeMap<String, Option<u64>>,
}

impl From<&LimitSheet> for WrittenSheet {
    fn from(sheet: &LimitSheet) -> Self {
        Self {
            global: sheet.global,
            default: sheet.default,
            envs: sheet.envs.iter().map(|(env, limit)| (env.to_string(), *limit)).collect(),
            buckets: sheet.buckets.iter().map(|(bucket, limit)| (bucket.to_string(), *limit)).collect(),
        }
    }
}

impl WrittenSheet {
    /// As they are meant.
    ///
    /// # Errors
    /// [`Malformed`] if a name in them is not well formed.
    pub fn meant(&self) -> Result<LimitSheet, Malformed> {
        let env = |(env, limit): (&String, &Option<u64>)| Ok((Env::new(env)?, *limit));
        let bucket = |(bucket, limit): (&String, &Option<u64>)| Ok((Bucket::parse(bucket)?, *limit));
        Ok(LimitSheet {
            global: self.global,
            default: self.default,
            envs: self.envs.iter().map(env).collect::<Result<_, Malformed>>()?,
            buckets: self.buckets.iter().map(bucket).collect::<Result<_, Malformed>>()?,
        })
    }
}
