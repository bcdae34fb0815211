//! How what a collector knows is written: marks as short arrays, for there may be a hundred thousand. Times are
//! milliseconds since 1970.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{FORMAT, decode, encode};
use crate::ids::{Generation, InstanceId, Malformed, Marker};
use crate::rules::collector::mark::{Doing, Mark, Shown};
use crate::rules::collector::memory::{State, Sweep};
use crate::rules::collector::outage::{Outage, Outages};
use crate::time::UnixMillis;

#[derive(Serialize, Deserialize)]
struct WrittenState {
    v: u32,
    cycle: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted: Option<u64>,
    #[serde(default)]
    suspect: u32,
    #[serde(default)]
    hosts: BTreeMap<String, u64>,
    #[serde(default)]
    outages: Vec<(u64, u64)>,
    sweep: WrittenSweep,
}

#[derive(Serialize, Deserialize)]
struct WrittenSweep {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    planned: u64,
    condemned: u64,
    kept: u64,
    later: u64,
}

#[derive(Serialize, Deserialize)]
struct WrittenMarks {
    v: u32,
    marks: Vec<WrittenMark>,
}

/// Marker, generation, incarnation, since, counted, confirmed; then as Cube showed it: doing, start, end, start alone.
#[derive(Serialize, Deserialize)]
struct WrittenMark(String, u64, u32, u64, u64, u32, WrittenDoing, Option<u64>, Option<u64>, Option<u64>);

#[derive(Serialize, Deserialize)]
enum WrittenDoing {
    #[serde(rename = "r")]
    Running,
    #[serde(rename = "p")]
    Paused,
    #[serde(rename = "m")]
    Moving,
}

/// Writes all but the marks.
#[must_use]
pub fn encode_state(state: &State) -> Vec<u8> {
    let sweep = &state.sweep;
    encode(&WrittenState {
        v: FORMAT,
        cycle: state.cycle,
        leader: state.leader.as_ref().map(ToString::to_string),
        at: state.at.map(|at| at.0),
        trusted: state.trusted.map(|at| at.0),
        suspect: state.suspect,
        hosts: state.hosts.clone(),
        outages: state.outages.as_slice().iter().map(|outage| (outage.from.0, outage.to.0)).collect(),
        sweep: WrittenSweep {
            at: sweep.at.map(|at| at.0),
            planned: sweep.planned,
            condemned: sweep.condemned,
            kept: sweep.kept,
            later: sweep.later,
        },
    })
}

/// Reads all but the marks.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode_state(value: &[u8]) -> Result<State, String> {
    let written: WrittenState = decode(value)?;
    known(written.v)?;
    let outage = |(from, to)| Outage { from: UnixMillis(from), to: UnixMillis(to) };
    let leader = written.leader.as_deref().map(InstanceId::new).transpose();
    Ok(State {
        cycle: written.cycle,
        leader: leader.map_err(|malformed| malformed.to_string())?,
        at: written.at.map(UnixMillis),
        trusted: written.trusted.map(UnixMillis),
        suspect: written.suspect,
        hosts: written.hosts,
        outages: Outages::of(written.outages.into_iter().map(outage).collect()),
        sweep: Sweep {
            at: written.sweep.at.map(UnixMillis),
            planned: written.sweep.planned,
            condemned: written.sweep.condemned,
            kept: written.sweep.kept,
            later: written.sweep.later,
        },
    })
}

/// Writes the marks of one part.
#[must_use]
pub fn encode_marks(marks: &[(&Marker, &Mark)]) -> Vec<u8> {
    let one = |(marker, mark): &(&Marker, &Mark)| {
        let doing = match mark.shown.doing {
            Doing::Running => WrittenDoing::Running,
            Doing::Paused => WrittenDoing::Paused,
            Doing::Moving => WrittenDoing::Moving,
        };
        WrittenMark(
            marker.to_string(),
            mark.generation.0,
            mark.incarnation,
            mark.since.0,
            mark.counted.0,
            mark.confirmed,
            doing,
            mark.shown.started.map(|at| at.0),
            mark.shown.end.map(|at| at.0),
            mark.alone.map(|at| at.0),
        )
    };
    encode(&WrittenMarks { v: FORMAT, marks: marks.iter().map(one).collect() })
}

/// Reads the marks of one part.
///
/// # Errors
/// A text that says what is wrong.
pub fn decode_marks(value: &[u8]) -> Result<Vec<(Marker, Mark)>, String> {
    let written: WrittenMarks = decode(value)?;
    known(written.v)?;
    let read = written.marks.into_iter().map(read_mark).collect::<Result<_, Malformed>>();
    read.map_err(|malformed| malformed.to_string())
}

fn read_mark(written: WrittenMark) -> Result<(Marker, Mark), Malformed> {
    let WrittenMark(marker, generation, incarnation, since, counted, confirmed, doing, started, end, alone) =
        written;
    let doing = match doing {
        WrittenDoing::Running => Doing::Running,
        WrittenDoing::Paused => Doing::Paused,
        WrittenDoing::Moving => Doing::Moving,
    };
    let mark = Mark {
        generation: Generation(generation),
        incarnation,
        since: UnixMillis(since),
        counted: UnixMillis(counted),
        confirmed,
        shown: Shown { doing, started: started.map(UnixMillis), end: end.map(UnixMillis) },
        alone: alone.map(UnixMillis),
    };
    Ok((Marker::new(&marker)?, mark))
}

fn known(format: u32) -> Result<(), String> {
    if format > FORMAT {
        return Err(format!("it has format {format}, and this version reads up to {FORMAT}"));
    }
    Ok(())
}
