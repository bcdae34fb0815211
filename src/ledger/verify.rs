//! Whether what lies in a store is a ledger: every invariant that the records can show, each problem with what to do.
//!
//! Must stay true: it only looks. What the running program repairs by itself (a stale idempotency record) is no problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::moving::{Content, follows};
use crate::ids::{Bucket, Marker};
use crate::rules::entry::Entry;
use crate::store::schema::{self, Beat, Holding, Idempotency, Leader, Limits, Meta, Object};
use crate::time::UnixMillis;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub key: String,
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub mend: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.key, self.what, self.mend)
    }
}

/// What helps against most of it: records are right, and what follows from them is made anew.
const MOVE: &str =
    "export the ledger and import it into an empty store, which makes sets and appointments anew";
/// A record that nobody can read.
const TAKE_AWAY: &str =
    "restore it from a copy, or take the key away: the inventory finds what exists at Cube without a record";
/// Something of somebody else's.
const NOT_OURS: &str = "find out who wrote it; this program leaves it as it is";

/// Everything that is wrong with a ledger; none if it is as it should be.
#[must_use]
pub fn problems(content: &Content) -> Vec<Problem> {
    let mut found = Found::default();
    found.meta(content);
    let entries = found.records(content);
    found.indexes(content, &entries);
    found.sets(content);
    found.appointments(content);
    for (key, what) in &content.foreign {
        found.say(key, what.clone(), NOT_OURS);
    }
    found.problems
}

#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    /// What the sets should hold.
    sets: BTreeMap<String, BTreeSet<String>>,
    appointments: BTreeMap<String, UnixMillis>,
}

impl Found {
    fn say(&mut self, key: &str, what: impl Into<String>, mend: &'static str) {
        self.problems.push(Problem { key: key.to_owned(), what: what.into(), mend });
    }

    fn meta(&mut self, content: &Content) {
        let Some(meta) = content.records.get("meta") else {
            let what = "there is no ledger here";
            return self.say("meta", what, "look whether the configuration names the right store");
        };
        let read = schema::decode::<Meta>(meta);
        let read = read.and_then(|meta| meta.ledger_id().map(|_| meta).map_err(|error| error.to_string()));
        match read {
            Ok(meta) if meta.rebuilding.is_some() => {
                self.say("meta", "the ledger is being rebuilt", "start a warden and let it finish");
            }
            Ok(_) => {}
            Err(what) => self.say("meta", what, "restore it from a copy"),
        }
    }

    /// Looks at each record by itself, and gathers what follows from it. Returns the entries that can be read.
    fn records(&mut self, content: &Content) -> BTreeMap<String, Entry> {
        let mut entries = BTreeMap::new();
        for (key, value) in &content.records {
            match follows(key, value) {
                Ok(follows) => {
                    for (set, member) in follows.sets {
                        self.sets.entry(set.to_string()).or_default().insert(member);
                    }
                    self.appointments.extend(follows.appointment);
                }
                Err(what) => {
                    self.say(key, what, TAKE_AWAY);
                    continue;
                }
            }
            let (kind, id) = key.split_once(':').unwrap_or((key, ""));
            let read = match kind {
                "e" => {
                    let entry = schema::decode_entry(value);
                    entry.map(|entry| drop(entries.insert(id.to_owned(), entry)))
                }
                "i" => schema::decode::<Idempotency>(value).map(drop),
                "o" => schema::decode::<Object>(value).and_then(|object| {
                    Bucket::parse(&object.bucket).map(drop).map_err(|error| error.to_string())
                }),
                "n" => schema::decode::<Beat>(value).map(drop),
                "l" => schema::decode::<Holding>(value).map(drop),
                "c" => schema::decode::<Leader>(value).map(drop),
                "limits" => schema::decode::<Limits>(value)
                    .and_then(|limits| limits.sheet.meant().map(drop).map_err(|error| error.to_string())),
                "import" => Err("an import was begun here and not finished".to_owned()),
                _ if schema::lines::kind_of(key) == "other" => {
                    self.say(key, "no version that is known here writes such a key", NOT_OURS);
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(what) = read {
                let unfinished = kind == "import";
                self.say(key, what, if unfinished { "run the same import again" } else { TAKE_AWAY });
            }
        }
        entries
    }

    /// Sandboxes and entries name each other.
    fn indexes(&mut self, content: &Content, entries: &BTreeMap<String, Entry>) {
        for (key, value) in &content.records {
            let Some(sandbox) = key.strip_prefix("s:") else { continue };
            let named = Marker::new(&String::from_utf8_lossy(value));
            let entry = named.as_ref().ok().and_then(|marker| entries.get(marker.as_str()));
            match (named, entry) {
                (Err(error), _) => self.say(key, error.to_string(), TAKE_AWAY),
                (Ok(marker), None) => {
                    self.say(key, format!("it names the entry e:{marker}, which is not there"), TAKE_AWAY);
                }
                (Ok(_), Some(entry)) => {
                    if entry.sandbox.as_ref().is_none_or(|of| of.as_str() != sandbox) {
                        let what = format!("it names e:{}, which is another sandbox's", entry.marker);
                        self.say(key, what, TAKE_AWAY);
                    }
                }
            }
        }
        for entry in entries.values().filter(|entry| entry.charged()) {
            let Some(sandbox) = &entry.sandbox else { continue };
            let index = content.records.get(&format!("s:{sandbox}"));
            if index.is_none_or(|index| index != entry.marker.as_str().as_bytes()) {
                let what =
                    format!("it holds a slot for the sandbox {sandbox}, and s:{sandbox} does not name it");
                self.say(
                    &format!("e:{}", entry.marker),
                    what,
                    "restore s:… from a copy: it holds the marker alone",
                );
            }
        }
    }

    fn sets(&mut self, content: &Content) {
        let wanted = std::mem::take(&mut self.sets);
        let names: BTreeSet<&String> = wanted.keys().chain(content.sets.keys()).collect();
        let none = BTreeSet::new();
        for name in names {
            let wanted = wanted.get(name).unwrap_or(&none);
            let there: BTreeSet<String> = content.sets.get(name).into_iter().flatten().cloned().collect();
            for member in wanted.difference(&there) {
                self.say(name, format!("{member} is missing from it"), MOVE);
            }
            for member in there.difference(wanted) {
                self.say(name, format!("{member} is in it, and no record says so"), MOVE);
            }
        }
    }

    fn appointments(&mut self, content: &Content) {
        let wanted = std::mem::take(&mut self.appointments);
        let members: BTreeSet<&String> = wanted.keys().chain(content.appointments.keys()).collect();
        for member in members {
            let what = match (wanted.get(member), content.appointments.get(member)) {
                (Some(wanted), Some(there)) if wanted == there => continue,
                (Some(wanted), Some(there)) => {
                    format!("it is to be looked at {wanted}, and is noted for {there}")
                }
                (Some(wanted), None) => format!("it is to be looked at {wanted}, and nobody will"),
                (None, _) => "it has an appointment, and no record says so".to_owned(),
            };
            let key = if member.contains(':') { member.clone() } else { format!("e:{member}") };
            self.say(&key, what, MOVE);
        }
    }
}
