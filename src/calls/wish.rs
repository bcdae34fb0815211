//! What a create asks for, and what becomes of its body: whose it will be, what policy denies, sets or clamps.

use std::time::Duration;

use bytes::Bytes;

use super::answers;
use super::classify::Prefix;
use super::context::{Ask, Governor};
use super::create_sandbox::KEPT;
use super::identity::{Origin, Owner, Said};
use super::mends::{self, Mend};
use crate::cube::api::{CreateBody, Edits, LabelNames, Labels, Lifecycle, OnTimeout, snapshot_id};
use crate::ids::{Bucket, LeaseId, Marker, OTHER, ObjectKind, OwnerId};
use crate::ledger::{self, IdempotencyKey, LeasePlan, OwnerClaim};
use crate::rules::entry::Keeper;
use crate::rules::policy::{BucketPolicy, OnTimeout as Policy, Permission};
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

/// A create, understood.
pub(super) struct Wish {
    /// As it came.
    pub(super) body: CreateBody,
    /// As it goes upstream.
    pub(super) upstream_body: Bytes,
    pub(super) bucket: Bucket,
    pub(super) marker: Marker,
    owner: Owner,
    policy: BucketPolicy,
    /// The timeout that goes upstream; `None`: Cube's default, which is never.
    timeout: Option<i64>,
    /// The seconds it was clamped to.
    pub(super) clamped: Option<i64>,
    /// Whether a retry could prove to be the same.
    pub(super) claimable: bool,
    /// The lease it would hold, where owners hold leases.
    pub(super) plan: Option<LeasePlan>,
}

impl Wish {
    pub(super) fn read(governor: &Governor, ask: &Ask, prefix: Prefix) -> Result<Self, Refusal> {
        let body = CreateBody::read(&ask.body).map_err(|error| malformed(&error))?;
        if prefix.is_v2() && governor.cube.profile().has_v2_create == Some(false) {
            mends::create_as_v1(&body)?;
        }
        let said =
            Said { headers: &ask.head.headers, metadata: &body.metadata, keys: &ask.settings.identity };
        let marker = governor.ledger.new_marker();
        let bucket = ask.who.bucket(&said)?;
        let owner = ask.who.owner(&bucket, &said, &marker)?;
        let policy = ask.settings.policies.of(&bucket).clone();
        let (timeout, clamped) = granted(&policy, &body);
        let mut wish = Self {
            upstream_body: Bytes::new(),
            body,
            bucket,
            marker,
            owner,
            policy,
            timeout,
            clamped,
            claimable: false,
            plan: None,
        };
        if wish.policy.reuse && wish.owner.origin == Origin::Named {
            let id = ask.lease_id()?.unwrap_or_else(|| governor.ledger.new_lease_id());
            wish.hold_by(id, Keeper::Calls);
        }
        wish.upstream_body = wish.edited(governor, ask);
        Ok(wish)
    }

    /// The owner that the caller named, if it did.
    pub(super) fn named_owner(&self) -> Option<String> {
        (self.owner.origin == Origin::Named).then(|| self.owner.id.to_string())
    }

    /// Its owner shall hold it by this lease, and be given it again.
    pub(super) fn hold_by(&mut self, id: LeaseId, keeper: Keeper) {
        let seconds = self.timeout.and_then(|seconds| u64::try_from(seconds).ok());
        let length = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        self.plan = Some(LeasePlan { id, keeper, length, asked_for: self.body.essence() });
        self.claimable = true;
    }

    /// Whether the caller named an owner: another create may name the same.
    pub(super) fn is_owned(&self) -> bool {
        self.owner.origin == Origin::Named
    }

    /// Whose it will be.
    pub(super) fn owner(&self) -> &OwnerId {
        &self.owner.id
    }

    /// What the ledger is asked for.
    pub(super) fn ledger_ask(
        &self,
        ask: &Ask,
        key: Option<IdempotencyKey>,
        claim: Option<OwnerClaim>,
    ) -> ledger::Ask {
        ledger::Ask {
            marker: self.marker.clone(),
            bucket: self.bucket.clone(),
            owner: self.owner.id.clone(),
            tenant: ask.who.tenant.clone(),
            template: self.body.template_id.as_deref().map(kept_template).unwrap_or_default(),
            metadata: self.body.metadata_json().filter(|text| text.len() <= KEPT),
            key,
            request: ask.request_id().map(str::to_owned),
            lease: claim.zip(self.plan.clone()),
        }
    }

    /// The end that Cube grants from `now` on; `None`: never.
    pub(super) fn deadline_from(&self, now: UnixMillis) -> Option<UnixMillis> {
        let seconds = u64::try_from(self.timeout?).ok()?;
        Some(now.plus(Duration::from_secs(seconds)))
    }

    /// The end that Cube grants if the client's own timeout goes up, unedited.
    pub(super) fn asked_deadline(&self, now: UnixMillis) -> Option<UnixMillis> {
        let seconds = u64::try_from(self.body.timeout?).ok()?;
        Some(now.plus(Duration::from_secs(seconds)))
    }

