//! The limits that hold in the ledger, with a revision: what every living warden keeps within.
//!
//! Each warden's beat names the limits that it runs with; the ledger holds, for every bucket, the smallest of the living.
//! So a smaller limit holds everywhere at once, and a larger one as soon as no living warden says otherwise: a rolling
//! restart converges by itself. A slot is taken only on the revision that is known: nobody admits by one that is over.
//!
//! Must stay true: a warden beats with its limits before it settles them, and what it settles expects the revision that it
//! read before it looked who lives; so of two that start at once, the later one sees both.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use super::admission::Limits;
use super::{ATTEMPTS, Decision, Ledger, LedgerError, bytes_in, corrupt};
use crate::ids::Bucket;
use crate::rules::limits::{LimitSheet, smaller};
use crate::store::schema::{self, Key};
use crate::store::{Batch, Committed, Sharing, Version};

/// Limits as this warden knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct InForce {
    /// As it is configured; `None`: not at all.
    own: Option<LimitSheet>,
    /// As the ledger holds them, the version of the record that does, and their revision.
    ledger: Option<LimitSheet>,
    pub(super) version: Version,
    revision: u64,
    agree: bool,
}

/// Whether the wardens that live run with the same limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The revision in the ledger.
    pub revision: u64,
    /// Whether all agree; if not, the smaller hold.
    pub agree: bool,
}

impl Ledger {
    fn limits(&self) -> MutexGuard<'_, InForce> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limits that this warden is to run with: they hold in the ledger once they are settled.
    pub fn configure(&self, limits: LimitSheet) {
        self.limits().own = Some(limits);
        self.configured.notify_one();
    }

    /// Ready when the limits of this warden have changed and are to be settled.
    pub async fn configured(&self) {
        self.configured.notified().await;
    }

    /// The limits of this warden, if it has any.
    pub(super) fn own_limits(&self) -> Option<LimitSheet> {
        self.limits().own.clone()
    }

    /// Whether all agree, when last settled.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        let limits = self.limits();
        Agreement { revision: limits.revision, agree: limits.agree }
    }

    /// The limits that hold for a bucket, given what this warden is configured for.
    #[must_use]
    pub fn in_force(&self, bucket: &Bucket, own: Limits) -> Limits {
        match &self.limits().ledger {
            None => own,
            Some(sheet) => Limits {
                bucket: smaller(own.bucket, sheet.of(bucket)),
                global: smaller(own.global, sheet.global),
            },
        }
    }

    /// Buckets that hold more than they may, with both numbers: what was admitted on a ledger that had forgotten.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails.
    pub async fn excess(&self) -> Result<Vec<(Bucket, u64, u64)>, LedgerError> {
        let mut held: BTreeMap<Bucket, u64> = BTreeMap::new();
        for entry in self.charged(None).await?.0 {
            *held.entry(entry.bucket).or_default() += 1;
        }
        let over = held.into_iter().filter_map(|(bucket, held)| {
            let limit = self.in_force(&bucket, Limits::default()).bucket?;
            (held > limit).then_some((bucket, held, limit))
        });
        Ok(over.collect())
    }

    /// The record that a slot depends on; none where no limits are kept.
    pub(super) fn limits_expected(&self) -> Option<(Key, Version)> {
        let limits = self.limits();
        limits.own.is_some().then_some((Key::Limits, limits.version))
    }

    /// Whether the limits in the ledger are others than those that were known at `version`. If so, they are known now.
    pub(super) async fn limits_moved(&self, expected: Option<&(Key, Version)>) -> Result<bool, LedgerError> {
        let Some((_, version)) = expected else { return Ok(false) };
        let record = self.read(&[Key::Limits]).await?.records.remove(0);
        if record.version == *version {
            return Ok(false);
        }
        self.settle_limits().await?;
        Ok(true)
    }

    /// Brings the ledger's limits to what every living warden keeps within.
    ///
    /// # Errors
    /// [`LedgerError`] if the store fails or the record is corrupt.
    pub async fn settle_limits(&self) -> Result<Agreement, LedgerError> {
        for _ in 0..ATTEMPTS {
            let Some(own) = self.own_limits() else { break };
            let snapshot = self.read(&[Key::Limits]).await?;
            let version = snapshot.records[0].version;
            let stored = bytes_in(&Key::Limits, &snapshot.records[0])?;
            let stored: Option<schema::Limits> =
                stored.map(schema::decode).transpose().map_err(|what| corrupt(&Key::Limits, what))?;
            let others = match self.store.sharing() {
                Sharing::OneProcess => Vec::new(),
                Sharing::SeveralProcesses => self.limits_of_others().await?,
            };
            let agree = others.iter().all(|other| *other == own);
            let sheet = others.iter().fold(own.clone(), |sheet, other| sheet.smaller(other));
            let written = schema::WrittenSheet::from(&sheet);
            let revision = stored.as_ref().map_or(0, |stored| stored.revision);
            if stored.is_some_and(|stored| stored.sheet == written) {
                return Ok(self.know_limits(&own, sheet, version, revision, agree));
            }
            let next = schema::Limits { revision: revision + 1, sheet: written };
            let decision =
                Decision::new("limits_changed", if agree { "configured" } else { "wardens differ" });
            let decision = decision.with("revision", next.revision).at(snapshot.now);
            let batch = Batch {
                expect: vec![(Key::Limits, version)],
                put: vec![(Key::Limits, schema::encode(&next))],
                log: vec![decision.encode()],
                ..Batch::default()
            };
            if let Committed::Done(version) = self.write(batch).await? {
                return Ok(self.know_limits(&own, sheet, version, next.revision, agree));
            }
        }
        Ok(self.agreement())
    }

    fn know_limits(
        &self,
        own: &LimitSheet,
        sheet: LimitSheet,
        version: Version,
        revision: u64,
        agree: bool,
    ) -> Agreement {
        let mut limits = self.limits();
        if limits.own.as_ref() != Some(own) {
            // Configured anew meanwhile: that is settled next.
            self.configured.notify_one();
        }
        let own = limits.own.take();
        *limits = InForce { own, ledger: Some(sheet), version, revision, agree };
        Agreement { revision, agree }
    }
}
