//! Every key of the ledger: what it holds, how long, who writes it.
//!
//! | key | holds | lives | written by |
//! |---|---|---|---|
//! | `meta` | [`Meta`]: format, ledger id, epoch | for ever | `Ledger::open` |
//! | `e:<marker>` | an entry | until its tombstone is over | every verb |
//! | `s:<sandbox id>` | the marker of the sandbox's entry | as its entry | birth, import |
//! | `i:<hash>` | an [`Idempotency`] record | a day, or until its sandbox is gone | create, purge |
//! | `o:<kind>:<id>` | an [`Object`]'s owner | until it is deleted | snapshots, volumes |
//!
//! | set | members | |
//! |---|---|---|
//! | `slots:<bucket>` | markers that hold a slot there | quota is counted here |
//! | `slots` | all of them | the global limit |
//! | `state:<state>:<bucket>`, `state:<state>` | markers by state (paused ones also under `paused`) | metrics |
//! | `objects:<kind>` | ids of recorded objects | lists |
//!
//! Appointments: marker → the time at which somebody must look at the entry.
//! Must stay true: an entry's sets follow from the entry alone ([`sets_of`]); a record of a later format is refused, not guessed at.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{
    Bucket, Generation, InstanceId, LedgerId, Malformed, Marker, ObjectKind, OperationId, OwnerId, SandboxId,
    TenantName, UpstreamName,
};
use crate::rules::entry::{Activity, Actor, Entry, Kill, Operation, Origin, Proof, Shape, State};
use crate::time::UnixMillis;

/// The format this program writes. A greater one is refused.
pub const FORMAT: u32 = 1;

/// The name of one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The ledger itself.
    Meta,
    /// An entry by its marker.
    Entry(Marker),
    /// The marker of a sandbox.
    Sandbox(SandboxId),
    /// An idempotency record by the hash of tenant and key.
    Idempotency(String),
    /// A snapshot or volume by its id.
    Object(ObjectKind, String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Entry(marker) => write!(f, "e:{marker}"),
            Self::Sandbox(id) => write!(f, "s:{id}"),
            Self::Idempotency(hash) => write!(f, "i:{hash}"),
            Self::Object(kind, id) => write!(f, "o:{}:{id}", kind_name(*kind)),
        }
    }
}

/// The name of one set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// Who holds a slot in a bucket.
    Slots(Bucket),
    /// Who holds a slot anywhere.
    AllSlots,
    /// Who is in a state (or `paused`) in a bucket.
    State(&'static str, Bucket),
    /// Who is in a state (or `paused`) anywhere.
    AllState(&'static str),
    /// Recorded snapshots or volumes.
    Objects(ObjectKind),
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(bucket) => write!(f, "slots:{bucket}"),
            Self::AllSlots => f.write_str("slots"),
            Self::State(state, bucket) => write!(f, "state:{state}:{bucket}"),
            Self::AllState(state) => write!(f, "state:{state}"),
            Self::Objects(kind) => write!(f, "objects:{}", kind_name(*kind)),
        }
    }
}

fn kind_name(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Snapshot => "snapshot",
        ObjectKind::Volume => "volume",
    }
}

/// The sets that an entry is a member of: they follow from the entry alone.
#[must_use]
pub fn sets_of(entry: &Entry) -> Vec<Set> {
    if !entry.charged() {
        return Vec::new();
    }
    let mut sets = vec![Set::Slots(entry.bucket.clone()), Set::AllSlots];
    let mut state = |name| {
        sets.push(Set::State(name, entry.bucket.clone()));
        sets.push(Set::AllState(name));
    };
    state(entry.state.name());
    if entry.paused_since().is_some() {
        state("paused");
    }
    sets
}

/// The ledger itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Format of the records.
    pub format: u32,
    /// `cw_ledger`.
    pub ledger: String,
    /// Changes when a ledger is rebuilt.
    pub epoch: u64,
    /// Whether the first inventory of Cube has been taken into the records.
    pub imported: bool,
}

impl Meta {
    /// The ledger's id.
    ///
    /// # Errors
    /// [`Malformed`] if the record was tampered with.
    pub fn ledger_id(&self) -> Result<LedgerId, Malformed> {
        LedgerId::new(&self.ledger)
    }
}

/// One Idempotency-Key of one tenant: which create it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// SHA-256 of the request (bucket, owner headers, body), hexadecimal.
    pub request: String,
    /// The entry of the one upstream call.
    pub marker: String,
    /// When it is forgotten at the latest, milliseconds.
    pub expires: u64,
}

/// Whose a snapshot or volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// `namespace/env`.
    pub bucket: String,
    /// When it was recorded, milliseconds.
    pub since: u64,
}

/// Serializes one of the small records.
///
/// # Panics
/// Never: records are maps of strings and numbers.
#[must_use]
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are maps of strings and numbers, which always serialize")
}

/// Reads one of the small records.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode<T: for<'a> Deserialize<'a>>(value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| error.to_string())
}

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
enum WrittenState {
    Reserved,
    Dispatched,
    Ambiguous { misses: u32 },
    Running,
    Paused { since: u64 },
    Killing(WrittenKill),
    Quarantined(WrittenKill),
    Refused,
    Gone { at: u64, proof: WrittenProof },
}

#[derive(Serialize, Deserialize)]
struct WrittenKill {
    actor: WrittenActor,
    since: u64,
    attempts: u32,
    #[serde(default)]
    absent_once: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenActor {
    Client,
    Abandoned,
    Recovery,
    Operator,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenProof {
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
mirror!(WrittenActor, Actor, Client, Abandoned, Recovery, Operator);
mirror!(WrittenProof, Proof, Deleted, DeleteNotFound, GetNotFound, NeverCame, NeverSent);

impl From<Kill> for WrittenKill {
    fn from(kill: Kill) -> Self {
        Self {
            actor: kill.actor.into(),
            since: kill.since.0,
            attempts: kill.attempts,
            absent_once: kill.absent_once,
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
            State::Gone { at, proof } => Self::Gone { at: at.0, proof: proof.into() },
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
            WrittenState::Gone { at, proof } => Self::Gone { at: UnixMillis(at), proof: proof.into() },
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
    let Format { v } = decode(value)?;
    if v > FORMAT {
        return Err(format!("it has format {v}, and this version reads up to {FORMAT}"));
    }
    let written: Written = decode(value)?;
    read_entry(written).map_err(|malformed| malformed.to_string())
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

#[cfg(test)]
mod tests;
