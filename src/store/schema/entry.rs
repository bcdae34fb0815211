//! How an entry is written: a form of its own, apart from what the rules work with, so that either can change alone.

mod held;

use serde::{Deserialize, Serialize};

use self::held::{WrittenHold, WrittenLease, read_lease};
use super::{FORMAT, decode, encode};
use crate::ids::{
    Bucket, Generation, InstanceId, Malformed, Marker, OperationId, OwnerId, SandboxId, TenantName,
    UpstreamName,
};
use crate::rules::entry::{Activity, Actor, Entry, Kill, Operation, Origin, Proof, Shape, State, Struck};
use crate::time::UnixMillis;

/// An entry as it is written. Times are milliseconds since 1970.
#[derive(Serialize, Deserialize)]
struct Written {
    v: u32,
    marker: String,
    upstream: String,
    bucket: String,
    owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    origin: WrittenOrigin,
    instance: String,
    generation: u64,
    holders: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    claims: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<WrittenLease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_for: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    incarnation: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<WrittenHold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    template: String,
    cpu_milli: u64,
    memory_mib: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    asked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatched: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seen: Option<u64>,
    last_sign: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_until: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    operations: Vec<WrittenOperation>,
    state: WrittenState,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<u64>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenOrigin {
    Created,
    Imported,
    Round,
}

#[derive(Serialize, Deserialize)]
struct WrittenOperation {
    id: String,
    kind: String,
    until: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenState {
    Reserved,
    Dispatched,
    Ambiguous {
        misses: u32,
    },
    Running,
    Paused {
        since: u64,
    },
    Killing(WrittenKill),
    Quarantined(WrittenKill),
    Refused,
    Gone {
        at: u64,
        proof: WrittenProof,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        owed: bool,
    },
}

#[derive(Serialize, Deserialize)]
pub(super) struct WrittenKill {
    actor: WrittenActor,
    since: u64,
    attempts: u32,
    #[serde(default)]
    absent_once: bool,
    #[serde(default, skip_serializing_if = "WrittenStruck::never")]
    struck: WrittenStruck,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    owed: bool,
}

#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenStruck {
    #[default]
    Never,
    Maybe,
    Surely,
}

impl WrittenStruck {
    fn never(&self) -> bool {
        *self == Self::Never
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenActor {
    Client,
    Holder,
    Collector,
    Deferred,
    Abandoned,
    Recovery,
    Operator,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenProof {
    Deleted,
    DeleteNotFound,
    GetNotFound,
    NeverCame,
    NeverSent,
}

/// Two enums with the same variants, both ways.
macro_rules! mirror {
    ($written:ident, $meant:ident, $($variant:ident),+) => {
        impl From<$meant> for $written {
            fn from(meant: $meant) -> Self {
                match meant { $($meant::$variant => Self::$variant),+ }
            }
        }
        impl From<$written> for $meant {
            fn from(written: $written) -> Self {
                match written { $($written::$variant => Self::$variant),+ }
            }
        }
    };
}

mirror!(WrittenOrigin, Origin, Created, Imported, Round);
mirror!(WrittenActor, Actor, Client, Holder, Collector, Deferred, Abandoned, Recovery, Operator);
mirror!(WrittenStruck, Struck, Never, Maybe, Surely);
mirror!(WrittenProof, Proof, Deleted, DeleteNotFound, GetNotFound, NeverCame, NeverSent);

impl From<Kill> for WrittenKill {
    fn from(kill: Kill) -> Self {
        Self {
            actor: kill.actor.into(),
            since: kill.since.0,
            attempts: kill.attempts,
            absent_once: kill.absent_once,
            struck: kill.struck.into(),
            owed: kill.owed,
        }
    }
}

impl From<WrittenKill> for Kill {
    fn from(kill: WrittenKill) -> Self {
        Self {
            actor: kill.actor.into(),
            since: UnixMillis(kill.since),
            attempts: kill.attempts,
            absent_once: kill.absent_once,
            struck: kill.struck.into(),
            owed: kill.owed,
        }
    }
}

impl From<State> for WrittenState {
    fn from(state: State) -> Self {
        match state {
            State::Reserved => Self::Reserved,
            State::Dispatched => Self::Dispatched,
            State::Ambiguous { misses } => Self::Ambiguous { misses },
            State::Live(Activity::Running) => Self::Running,
            State::Live(Activity::Paused(since)) => Self::Paused { since: since.0 },
            State::Killing(kill) => Self::Killing(kill.into()),
            State::Quarantined(kill) => Self::Quarantined(kill.into()),
            State::Refused => Self::Refused,
            State::Gone { at, proof, owed } => Self::Gone { at: at.0, proof: proof.into(), owed },
        }
    }
}

impl From<WrittenState> for State {
    fn from(state: WrittenState) -> Self {
        match state {
            WrittenState::Reserved => Self::Reserved,
            WrittenState::Dispatched => Self::Dispatched,
            WrittenState::Ambiguous { misses } => Self::Ambiguous { misses },
            WrittenState::Running => Self::Live(Activity::Running),
            WrittenState::Paused { since } => Self::Live(Activity::Paused(UnixMillis(since))),
            WrittenState::Killing(kill) => Self::Killing(kill.into()),
            WrittenState::Quarantined(kill) => Self::Quarantined(kill.into()),
            WrittenState::Refused => Self::Refused,
            WrittenState::Gone { at, proof, owed } => {
                Self::Gone { at: UnixMillis(at), proof: proof.into(), owed }
            }
        }
    }
}

/// Writes an entry.
#[must_use]
pub fn encode_entry(entry: &Entry) -> Vec<u8> {
    let operation = |operation: &Operation| WrittenOperation {
        id: operation.id.to_string(),
        kind: operation.kind.clone(),
        until: operation.until.0,
    };
    encode(&Written {
        v: FORMAT,
        marker: entry.marker.to_string(),
        upstream: entry.upstream.to_string(),
        bucket: entry.bucket.to_string(),
        owner: entry.owner.to_string(),
        tenant: entry.tenant.as_ref().map(ToString::to_string),
        origin: entry.origin.into(),
        instance: entry.instance.to_string(),
        generation: entry.generation.0,
        holders: entry.holders,
        claims: entry.claims,
        lease: entry.lease.as_ref().map(Into::into),
        asked_for: entry.asked_for.clone(),
        incarnation: entry.incarnation,
        hold: entry.hold.as_ref().map(Into::into),
        released: entry.released.map(|at| at.0),
        sandbox: entry.sandbox.as_ref().map(ToString::to_string),
        template: entry.template.clone(),
        cpu_milli: entry.shape.cpu_milli,
        memory_mib: entry.shape.memory_mib,
        metadata: entry.metadata.clone(),
        claim: entry.claim.clone(),
        answer: entry.answer.clone(),
        asked: entry.asked.0,
        dispatched: entry.dispatched.map(|at| at.0),
        first_seen: entry.first_seen.map(|at| at.0),
        last_sign: entry.last_sign.0,
        deadline: entry.deadline.map(|at| at.0),
        claim_until: entry.claim_until.map(|at| at.0),
        operations: entry.operations.iter().map(operation).collect(),
        state: entry.state.clone().into(),
        due: entry.due.map(|at| at.0),
    })
}

/// Reads an entry.
///
/// # Errors
/// A text that says what is wrong: not ours, of a later format, or malformed.
pub fn decode_entry(value: &[u8]) -> Result<Entry, String> {
    /// The one field that every format has: a later one may lack or rename all others.
    #[derive(Deserialize)]
    struct Format {
        v: u32,
    }
    let later = |v| format!("it has format {v}, and this version reads up to {FORMAT}");
    match decode::<Written>(value) {
        Ok(written) if written.v > FORMAT => Err(later(written.v)),
        Ok(written) => read_entry(written).map_err(|malformed| malformed.to_string()),
        Err(malformed) => match decode(value) {
            Ok(Format { v }) if v > FORMAT => Err(later(v)),
            _ => Err(malformed),
        },
    }
}

fn read_entry(written: Written) -> Result<Entry, Malformed> {
    let operation = |operation: WrittenOperation| {
        let id = OperationId::new(&operation.id)?;
        Ok(Operation { id, kind: operation.kind, until: UnixMillis(operation.until) })
    };
    Ok(Entry {
        marker: Marker::new(&written.marker)?,
        upstream: UpstreamName::new(&written.upstream)?,
        bucket: Bucket::parse(&written.bucket)?,
        owner: OwnerId::new(&written.owner)?,
        tenant: written.tenant.as_deref().map(TenantName::new).transpose()?,
        origin: written.origin.into(),
        instance: InstanceId::new(&written.instance)?,
        generation: Generation(written.generation),
        holders: written.holders,
        claims: written.claims,
        lease: written.lease.as_ref().map(read_lease).transpose()?,
        asked_for: written.asked_for,
        incarnation: written.incarnation,
        hold: written.hold.map(Into::into),
        released: written.released.map(UnixMillis),
        sandbox: written.sandbox.as_deref().map(SandboxId::new).transpose()?,
        template: written.template,
        shape: Shape { cpu_milli: written.cpu_milli, memory_mib: written.memory_mib },
        metadata: written.metadata,
        claim: written.claim,
        answer: written.answer,
        asked: UnixMillis(written.asked),
        dispatched: written.dispatched.map(UnixMillis),
        first_seen: written.first_seen.map(UnixMillis),
        last_sign: UnixMillis(written.last_sign),
        deadline: written.deadline.map(UnixMillis),
        claim_until: written.claim_until.map(UnixMillis),
        operations: written.operations.into_iter().map(operation).collect::<Result<_, Malformed>>()?,
        state: written.state.into(),
        due: written.due.map(UnixMillis),
    })
}
