//! What a caller shows to be the present holder, and what it is told if it is not.
//!
//! Must stay true: each thing that is shown must be true (a stale one is never overlooked because another is current); the
//! present holder's tokens are never told to somebody else.

use http::{HeaderName, HeaderValue};

use super::answers;
use super::classify::Act;
use super::context::{Ask, Governor};
use crate::ids::{LeaseId, SandboxRef};
use crate::rules::delete::Shown;
use crate::telemetry::Decision;
use crate::verdict::{Reason, Refusal};

/// The lease that a caller says it holds; and, in answers, the one it was given.
pub(super) const LEASE_ID: HeaderName = HeaderName::from_static("x-cube-lease-id");

impl Ask {
    /// What the caller shows: the generation of a qualified id, the lease of its header.
    pub(super) fn shown(&self, sandbox: &SandboxRef) -> Result<Shown, Refusal> {
        let lease = self.lease_id()?;
        Ok(Shown { lease, ..Shown::of_generation(sandbox.generation) })
    }

    /// The lease of the header, if there is one.
    pub(super) fn lease_id(&self) -> Result<Option<LeaseId>, Refusal> {
        let mut values = self.head.headers.get_all(LEASE_ID).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let lease = value.to_str().ok().and_then(|text| LeaseId::new(text.trim()).ok());
        if lease.is_none() || values.next().is_some() {
            let message = "X-Cube-Lease-Id takes 1 to 128 of [A-Za-z0-9._:-], once";
            return Err(Refusal::new(Reason::BadRequest, message));
        }
        Ok(lease)
    }
}

impl Governor {
    /// A stale generation is gone for whoever presents it; a stale lease is named as what it is; whoever pauses must not
    /// think that it paused itself (409 would say so). Counted, whatever was asked.
    pub(super) fn fenced(&self, sandbox: &SandboxRef, shown: &Shown, act: Option<&Act>) -> Refusal {
        self.metrics.decided(Decision::Fenced);
        tracing::info!(sandbox_id = %sandbox.id, "a holder that was overtaken asked for something; nothing was done");
        if act == Some(&Act::Pause) {
            let message = "this id is of an earlier holder; nothing was paused, get the sandbox anew";
            return Refusal::new(Reason::FencedPause, message);
        }
        if shown.lease.is_none() {
            return answers::no_such(sandbox.id.as_str());
        }
        let message = "the lease in X-Cube-Lease-Id does not hold this sandbox; nothing was done, create or connect anew";
        Refusal::new(Reason::FencedGeneration, message)
    }
}

/// The sandbox has had several holders, and the caller does not show which one it is.
pub(super) fn unproven(reason: Reason) -> Refusal {
    let message = "this sandbox has had several holders and a bare id does not show which one you are; nothing was done, \
                   use the id with its generation or send X-Cube-Lease-Id";
    Refusal::new(reason, message)
}

/// The lease as a header value.
pub(super) fn header(lease: &LeaseId) -> Option<HeaderValue> {
    HeaderValue::from_str(lease.as_str()).ok()
}
