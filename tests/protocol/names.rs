//! The names of the few things there are, made once.
#![expect(clippy::unwrap_used, reason = "the names are well formed")]

use std::sync::LazyLock;

use cubewarden::ids::{Bucket, InstanceId, LeaseId, Marker, OperationId, OwnerId, SandboxId, UpstreamName};

use super::world::N;

pub(super) struct Names {
    pub(super) markers: Vec<Marker>,
    pub(super) sandboxes: Vec<SandboxId>,
    pub(super) operations: Vec<OperationId>,
    pub(super) leases: Vec<LeaseId>,
    pub(super) instances: Vec<InstanceId>,
    pub(super) upstream: UpstreamName,
    pub(super) bucket: Bucket,
    pub(super) owner: OwnerId,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let digits = |length: usize| (0..10).map(move |digit: usize| digit.to_string().repeat(length));
    Names {
        markers: digits(32).map(|text| Marker::new(&text).unwrap()).collect(),
        sandboxes: digits(32).map(|text| SandboxId::new(&text).unwrap()).collect(),
        operations: digits(16).map(|text| OperationId::new(&text).unwrap()).collect(),
        leases: digits(32).map(|text| LeaseId::new(&text).unwrap()).collect(),
        instances: digits(16).map(|text| InstanceId::new(&text).unwrap()).collect(),
        upstream: UpstreamName::new("cube").unwrap(),
        bucket: Bucket::parse("default/dev").unwrap(),
        owner: OwnerId::new("default.dev.-.run").unwrap(),
    }
});

pub(super) fn names() -> &'static Names {
    &NAMES
}

pub(super) fn sandbox(n: N) -> SandboxId {
    names().sandboxes[usize::from(n)].clone()
}

pub(super) fn operation(wish: u8) -> OperationId {
    names().operations[usize::from(wish)].clone()
}

pub(super) fn lease(wish: u8) -> LeaseId {
    names().leases[usize::from(wish)].clone()
}
