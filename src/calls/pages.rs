//! Pages: Cube's followed to their end, and our own cut from what is the caller's.
//!
//! Must stay true: no token of Cube's reaches a client, for its numbers count everybody's things; what cannot be followed
//! to its end is no list, and nothing is shown of it.

use bytes::Bytes;
use http::request::Parts;
use http::response::Parts as AnswerHead;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};

use super::context::{Ask, Governor};
use super::read_sandbox::unanswered;
use crate::cube::client::{MOST_PAGES, NEXT_TOKEN, Pace};
use crate::verdict::{Reason, Refusal};

/// Snapshots on a page of Cube, at most and if nothing is said.
const SNAPSHOTS: usize = 100;

/// What Cube answered to a list.
pub(super) enum Collected {
    /// All of its pages, with the head of the first, without what belongs to that one only.
    Whole(AnswerHead, Vec<Bytes>),
    /// Something else, as it came.
    Other(Response<Bytes>),
}

/// A list of Cube that does not say what it must, or does not end.
pub(super) fn unreadable(error: &dyn std::fmt::Display) -> Refusal {
    tracing::error!(%error, "Cube's list cannot be read");
    let message = "the Cube API answered with a list that cannot be read; try again, or ask your operator";
    Refusal::new(Reason::UpstreamAnswer, message)
}

impl Governor {
    /// Asks for a list at `path` with `query`, and for each page after the first. HEAD is asked as GET: its answer's head
    /// depends on what is the caller's.
    pub(super) async fn collect(&self, ask: &Ask, path: &str, query: &str) -> Result<Collected, Refusal> {
        let mut pages = Vec::new();
        let mut first: Option<AnswerHead> = None;
        let mut token = None;
        while pages.len() < MOST_PAGES {
            let head = page_head(ask, path, query, token.as_deref());
            let answer = self.cube.carry(head, Bytes::new(), Pace::Call).await;
            let answer = answer.map_err(|error| unanswered(&error))?;
            if answer.status() != StatusCode::OK {
                return Ok(Collected::Other(answer));
            }
            let (mut head, body) = answer.into_parts();
            pages.push(body);
            let next = head.headers.remove(NEXT_TOKEN).filter(|next| !next.is_empty());
            let next = next.and_then(|next| next.to_str().map(str::to_owned).ok());
            let head = first.get_or_insert(head);
            if next.is_none() || next == token {
                for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
                    head.headers.remove(name);
                }
                return Ok(Collected::Whole(head.clone(), pages));
            }
            token = next;
        }
        Err(unreadable(&"it has too many pages"))
    }
}

fn page_head(ask: &Ask, path: &str, query: &str, token: Option<&str>) -> Parts {
    let mut pairs = form_urlencoded::Serializer::new(query.to_owned());
    if let Some(token) = token {
        pairs.append_pair("nextToken", token);
    }
    let query = pairs.finish();
    let mut head = ask.head.clone();
    head.method = Method::GET;
    let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    if let Ok(uri) = target.parse() {
        head.uri = uri;
    }
    head
}

/// Which page of their snapshots somebody asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SnapshotQuery {
    /// The rest of the query, which goes to Cube.
    pub(super) rest: String,
    limit: usize,
    /// How many were shown, and the last of them.
    after: Option<(usize, String)>,
}

impl SnapshotQuery {
    pub(super) fn parse(query: &str) -> Result<Self, Refusal> {
        let mut read = Self { rest: String::new(), limit: SNAPSHOTS, after: None };
        let mut rest = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "limit" => {
                    let limit: i32 = value.parse().map_err(|_| bad("limit: it takes a whole number"))?;
                    read.limit = usize::try_from(limit).unwrap_or(1).clamp(1, SNAPSHOTS);
                }
                "nextToken" if value.is_empty() => {}
                "nextToken" => {
                    let after = value.split_once('-').and_then(|(shown, id)| Some((shown.parse().ok()?, id)));
                    let (shown, id) = after.ok_or_else(|| bad("nextToken: send what x-next-token gave"))?;
                    read.after = Some((shown, id.to_owned()));
                }
                _ => drop(rest.append_pair(&name, &value)),
            }
        }
        // Whole pages: what is somebody else's is left out of them here.
        rest.append_pair("limit", &SNAPSHOTS.to_string());
        read.rest = rest.finish();
        Ok(read)
    }

    /// The page of `all` (ids in Cube's order) that was asked for, and the token of the next. It goes on behind the last
    /// that was shown; if that is gone, behind as many.
    pub(super) fn page(&self, all: &[&str]) -> (std::ops::Range<usize>, Option<String>) {
        let from = self.after.as_ref().map_or(0, |(shown, last)| {
            all.iter().position(|id| id == last).map_or(*shown, |at| at + 1).min(all.len())
        });
        let to = from.saturating_add(self.limit).min(all.len());
        let next = (to < all.len()).then(|| format!("{to}-{}", all[to - 1]));
        (from..to, next)
    }
}

fn bad(message: &str) -> Refusal {
    Refusal::new(Reason::BadRequest, message)
}

/// Names the next page.
pub(super) fn set_next(head: &mut AnswerHead, next: Option<String>) {
    if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        head.headers.insert(HeaderName::from_static(NEXT_TOKEN), next);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    #[test]
    fn pages_hang_together_though_things_come_and_go_between_them() {
        let all = ["e", "d", "c", "b", "a"];
        let first = SnapshotQuery::parse("limit=2&sandboxID=x").unwrap();
        assert_eq!(first.rest, "sandboxID=x&limit=100");
        let (page, next) = first.page(&all);
        assert_eq!((page, next.as_deref()), (0..2, Some("2-d")));
        let second = SnapshotQuery::parse("nextToken=2-d&limit=2").unwrap();
        assert_eq!(second.page(&all), (2..4, Some("4-b".to_owned())));
        assert_eq!(second.page(&["f", "e", "d", "c"]), (3..4, None), "one more came in front");
        assert_eq!(second.page(&["e", "c", "b"]), (2..3, None), "the last that was shown is gone");
        assert_eq!(second.page(&[]), (0..0, None));
        for bad in ["limit=x", "nextToken=x", "nextToken=-a"] {
            assert!(SnapshotQuery::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(SnapshotQuery::parse("limit=-3").unwrap().page(&all).0, 0..1);
    }
}
