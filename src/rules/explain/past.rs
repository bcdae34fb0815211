//! What the decision log says of something that the ledger has forgotten, or that never had an entry, explained.

use super::{Explanation, Piece, Source, Verdict, span};
use crate::time::UnixMillis;

/// One record of the log, as far as an explanation needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// When it was written.
    pub at: Option<UnixMillis>,
    /// `condemned`, `gone`, `refused`, ...
    pub kind: String,
    /// The closed code, or the words of whoever wanted it.
    pub why: String,
    /// Who wanted it.
    pub actor: Option<String>,
    /// What was said outside.
    pub message: Option<String>,
    /// Where it was counted.
    pub bucket: Option<String>,
    /// By which request.
    pub request: Option<String>,
    /// The fingerprint of the policy in force.
    pub policy: Option<String>,
    /// The limit that was met, where one was.
    pub limit: Option<u64>,
    /// How many were held then.
    pub held: Option<u64>,
}

/// Explains records about one thing, oldest first.
#[must_use]
pub fn of_past(past: &[Past], now: UnixMillis) -> Explanation {
    let last = |kind: &str| past.iter().rev().find(|record| record.kind == kind);
    let gone = last("gone").or_else(|| last("released"));
    let refused = last("refused").or_else(|| last("would_refuse"));
    let evidence = past.iter().map(piece).collect();
    let (verdict, branch, flip) = match (last("condemned"), gone, refused) {
        (Some(condemned), Some(_), _) => (Verdict::Ended, ended(condemned, now), None),
        (Some(condemned), None, _) => (Verdict::Ending, ended(condemned, now), None),
        (None, Some(gone), _) => (Verdict::Ended, vanished(gone), None),
        (None, None, Some(refused)) => (Verdict::Refused, turned_away(refused), flip(refused)),
        (None, None, None) => (Verdict::Unknown, "the log says no more than this".to_owned(), None),
    };
    Explanation { verdict, branch, evidence, flip }
}

/// Who wanted it, and when.
fn ended(condemned: &Past, now: UnixMillis) -> String {
    let actor = condemned.actor.as_deref().unwrap_or("somebody");
    let ago = condemned.at.map_or(String::new(), |at| format!(" {} ago", span(now.since(at))));
    format!("{actor} wanted its end{ago}: {}", condemned.why)
}

/// It went without anybody's wish here.
fn vanished(gone: &Past) -> String {
    match gone.why.as_str() {
        "get_not_found" | "delete_not_found" => {
            "Cube had ended it by itself (its timeout, or somebody round the warden)".to_owned()
        }
        "never_came" | "never_sent" => "it never came to be".to_owned(),
        why => format!("its slot was given back: {why}"),
    }
}

fn turned_away(refused: &Past) -> String {
    let would = if refused.kind == "would_refuse" { "would have been refused" } else { "was refused" };
    let message = refused.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    format!("the call {would} with {}{message}", refused.why)
}

fn piece(record: &Past) -> Piece {
    let mut says = record.why.clone();
    let more = [
        ("by", &record.actor),
        ("bucket", &record.bucket),
        ("request", &record.request),
        ("policy", &record.policy),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            says.extend([format!("; {name} {value}")]);
        }
    }
    let what = KINDS.into_iter().find(|kind| *kind == record.kind).unwrap_or("decision");
    Piece::new(what, says, Source::Log, record.at)
}

/// Kinds of records; a record of another kind was written by a later version.
const KINDS: [&str; 18] = [
    "admitted",
    "live",
    "reused",
    "refused",
    "would_refuse",
    "condemned",
    "would_condemn",
    "deferred",
    "fenced",
    "gone",
    "released",
    "ambiguous",
    "quarantined",
    "imported",
    "held",
    "unheld",
    "released_import",
    "renewal_failed",
];

/// The least change that would have let a refused call through.
fn flip(refused: &Past) -> Option<String> {
    let bucket = refused.bucket.as_deref().unwrap_or("its bucket");
    Some(match refused.why.as_str() {
        "CAPACITY_EXCEEDED" => match (refused.limit, refused.held) {
            (Some(limit), held) => {
                let more = held.unwrap_or(limit).max(limit).saturating_add(1);
                format!("limit {more} for bucket {bucket} would have admitted it")
            }
            (None, _) => "a larger admission.global_limit would have admitted it".to_owned(),
        },
        "RATE_LIMITED" => {
            format!("a larger creates_per_minute for bucket {bucket}, or calls_per_second of its tenant")
        }
        "UNAUTHENTICATED" => "its key's hash in keys_sha256 of a [[tenant]]".to_owned(),
        "FORBIDDEN_BUCKET" => "the bucket it asked for among its tenant's buckets".to_owned(),
        "FORBIDDEN_FIELD" => format!("host_mount or distribution_scope = \"allow\" for bucket {bucket}"),
        "UNGOVERNED_ROUTE" => "nothing but a later version: this write is not governed yet".to_owned(),
        "FENCED_GENERATION" => "the current id or lease: the caller's was overtaken".to_owned(),
        "LEASE_SEALED" => "a new lease_id: this one was released or overtaken".to_owned(),
        "IDEMPOTENCY_MISMATCH" => "another Idempotency-Key, or the same body".to_owned(),
        "DRAINING" => "the same call to another warden".to_owned(),
        "LEDGER_UNAVAILABLE" => "a ledger that answers; no policy had a say".to_owned(),
        "WRITE_PATH_OPEN" => "a Cube that takes writes again; no policy had a say".to_owned(),
        "UPSTREAM_UNREACHABLE" | "UPSTREAM_TIMEOUT" | "UPSTREAM_ANSWER" | "OUTCOME_UNKNOWN" => {
            "a Cube that answers; no policy had a say".to_owned()
        }
        _ => return None,
    })
}
