//! How leases and holds are written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{LeaseId, Malformed};
use crate::rules::entry::{Hold, Keeper, Lease};
use crate::time::{UnixMillis, millis};

#[derive(Serialize, Deserialize)]
pub(super) struct WrittenLease {
    id: String,
    keeper: WrittenKeeper,
    #[serde(skip_serializing_if = "Option::is_none")]
    length_ms: Option<u64>,
    renewed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenKeeper {
    Heartbeats,
    Calls,
}

#[derive(Serialize, Deserialize)]
pub(super) struct WrittenHold {
    since: u64,
    reason: String,
}

impl From<&Lease> for WrittenLease {
    fn from(lease: &Lease) -> Self {
        Self {
            id: lease.id.to_string(),
            keeper: match lease.keeper {
                Keeper::Heartbeats => WrittenKeeper::Heartbeats,
                Keeper::Calls => WrittenKeeper::Calls,
            },
            length_ms: lease.length.map(millis),
            renewed: lease.renewed.0,
            failing: lease.failing.map(|at| at.0),
        }
    }
}

pub(super) fn read_lease(written: &WrittenLease) -> Result<Lease, Malformed> {
    Ok(Lease {
        id: LeaseId::new(&written.id)?,
        keeper: match written.keeper {
            WrittenKeeper::Heartbeats => Keeper::Heartbeats,
            WrittenKeeper::Calls => Keeper::Calls,
        },
        length: written.length_ms.map(Duration::from_millis),
        renewed: UnixMillis(written.renewed),
        failing: written.failing.map(UnixMillis),
    })
}

impl From<&Hold> for WrittenHold {
    fn from(hold: &Hold) -> Self {
        Self { since: hold.since.0, reason: hold.reason.clone() }
    }
}

impl From<WrittenHold> for Hold {
    fn from(written: WrittenHold) -> Self {
        Self { since: UnixMillis(written.since), reason: written.reason }
    }
}
