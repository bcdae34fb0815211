//! One sandbox, or one create on its way: what may become of it.
//!
//! ```text
//! reserved ──► dispatched ──► live ──► killing ──► gone
//!    │             ├──► refused          │  ▲
//!    ▼ lapses      └──► ambiguous ──► live  quarantined
//!   gone                    └──► gone (never came to be)
//! ```
//!
//! Must stay true: all states but refused and gone hold a slot; from killing there is no way back to live (the state is
//! the fence); nothing becomes gone without proof. Each event is a method that returns the entry as it would be, and
//! does nothing; an event that does not fit the state is [`Unfit`], never a silent change.

mod actor;
mod birth;
mod end;
mod lease;
mod operator;
#[cfg(test)]
pub(super) mod tests;
mod timing;
mod usage;

use std::time::Duration;

use crate::ids::{
    Bucket, Generation, InstanceId, Marker, OperationId, OwnerId, SandboxId, TenantName, UpstreamName,
};
use crate::time::UnixMillis;

pub use actor::Actor;
pub use lease::{Acquired, Keeper, Lease, generation_after};
pub use timing::Timing;

/// How an entry came into the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Asked for through the warden.
    Created,
    /// Found at the first start, or later with our marks but without a record.
    Imported,
    /// Appeared later without our marks: made round the warden.
    Round,
}

/// CPU and memory, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Thousandths of a CPU.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
}

/// A call under way upstream that touches the sandbox. It lapses by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Which registration.
    pub id: OperationId,
    /// What kind of call, for explanations.
    pub kind: String,
    /// From here on it no longer counts: the upstream budget and a margin are over.
    pub until: UnixMillis,
}

/// What makes us sure that a sandbox does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// DELETE answered 204; or it was gone by the rules of a 404 after a DELETE whose answer was lost.
    Deleted,
    /// DELETE answered 404.
    DeleteNotFound,
    /// GET answered 404 with a JSON body.
    GetNotFound,
    /// Not in three trusted listings until past the horizon.
    NeverCame,
    /// The reservation lapsed before anything was sent.
    NeverSent,
}

impl Proof {
    /// The name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::DeleteNotFound => "delete_not_found",
            Self::GetNotFound => "get_not_found",
            Self::NeverCame => "never_came",
            Self::NeverSent => "never_sent",
        }
    }
}

/// A written-down intent to kill and how far it got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kill {
    /// Who wanted it.
    pub actor: Actor,
    /// When it was written down.
    pub since: UnixMillis,
    /// Failed tries so far.
    pub attempts: u32,
    /// Cube said "not found" while the entry was too young to believe it: the caller may be told, the slot stays.
    pub absent_once: bool,
    /// Whether a DELETE of ours reached it.
    pub struck: Struck,
    /// A client asked for this end and was sent away before it came: its repeated DELETE gets the 204.
    pub owed: bool,
}

impl Kill {
    /// An intent that was just written down.
    #[must_use]
    pub fn new(actor: Actor, since: UnixMillis) -> Self {
        Self { actor, since, attempts: 0, absent_once: false, struck: Struck::Never, owed: false }
    }
}

/// Whether a DELETE of ours reached a condemned sandbox. What is not found afterwards was ended by it, as far as anybody
/// can tell, and whoever asked for that end is told so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Struck {
    /// None went out, or Cube refused it.
    #[default]
    Never,
    /// One went out and nobody knows what came of it: no proof of anything, only the words for it.
    Maybe,
    /// Cube deleted it while a call was in flight: a later "not found" is the end of that delete, at any age.
    Surely,
}

/// Running or paused; both hold a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Running, as far as known.
    Running,
    /// Paused since then.
    Paused(UnixMillis),
}

/// Where an entry stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A slot is held; nothing was sent.
    Reserved,
    /// The ledger has confirmed that the create may go out.
    Dispatched,
    /// The answer was lost; it may have happened.
    Ambiguous {
        /// Trusted listings since dispatch that did not show it.
        misses: u32,
    },
    /// It exists.
    Live(Activity),
    /// Condemned; dead to every caller.
    Killing(Kill),
    /// Condemned, and killing it failed too often; still charged, retried slowly.
    Quarantined(Kill),
    /// Cube refused the create; the slot is back.
    Refused,
    /// Proven gone; kept as a tombstone.
    Gone {
        /// When it was proven.
        at: UnixMillis,
        /// What proved it.
        proof: Proof,
        /// A client asked for this end and was not told of it: its repeated DELETE gets the 204, once.
        owed: bool,
    },
}

impl State {
    /// The closed set of names, as in metrics and the admin interface.
    pub const NAMES: [&'static str; 8] =
        ["reserved", "dispatched", "ambiguous", "live", "killing", "quarantined", "refused", "gone"];

    /// The name in records, metrics and the admin interface.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let at = match self {
            Self::Reserved => 0,
            Self::Dispatched => 1,
            Self::Ambiguous { .. } => 2,
            Self::Live(_) => 3,
            Self::Killing(_) => 4,
            Self::Quarantined(_) => 5,
            Self::Refused => 6,
            Self::Gone { .. } => 7,
        };
        Self::NAMES[at]
    }
}

