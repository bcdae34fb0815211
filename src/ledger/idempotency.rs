//! Idempotency-Key: same tenant, key and request, one upstream call, until the sandbox is gone or a day has passed.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Ledger, LedgerError, corrupt};
use crate::ids::{Marker, TenantName};
use crate::rules::entry::{Entry, State};
use crate::store::schema::{self, Idempotency, Key};
use crate::store::{Batch, Version};
use crate::time::{UnixMillis, millis};

/// How long a key is remembered at most.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A key as a create presents it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Names the record: hash of tenant and key.
    pub record: String,
    /// Hash of what was asked.
    pub request: String,
    /// The version of an obsolete record that may be overwritten (0: none).
    pub replaces: Version,
}

/// Whom a key belongs to.
#[derive(Clone, Debug)]
pub enum Claim {
    /// To nobody: the caller may take it (through [`super::Ask`]).
    Free(IdempotencyKey),
    /// To this create, which is the same request.
    Same(Box<Entry>),
    /// To this create, whose sandbox another holder has taken since.
    Overtaken,
    /// To another request.
    Mismatch,
}

/// Whether a repeated create had to be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// Its answer was lost, and this repetition has claimed what was found.
    Now,
    /// It was answered, or claimed before.
    NotNeeded,
}

/// A create that was asked for again.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// What it made.
    pub entry: Entry,
    /// Whether it is claimed by this.
    pub claim: Claiming,
}

impl IdempotencyKey {
    /// The key that `tenant` presents for a request made of `parts`.
    #[must_use]
    pub fn new(tenant: Option<&TenantName>, key: &str, parts: &[&[u8]]) -> Self {
        let tenant = tenant.map_or("", TenantName::as_str);
        let hash = |parts: &[&[u8]]| {
            let mut hasher = Sha256::new();
            for part in parts {
                hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                hasher.update(part);
            }
            hex::encode(hasher.finalize())
        };
        Self { record: hash(&[tenant.as_bytes(), key.as_bytes()]), request: hash(parts), replaces: 0 }
    }

    /// Adds to a batch that this key stands for the create of `entry`.
    pub(super) fn claim_in(&self, batch: &mut Batch, entry: &Entry, now: UnixMillis) {
        let record = Idempotency {
            request: self.request.clone(),
            marker: entry.marker.to_string(),
            generation: Some(entry.generation.0),
            expires: now.0.saturating_add(millis(LIFETIME)),
        };
        let key = Key::Idempotency(self.record.clone());
        batch.expect.push((key.clone(), self.replaces));
        batch.put.push((key, schema::encode(&record)));
    }
}

impl Ledger {
    /// Looks up whom a key belongs to. A record whose create was refused or whose sandbox is gone belongs to nobody.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn claim(&self, key: &IdempotencyKey) -> Result<Claim, LedgerError> {
        let name = Key::Idempotency(key.record.clone());
        let snapshot = self.read(std::slice::from_ref(&name)).await?;
        let record = &snapshot.records[0];
        let free = || Claim::Free(IdempotencyKey { replaces: record.version, ..key.clone() });
        if record.version == 0 {
            return Ok(free());
        }
        let held: Idempotency = schema::decode(&record.value).map_err(|what| corrupt(&name, what))?;
        let marker = Marker::new(&held.marker).map_err(|error| corrupt(&name, error.to_string()))?;
        let entry = self.entry(&marker).await?;
        match entry {
            Some(entry) if held.expires > snapshot.now.0 && !over(&entry) => {
                let overtaken = held.generation.is_some_and(|given| given != entry.generation.0);
                Ok(if held.request != key.request {
                    Claim::Mismatch
                } else if overtaken {
                    Claim::Overtaken
                } else {
                    Claim::Same(Box::new(entry))
                })
            }
            _ => Ok(free()),
        }
    }

    /// A retry proved to be the same: a found create is no longer killed at the end of its claim.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn claimed(&self, marker: &Marker) -> Result<Option<Repeated>, LedgerError> {
        let timing = self.settings.timing;
        let claimed = self
            .change(marker, |entry, now| match (entry.claim_until, entry.clone().claimed(now, &timing)) {
                (Some(_), Ok(next)) => {
                    let repeated = Repeated { entry: next.clone(), claim: Claiming::Now };
                    super::Step::Write(Box::new(next), None, Some(repeated))
                }
                (None, Ok(_)) => super::Step::Keep(Some(Repeated { entry, claim: Claiming::NotNeeded })),
                (_, Err(_)) => super::Step::Keep(None),
            })
            .await?;
        Ok(claimed.flatten())
    }
}

fn over(entry: &Entry) -> bool {
    matches!(entry.state, State::Refused | State::Gone { .. } | State::Killing(_) | State::Quarantined(_))
}
