//! Every way to say no, in one list.
//!
//! A refusal is not an error: it has a closed [`Reason`], a sentence that says what to do next, and evidence (numbers).
//! Must stay true: the body is a JSON object whose `code` equals the HTTP status (SDKs judge by it), it is never empty,
//! and statuses are standard ones. Deliberately absent: what happened inside; that goes to the log.

use serde_json::{Map, Value};

/// Why a call was refused. The wire names are normative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The bucket or the whole ledger has no slot left.
    CapacityExceeded,
    /// The tenant calls too often.
    RateLimited,
    /// The breaker for creates is open.
    WritePathOpen,
    /// The accounting authority cannot be reached.
    LedgerUnavailable,
    /// This warden is going away.
    Draining,
    /// The delete is written down and goes on; ask again.
    DeletePending,
    /// A create was sent and its answer was lost.
    OutcomeUnknown,
    /// A stale generation asked for an end.
    FencedGeneration,
    /// A stale generation asked for a pause: the same words, as SDKs read what a call's precondition is.
    FencedPause,
    /// A lease that was released or overtaken may not act again.
    LeaseSealed,
    /// The owner holds another lease, or another sandbox than the one asked for.
    LeaseMismatch,
    /// Cube does not move the end of a leased sandbox.
    RenewalFailed,
    /// The same Idempotency-Key came with another body.
    IdempotencyMismatch,
    /// No or an unknown credential.
    Unauthenticated,
    /// The tenant may not use that bucket.
    ForbiddenBucket,
    /// A field that policy denies.
    ForbiddenField,
    /// A write that the warden does not know how to govern.
    UngovernedRoute,
    /// No such object for this caller.
    NotFound,
    /// The request itself is malformed.
    BadRequest,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The client stalled while sending its body.
    RequestTimeout,
    /// Cube cannot be reached; nothing was sent.
    UpstreamUnreachable,
    /// Cube answered, and not with what it must say.
    UpstreamAnswer,
    /// Cube did not answer in time or broke off (not a create).
    UpstreamTimeout,
    /// A defect of the warden.
    Internal,
}

/// (reason, wire name, HTTP status): the one table.
const TABLE: [(Reason, &str, u16); 25] = [
    (Reason::CapacityExceeded, "CAPACITY_EXCEEDED", 429),
    (Reason::RateLimited, "RATE_LIMITED", 429),
    (Reason::WritePathOpen, "WRITE_PATH_OPEN", 503),
    (Reason::LedgerUnavailable, "LEDGER_UNAVAILABLE", 503),
    (Reason::Draining, "DRAINING", 503),
    (Reason::DeletePending, "DELETE_PENDING", 503),
    (Reason::OutcomeUnknown, "OUTCOME_UNKNOWN", 504),
    (Reason::FencedGeneration, "FENCED_GENERATION", 409),
    (Reason::FencedPause, "FENCED_GENERATION", 412),
    (Reason::LeaseSealed, "LEASE_SEALED", 409),
    (Reason::LeaseMismatch, "LEASE_MISMATCH", 409),
    (Reason::RenewalFailed, "RENEWAL_FAILED", 409),
    (Reason::IdempotencyMismatch, "IDEMPOTENCY_MISMATCH", 409),
    (Reason::Unauthenticated, "UNAUTHENTICATED", 401),
    (Reason::ForbiddenBucket, "FORBIDDEN_BUCKET", 403),
    (Reason::ForbiddenField, "FORBIDDEN_FIELD", 422),
    (Reason::UngovernedRoute, "UNGOVERNED_ROUTE", 422),
    (Reason::NotFound, "NOT_FOUND", 404),
    (Reason::BadRequest, "BAD_REQUEST", 400),
    (Reason::BodyTooLarge, "BODY_TOO_LARGE", 413),
    (Reason::RequestTimeout, "REQUEST_TIMEOUT", 408),
    (Reason::UpstreamUnreachable, "UPSTREAM_UNREACHABLE", 502),
    (Reason::UpstreamAnswer, "UPSTREAM_ANSWER", 502),
    (Reason::UpstreamTimeout, "UPSTREAM_TIMEOUT", 504),
    (Reason::Internal, "INTERNAL", 500),
];

impl Reason {
    /// Every reason, for metrics that must exist from the start.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> (Self, &'static str, u16) {
        let found = TABLE.into_iter().find(|row| row.0 == self);
        found.expect("every reason stands in the table; a test walks them")
    }

    /// The wire name, also the metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        self.row().2
    }
}

/// One number or text behind a verdict.
pub type Evidence = Vec<(&'static str, Value)>;

/// A refusal: reason, what to do next, and the numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The closed code.
    pub reason: Reason,
    /// What the caller should do; shown outside.
    pub message: String,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u32>,
    /// `Should-Retry`: set to false where a retry would do harm or cannot help.
    pub retry: Retry,
    /// The numbers, shown outside: never another tenant's.
    pub evidence: Evidence,
}

/// What is said of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Nothing: the status speaks for itself.
    Unsaid,
    /// `Should-Retry: false`.
    Never,
}

impl Refusal {
    /// A refusal with the retry hints that its reason always carries.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let (retry_after, retry) = match reason {
            Reason::WritePathOpen | Reason::LedgerUnavailable | Reason::Draining => (Some(5), Retry::Never),
            Reason::OutcomeUnknown => (None, Retry::Never),
            Reason::DeletePending => (Some(2), Retry::Unsaid),
            Reason::RateLimited => (Some(1), Retry::Unsaid),
            _ => (None, Retry::Unsaid),
        };
        Self { reason, message: message.into(), retry_after, retry, evidence: Evidence::new() }
    }

    /// Adds one piece of evidence.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.evidence.push((name, value.into()));
        self
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Says that a retry is of no use.
    #[must_use]
    pub fn never_retry(mut self) -> Self {
        self.retry = Retry::Never;
        self
    }

    /// `{"code": .., "message": .., "error_code": .., evidence..}` in this order.
    #[must_use]
    pub fn body(&self) -> String {
        let mut body = Map::new();
        body.insert("code".into(), self.reason.status().into());
        body.insert("message".into(), self.message.clone().into());
        body.insert("error_code".into(), self.reason.name().into());
        for (name, value) in &self.evidence {
            body.insert((*name).into(), value.clone());
        }
        Value::Object(body).to_string()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn every_reason_has_one_row_and_a_standard_status() {
        for reason in Reason::all() {
            assert_eq!(TABLE.iter().filter(|row| row.0 == reason).count(), 1);
            assert!(
                [400, 401, 403, 404, 408, 409, 412, 413, 422, 429, 500, 502, 503, 504]
                    .contains(&reason.status())
            );
        }
    }

    #[test]
    fn a_body_has_the_status_as_its_code_and_is_never_empty() {
        let refusal = Refusal::new(Reason::CapacityExceeded, "wait").with("limit", 10);
        let body: Value = serde_json::from_str(&refusal.body()).unwrap();
        assert_eq!(body["code"], 429);
        assert_eq!(body["error_code"], "CAPACITY_EXCEEDED");
        assert_eq!(body["limit"], 10);
        assert!(refusal.body().starts_with(r#"{"code":429,"message":"wait","error_code""#));
    }
}