/// One sandbox, or one create on its way, keyed by its marker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The key, also Cube's `cw_marker`.
    pub marker: Marker,
    /// Which Cube it belongs to.
    pub upstream: UpstreamName,
    /// Where it is counted.
    pub bucket: Bucket,
    /// Whose it is inside the bucket.
    pub owner: OwnerId,
    /// Which tenant asked (none in open mode and for imports).
    pub tenant: Option<TenantName>,
    /// How it came here.
    pub origin: Origin,
    /// Which process asked Cube for it.
    pub instance: InstanceId,
    /// The fencing token.
    pub generation: Generation,
    /// How many holders there have been.
    pub holders: u32,
    /// Claims on it that nobody has given up.
    pub claims: u32,
    /// The exclusive claim of its present holder, where holders have one.
    pub lease: Option<Lease>,
    /// Hash of what was asked for, metadata and timeout apart: only who asks for the same is given it again.
    pub asked_for: Option<String>,
    /// Rises with each resume and rollback, and resets what a collector has seen; never the fence.
    pub incarnation: u32,
    /// An operator keeps it.
    pub hold: Option<Hold>,
    /// When an operator released what was found, not made, for judgement.
    pub released: Option<UnixMillis>,
    /// Cube's id, once known.
    pub sandbox: Option<SandboxId>,
    /// The template it was made from.
    pub template: String,
    /// CPU and memory as far as known.
    pub shape: Shape,
    /// The client's metadata as it came (a JSON object), up to 4 KiB. Data: never interpreted.
    pub metadata: Option<String>,
    /// The idempotency record that could claim it, if any.
    pub claim: Option<String>,
    /// Cube's answer to the create (holds the traffic token that is given only once), up to 4 KiB.
    pub answer: Option<String>,
    /// When it was asked for.
    pub asked: UnixMillis,
    /// When the ledger let it go upstream.
    pub dispatched: Option<UnixMillis>,
    /// When the warden first saw the id.
    pub first_seen: Option<UnixMillis>,
    /// The last sign of life that the warden saw.
    pub last_sign: UnixMillis,
    /// The end that was granted (none: never, or unknown).
    pub deadline: Option<UnixMillis>,
    /// When a found create that nobody claimed is killed.
    pub claim_until: Option<UnixMillis>,
    /// Calls under way.
    pub operations: Vec<Operation>,
    /// Where it stands.
    pub state: State,
    /// When somebody must look at it again.
    pub due: Option<UnixMillis>,
}

/// An operator's word that keeps a sandbox until it is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// Since when.
    pub since: UnixMillis,
    /// Why, in the operator's words. Data: never interpreted.
    pub reason: String,
}

/// What is known of a sandbox once it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Cube's id.
    pub sandbox: SandboxId,
    /// The answer to keep, if it came.
    pub answer: Option<String>,
    /// The granted end (none: never, or unknown).
    pub deadline: Option<UnixMillis>,
}

/// What a finished operation did to the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that the ledger keeps.
    None,
    /// Paused.
    Paused,
    /// Woken, or known to run.
    Running,
    /// The deadline moved (none: never).
    Deadline(Option<UnixMillis>),
    /// Woken, and the deadline moved.
    RunningUntil(Option<UnixMillis>),
    /// Set back to an earlier state; it runs.
    Rewound,
}

/// The event does not fit the state; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The state does not know this event.
    #[error("an entry that is {0} cannot do that")]
    State(&'static str),
    /// Calls are under way on it.
    #[error("operations are in flight on the entry")]
    Busy,
    /// A "not found" on something this young proves nothing yet.
    #[error("the entry is too young for a 404 to be believed")]
    Newborn,
}

impl Entry {
    /// Whether it holds a slot.
    #[must_use]
    pub fn charged(&self) -> bool {
        !matches!(self.state, State::Refused | State::Gone { .. })
    }

    /// Whether callers may still use it.
    #[must_use]
    pub fn usable(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// Since when it is paused, if it is.
    #[must_use]
    pub fn paused_since(&self) -> Option<UnixMillis> {
        match self.state {
            State::Live(Activity::Paused(since)) => Some(since),
            _ => None,
        }
    }

    /// Whether any operation still counts at `now`.
    #[must_use]
    pub fn busy(&self, now: UnixMillis) -> bool {
        self.operations.iter().any(|operation| operation.until > now)
    }

    fn unfit(&self) -> Unfit {
        Unfit::State(self.state.name())
    }
}

/// How a try to kill ended without proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillFailure {
    /// Not a failure: Cube said when to ask again.
    NotYet {
        /// How long to wait.
        wait: Duration,
    },
    /// Not a failure: a call is in flight that could bring it back.
    InFlight {
        /// How long to wait.
        wait: Duration,
    },
    /// "Not found", but too young to be believed.
    TooYoung,
    /// Unclear or refused.
    Failed,
}
