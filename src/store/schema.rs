//! Every key of the ledger: what it holds, how long, who writes it.
//!
//! | key | holds | lives | written by |
//! |---|---|---|---|
//! | `meta` | [`Meta`]: format, ledger id, epoch | for ever | `Ledger::open` |
//! | `e:<marker>` | an entry | until its tombstone is over | every verb |
//! | `s:<sandbox id>` | the marker of the sandbox's entry | as its entry | birth, import |
//! | `i:<hash>` | an [`Idempotency`] record | a day, or until its sandbox is gone | create, purge |
//! | `o:<kind>:<id>` | an [`Object`]'s owner | until it is deleted | snapshots, volumes |
//! | `limits` | the [`Limits`] that hold | for ever | `Ledger::settle_limits` |
//! | `c:<upstream>` | the [`Leader`] of that Cube's wardens | for ever | `Ledger::lead` |
//! | `l:<bucket>:<owner>` | a [`Holding`]: the entry that its owner holds by a lease | as its entry | create, purge |
//! | `z:<hash>` | a [`Sealed`] lease id, which may never act again | 30 days | whoever overtakes or ends a lease |
//! | `n:<instance>` | a [`Beat`] of a running warden | until it ends, or an hour after its death | `Ledger::beat` |
//! | `c:<upstream>:<part>` | what a Cube's collector knows: `state`, and the marks by the first digit of their markers | for ever | the collector |
//!
//! | set | members | |
//! |---|---|---|
//! | `slots:<bucket>` | markers that hold a slot there | quota is counted here |
//! | `slots` | all of them | the global limit |
//! | `state:<state>:<bucket>`, `state:<state>` | markers by state (paused ones also under `paused`) | metrics |
//! | `objects:<kind>` | ids of recorded objects | lists |
//! | `instances` | wardens that have a beat | who is dead |
//!
//! Appointments: marker → the time at which somebody must look at the entry; `z:<hash>` → when the seal is forgotten.
//!
//! A live sandbox takes about 1.8 KB of Redis's memory with its sets, its appointment and its answer of a few hundred bytes
//! (`tests/redis/cost.rs` measures it); a decision about 300 bytes.
//!
//! Must stay true: an entry's sets follow from the entry alone ([`sets_of`]); a record of a later format is refused, not guessed at.

mod collector;
mod entry;
mod limits;
pub mod lines;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use collector::{decode_marks, decode_state, encode_marks, encode_state};
pub use entry::{decode_entry, encode_entry};
pub use limits::{Limits, WrittenSheet};

use crate::ids::{
    Bucket, InstanceId, LedgerId, Malformed, Marker, ObjectKind, OwnerId, SandboxId, UpstreamName,
};
use crate::rules::entry::Entry;
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
    /// Which entry an owner holds by a lease.
    Owner(Bucket, OwnerId),
    /// A sealed lease id, by the hash of bucket, owner and id.
    Sealed(String),
    /// The last beat of a running warden.
    Instance(InstanceId),
    /// A part of what the collector of a Cube knows.
    Collector(UpstreamName, Part),
    /// Who leads the wardens of a Cube.
    Leader(UpstreamName),
    /// The limits that hold.
    Limits,
    /// Any record, by the name that it has in a store: for export, import and checks.
    Named(String),
}

/// A part of what a collector knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All but the marks.
    State,
    /// The marks of the markers that begin with this hexadecimal digit.
    Marks(u8),
}

impl Part {
    /// All parts that hold marks.
    pub const MARKS: [Self; 16] = {
        let (mut parts, mut digit) = ([Self::Marks(0); 16], 0_u8);
        while digit < 16 {
            parts[digit as usize] = Self::Marks(digit);
            digit += 1;
        }
        parts
    };

