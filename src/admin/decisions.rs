//! `/v1/admin/decisions`: the log, in order, by what it is about.

use std::collections::VecDeque;
use std::convert::Infallible;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::{Bucket, Marker, OwnerId, SandboxId};
use crate::time::{UnixMillis, parse_rfc3339};

const USUAL: usize = 100;
const MOST: usize = 1000;
/// Records that are read at once.
const PAGE: usize = 1000;
/// Records that one request looks at; the answer says where to go on.
const MOST_SEEN: usize = 20_000;

/// What can be asked for.
const KNOWN: [&str; 10] =
    ["after", "newest", "limit", "sandbox", "marker", "bucket", "owner", "kind", "request", "since"];

/// What decisions must be about.
#[derive(Default)]
struct About {
    fields: Vec<(&'static str, String)>,
    since: Option<UnixMillis>,
}

impl About {
    fn read(query: &Query) -> Result<Self, Failure> {
        let named = [
            ("sandbox_id", query.get("sandbox", SandboxId::new)?.map(|id| id.to_string())),
            ("marker", query.get("marker", Marker::new)?.map(|marker| marker.to_string())),
            ("bucket", query.get("bucket", Bucket::parse)?.map(|bucket| bucket.to_string())),
            ("owner_id", query.get("owner", OwnerId::new)?.map(|owner| owner.to_string())),
            ("decision", query.get("kind", |kind| Ok::<_, Infallible>(kind.to_owned()))?),
            ("request_id", query.get("request", |id| Ok::<_, Infallible>(id.to_owned()))?),
        ];
        let fields = named.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
        let since = |text: &str| parse_rfc3339(text).ok_or("wanted a time such as 2026-05-01T00:00:00Z");
        Ok(Self { fields, since: query.get("since", since)? })
    }

    fn fits(&self, record: &Map<String, Value>) -> bool {
        let text = |field: &str| record.get(field).and_then(Value::as_str);
        let late = |since| text("at").and_then(parse_rfc3339).is_some_and(|at| at >= since);
        self.fields.iter().all(|(field, value)| text(field) == Some(value)) && self.since.is_none_or(late)
    }
}

/// A part of the log.
struct Excerpt {
    records: Vec<Value>,
    /// Where to go on; `None` at the end of the log.
    next_after: Option<u64>,
}

impl Admin {
    pub(super) async fn decisions(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        let query = Query::read(query, &KNOWN)?;
        let after = query.get("after", str::parse::<u64>)?;
        let limit = query.limit(USUAL, MOST)?;
        let about = About::read(&query)?;
        let newest = query.get("newest", str::parse::<bool>)?.unwrap_or(false);
        let excerpt = match (newest, after) {
            (true, Some(_)) => {
                return Err(Failure::Parameter("Ask for \"newest\" or for what is \"after\".".to_owned()));
            }
            (true, None) => {
                let records = self.newest(limit, |_| true, |record| about.fits(record)).await?;
                let next_after = records.last().and_then(|record| record.get("sequence")?.as_u64());
                Excerpt { records: records.into_iter().map(Value::Object).collect(), next_after }
            }
            (false, after) => self.excerpt(&about, after.unwrap_or(0), limit).await?,
        };
        let body = json!({ "decisions": excerpt.records, "next_after": excerpt.next_after });
        Ok(answers::json(StatusCode::OK, &body))
    }

    /// Up to `most` decisions after `after`, oldest first.
    async fn excerpt(&self, about: &About, mut after: u64, most: usize) -> Result<Excerpt, Failure> {
        let mut records = Vec::new();
        for _ in 0..MOST_SEEN / PAGE {
            let page = self.ledger.decisions(after, PAGE).await?;
            let last_page = page.len() < PAGE;
            for (sequence, text) in page {
                after = sequence;
                records
                    .extend(record(sequence, &text).filter(|record| about.fits(record)).map(Value::Object));
                if records.len() == most {
                    return Ok(Excerpt { records, next_after: Some(after) });
                }
            }
            if last_page {
                return Ok(Excerpt { records, next_after: None });
            }
        }
        Ok(Excerpt { records, next_after: Some(after) })
    }

    /// The newest `most` decisions that fit, oldest first; only lines that are `wanted` are read at all.
    pub(super) async fn newest(
        &self,
        most: usize,
        wanted: impl Fn(&str) -> bool,
        fits: impl Fn(&Map<String, Value>) -> bool,
    ) -> Result<Vec<Map<String, Value>>, Failure> {
        let mut kept = VecDeque::new();
        self.each_decision(wanted, |record| {
            if fits(record) {
                kept.push_back(record.clone());
                if kept.len() > most {
                    kept.pop_front();
                }
            }
        })
        .await?;
        Ok(kept.into())
    }

    /// Every decision whose line is `wanted`, oldest first, to the end of the log.
    pub(super) async fn each_decision(
        &self,
        wanted: impl Fn(&str) -> bool,
        mut take: impl FnMut(&Map<String, Value>),
    ) -> Result<(), Failure> {
        let mut after = 0;
        loop {
            let page = self.ledger.decisions(after, PAGE).await?;
            for (sequence, text) in page.iter().filter(|(_, text)| wanted(text)) {
                if let Some(record) = record(*sequence, text) {
                    take(&record);
                }
            }
            match page.last() {
                Some((sequence, _)) if page.len() == PAGE => after = *sequence,
                _ => return Ok(()),
            }
        }
    }
}

fn record(sequence: u64, text: &str) -> Option<Map<String, Value>> {
    let mut record = Map::new();
    record.insert("sequence".to_owned(), sequence.into());
    record.extend(serde_json::from_str::<Map<String, Value>>(text).ok()?);
    Some(record)
}