    /// Fields that the bucket's policy denies.
    pub(super) fn check_fields(&self) -> Result<(), Refusal> {
        deny(&self.policy, &self.body)
    }

    /// A foreign snapshot as template, or a foreign volume: as if it did not exist.
    pub(super) async fn check_objects(&self, governor: &Governor, ask: &Ask) -> Result<(), Refusal> {
        if let Some(snapshot) = self.body.template_id.as_deref().and_then(snapshot_id)
            && !governor.owns_object(ask, ObjectKind::Snapshot, snapshot).await?
        {
            return Err(answers::no_such_object("template", snapshot));
        }
        for volume in &self.body.volumes {
            if !governor.owns_object(ask, ObjectKind::Volume, volume).await? {
                return Err(answers::no_such_object("volume", volume));
            }
        }
        Ok(())
    }

    /// The bucket's rate of creates.
    pub(super) fn check_rate(&self, governor: &Governor, ask: &Ask) -> Result<(), Refusal> {
        let Some(rate) = self.policy.creates else { return Ok(()) };
        let named = (ask.settings.policies.label(&self.bucket) != OTHER).then_some(&self.bucket);
        governor.throttle.create(named, rate).map_err(|wait| {
            let message =
                format!("bucket {} allows {} creates per minute; slow down", self.bucket, rate.per_minute);
            Refusal::new(Reason::RateLimited, message).after(wait.0)
        })
    }

    fn edited(&self, governor: &Governor, ask: &Ask) -> Bytes {
        let names = LabelNames::new(&ask.settings.identity.metadata_prefix);
        let labels = Labels {
            bucket: self.bucket.clone(),
            owner: self.owner.id.clone(),
            ledger: governor.ledger.id(),
            marker: self.marker.clone(),
        };
        let mended = mends::lifecycle(&ask.settings.compat, &governor.cube.profile(), &self.body);
        if mended.is_some() {
            governor.metrics.mended(Mend::Lifecycle.name());
        }
        let edits = Edits {
            set_metadata: labels.pairs(&names),
            names,
            set_timeout: self.timeout.filter(|timeout| Some(*timeout) != self.body.timeout),
            lifecycle: self.lifecycle(mended),
        };
        let edited = self.body.edit(&edits);
        governor.metrics.reserved_overwritten(edited.overwritten.len());
        edited.body
    }

    /// What the bucket's policy says of a timeout goes before what the client says.
    fn lifecycle(&self, mended: Option<Lifecycle>) -> Option<Lifecycle> {
        let on_timeout = match self.policy.on_timeout {
            Policy::Client => return mended,
            Policy::Pause => OnTimeout::Pause,
            Policy::Kill => OnTimeout::Kill,
        };
        // A lifecycle that was not there takes the place of what is said beside it, also where that would be heeded.
        let beside = self.body.auto_resume.filter(|_| self.body.lifecycle.is_none());
        let said = mended.unwrap_or(Lifecycle { auto_resume: beside, ..Lifecycle::default() });
        Some(Lifecycle { on_timeout: Some(on_timeout), ..said })
    }
}

/// What the ledger keeps of a template's name: whoever sends a long one must not fill the disk with it.
fn kept_template(name: &str) -> String {
    const LONGEST: usize = 256;
    name.chars().take(LONGEST).collect()
}

/// A body that two readers could understand differently.
pub(super) fn malformed(error: &crate::cube::api::Malformed) -> Refusal {
    Refusal::new(Reason::BadRequest, error.to_string())
}

fn deny(policy: &BucketPolicy, body: &CreateBody) -> Result<(), Refusal> {
    let denied = [
        (body.mounts_host && policy.host_mount == Permission::Deny, "metadata.host-mount"),
        (body.chooses_nodes && policy.distribution_scope == Permission::Deny, "distributionScope"),
    ];
    match denied.into_iter().find(|(denied, _)| *denied) {
        Some((_, field)) => {
            let message =
                format!("{field} is not allowed in this bucket; leave it out, or ask your operator");
            Err(Refusal::new(Reason::ForbiddenField, message).with("field", field))
        }
        None => Ok(()),
    }
}

/// The timeout by policy, and what it was clamped to. A timeout of a wrong type stays: Cube answers 422.
fn granted(policy: &BucketPolicy, body: &CreateBody) -> (Option<i64>, Option<i64>) {
    if body.left_to_cube == Some("timeout") {
        return (None, None);
    }
    let seconds = |length: Duration| i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    let asked = body.timeout.or(policy.default_timeout.map(seconds));
    clamp(policy, asked)
}

/// Clamps a timeout (`None` and -1 are never) to the bucket's ceiling.
pub(super) fn clamp(policy: &BucketPolicy, asked: Option<i64>) -> (Option<i64>, Option<i64>) {
    let Some(most) = policy.max_timeout else { return (asked, None) };
    let most = i64::try_from(most.as_secs()).unwrap_or(i64::MAX);
    match asked {
        // Below -1 is malformed; Cube says so.
        Some(seconds) if seconds < -1 || (0..=most).contains(&seconds) => (asked, None),
        _ => (Some(most), Some(most)),
    }
}