    /// Where the mark of this entry lies.
    #[must_use]
    pub fn of(marker: &Marker) -> Self {
        let digit = marker.as_str().chars().next().and_then(|first| first.to_digit(16));
        Self::Marks(digit.and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State => f.write_str("state"),
            Self::Marks(digit) => write!(f, "m{digit:x}"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Entry(marker) => write!(f, "e:{marker}"),
            Self::Sandbox(id) => write!(f, "s:{id}"),
            Self::Idempotency(hash) => write!(f, "i:{hash}"),
            Self::Object(kind, id) => write!(f, "o:{}:{id}", kind_name(*kind)),
            Self::Owner(bucket, owner) => write!(f, "l:{bucket}:{owner}"),
            Self::Sealed(hash) => write!(f, "z:{hash}"),
            Self::Instance(instance) => write!(f, "n:{instance}"),
            Self::Collector(upstream, part) => write!(f, "c:{upstream}:{part}"),
            Self::Leader(upstream) => write!(f, "c:{upstream}"),
            Self::Limits => f.write_str("limits"),
            Self::Named(name) => f.write_str(name),
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
    /// Wardens that have a beat.
    Instances,
    /// Any set, by the name that it has in a store: for import.
    Named(String),
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(bucket) => write!(f, "slots:{bucket}"),
            Self::AllSlots => f.write_str("slots"),
            Self::State(state, bucket) => write!(f, "state:{state}:{bucket}"),
            Self::AllState(state) => write!(f, "state:{state}"),
            Self::Objects(kind) => write!(f, "objects:{}", kind_name(*kind)),
            Self::Instances => f.write_str("instances"),
            Self::Named(name) => f.write_str(name),
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
    /// When it was first founded, milliseconds: of two that claim one place, the older is right. 0: unknown.
    #[serde(default)]
    pub founded: u64,
    /// Since when it is being rebuilt, if it is, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuilding: Option<u64>,
    /// Until then nothing is judged, milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub judgement_from: u64,
    /// No generation below this is issued any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generations_from: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Meta {
    /// A ledger that is founded now.
    #[must_use]
    pub fn new(ledger: String, now: UnixMillis) -> Self {
        Self {
            format: FORMAT,
            ledger,
            epoch: now.0,
            imported: false,
            founded: now.0,
            rebuilding: None,
            judgement_from: 0,
            generations_from: 0,
        }
    }

    /// When it was first founded.
    #[must_use]
    pub fn founded(&self) -> u64 {
        if self.founded == 0 { self.epoch } else { self.founded }
    }

    /// The ledger's id.
    ///
    /// # Errors
    /// [`Malformed`] if the record was tampered with.
    pub fn ledger_id(&self) -> Result<LedgerId, Malformed> {
        LedgerId::new(&self.ledger)
    }
}

/// The format that a [`Meta`] record says it has, whatever else stands in it.
///
/// # Errors
/// A text that says what is wrong.
pub fn format_of(meta: &[u8]) -> Result<u32, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    decode::<Format>(meta).map(|meta| meta.format)
}

/// One Idempotency-Key of one tenant: which create it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// SHA-256 of the request (bucket, owner headers, body), hexadecimal.
    pub request: String,
    /// The entry of the one upstream call.
    pub marker: String,
    /// Under which generation its answer is given.
    ///
    /// Absent in records of programs that had no leases: there a sandbox had one holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
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

/// Which entry an owner holds by a lease, or held last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The entry's marker.
    pub marker: String,
    /// The generation that it was given first: the next one is greater.
    pub generation: u64,
}

/// A lease id that may never act again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Since when, milliseconds.
    pub since: u64,
}

/// A running warden's sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// When, by the ledger's clock, milliseconds.
    pub at: u64,
    /// The epoch that it has given what it remembers to.
    #[serde(default)]
    pub epoch: u64,
    /// The limits that it runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<WrittenSheet>,
}

/// Who leads the wardens of a Cube.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Which warden.
    pub instance: String,
    /// Until when, by the ledger's clock, milliseconds.
    pub until: u64,
    /// Rises with each leader.
    pub term: u64,
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

#[cfg(test)]
mod tests;
