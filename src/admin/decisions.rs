//! `/v1/admin/decisions`: the log, in order, by what it is about.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::Admin;
use super::answers::{self, Failure};
use super::query::Query;
use crate::ids::{Bucket, Marker, SandboxId};

const USUAL: usize = 100;
const MOST: usize = 1000;
/// Records that are read at once.
const PAGE: usize = 1000;
/// Records that one request looks at; the answer says where to go on.
const MOST_SEEN: usize = 20_000;

/// What decisions must be about.
#[derive(Default)]
pub(super) struct About(Vec<(&'static str, String)>);

impl About {
    /// A sandbox or create, by either of its names.
    pub(super) fn marker(marker: &Marker) -> Self {
        Self(vec![("marker", marker.to_string())])
    }

    fn read(query: &Query) -> Result<Self, Failure> {
        let named = [
            ("sandbox_id", query.get("sandbox", SandboxId::new)?.map(|id| id.to_string())),
            ("marker", query.get("marker", Marker::new)?.map(|marker| marker.to_string())),
            ("bucket", query.get("bucket", Bucket::parse)?.map(|bucket| bucket.to_string())),
        ];
        Ok(Self(named.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()))
    }

    fn fits(&self, record: &Map<String, Value>) -> bool {
        self.0.iter().all(|(field, value)| record.get(*field).and_then(Value::as_str) == Some(value))
    }
}

/// A part of the log.
pub(super) struct Excerpt {
    pub(super) records: Vec<Value>,
    /// Where to go on; `None` at the end of the log.
    pub(super) next_after: Option<u64>,
}

impl Admin {
    pub(super) async fn decisions(&self, query: &str) -> Result<Response<Bytes>, Failure> {
        let query = Query::read(query, &["after", "limit", "sandbox", "marker", "bucket"])?;
        let after = query.get("after", str::parse::<u64>)?.unwrap_or(0);
        let limit = query.limit(USUAL, MOST)?;
        let excerpt = self.excerpt(&About::read(&query)?, after, limit).await?;
        let body = json!({ "decisions": excerpt.records, "next_after": excerpt.next_after });
        Ok(answers::json(StatusCode::OK, &body))
    }

    /// Up to `most` decisions after `after`, oldest first.
    pub(super) async fn excerpt(
        &self,
        about: &About,
        mut after: u64,
        most: usize,
    ) -> Result<Excerpt, Failure> {
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
}

fn record(sequence: u64, text: &str) -> Option<Map<String, Value>> {
    let mut record = Map::new();
    record.insert("sequence".to_owned(), sequence.into());
    record.extend(serde_json::from_str::<Map<String, Value>>(text).ok()?);
    Some(record)
}
