//! The filters and pages of a list, which Cube does not do right and the warden does instead.
//!
//! E2B's SDKs percent-encode metadata three times, others twice or once; `a%2520b` may be the text of one or the space of
//! another. Must stay true: a pair matches if any of the readings does, name and value read alike; no bytes make this
//! panic; unknown parameters and states are ignored, as Cube ignores them. Pages follow (startedAt descending, id), which
//! no sandbox that is added or removed between two pages can shift. Deliberately absent: whose the items are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use super::classify::Prefix;
use crate::cube::api::{Listed, SandboxState};
use crate::ids::SandboxId;
use crate::time::UnixMillis;
use crate::verdict::{Reason, Refusal};

/// What a list was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    metadata: Vec<Pair>,
    states: Vec<Shown>,
    limit: Option<usize>,
    after: Option<Place>,
}

/// A state that a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Running,
    Paused,
}

/// A pair of the metadata filter in each of its readings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair([(String, String); 3]);

/// A place in the order of lists: pages end at one and go on behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(Reverse<UnixMillis>, SandboxId);

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What stands on it.
    pub items: Vec<Listed>,
    /// The value of `x-next-token`; `None` on the last page.
    pub next: Option<String>,
}

impl ListQuery {
    /// Reads a query string. Version 1 of the list knows `metadata` only, and has no pages.
    ///
    /// # Errors
    /// 400 for a limit that is no number or stands there twice, or a token that is not ours.
    pub fn parse(prefix: Prefix, query: &str) -> Result<Self, Refusal> {
        let mut read = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "metadata" => read.metadata.extend(value.split('&').filter_map(Pair::read)),
                "state" if prefix.is_v2() => read.states.extend(value.split(',').filter_map(Shown::read)),
                "limit" if prefix.is_v2() => read.set_limit(&value)?,
                "nextToken" if prefix.is_v2() && !value.is_empty() => {
                    let place = Place::read(&value);
                    read.after = Some(place.ok_or_else(|| bad("nextToken: send what x-next-token gave"))?);
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// Nothing and negative numbers count as one, as with Cube.
    fn set_limit(&mut self, value: &str) -> Result<(), Refusal> {
        let number = value.parse::<i32>().map_err(|_| bad("limit: it takes a whole number"))?;
        match self.limit.replace(usize::try_from(number.max(1)).unwrap_or(1)) {
            None => Ok(()),
            Some(_) => Err(bad("limit: it is accepted once")),
        }
    }

    /// Does an item pass the filters?
    #[must_use]
    pub fn matches(&self, item: &Listed) -> bool {
        let state = self.states.is_empty() || self.states.contains(&Shown::of(&item.state));
        state && self.metadata.iter().all(|pair| pair.matches(&item.metadata))
    }

    /// Filters, sorts, and cuts out the page asked for. Without a limit there is one page: clients exist that never ask
    /// for a second.
    #[must_use]
    pub fn page(&self, items: Vec<Listed>) -> Page {
        let mut items: Vec<Listed> = items.into_iter().filter(|item| self.matches(item)).collect();
        items.sort_by_cached_key(Place::of);
        if let Some(after) = &self.after {
            items.retain(|item| Place::of(item) > *after);
        }
        let limit = self.limit.unwrap_or(usize::MAX);
        let next = (items.len() > limit).then(|| Place::of(&items[limit - 1]).token());
        items.truncate(limit);
        Page { items, next }
    }
}

fn bad(message: &str) -> Refusal {
    Refusal::new(Reason::BadRequest, message)
}

impl Shown {
    fn read(text: &str) -> Option<Self> {
        match text {
            "running" => Some(Self::Running),
            "paused" => Some(Self::Paused),
            _ => None,
        }
    }

    /// What is on its way to paused counts as paused; what Cube has no word for, it calls running.
    fn of(state: &SandboxState) -> Self {
        match state {
            SandboxState::Paused | SandboxState::Pausing => Self::Paused,
            SandboxState::Running | SandboxState::Other(_) => Self::Running,
        }
    }
}

impl Pair {
    /// Reads `name=value`; `None` without `=` or without a name, which Cube ignores too.
    fn read(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
        let percent = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let form = |text: &str| percent(&text.replace('+', " "));
        let thrice = |text: &str| percent(&form(text));
        let reading = |decode: &dyn Fn(&str) -> String| (decode(name), decode(value));
        Some(Self([reading(&str::to_owned), reading(&form), reading(&thrice)]))
    }

    fn matches(&self, metadata: &BTreeMap<String, String>) -> bool {
        self.0.iter().any(|(name, value)| metadata.get(name) == Some(value))
    }
}

impl Place {
    /// An item whose start Cube has forgotten stands last.
    fn of(item: &Listed) -> Self {
        Self(Reverse(item.started_at.unwrap_or_default()), item.id.clone())
    }

    fn token(&self) -> String {
        format!("{:x}-{}", self.0.0.0, self.1)
    }

    fn read(token: &str) -> Option<Self> {
        let (started, id) = token.split_once('-')?;
        let started = u64::from_str_radix(started, 16).ok()?;
        Some(Self(Reverse(UnixMillis(started)), SandboxId::new(id).ok()?))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn item(n: u32, started: &str, state: &str, metadata: &str) -> Listed {
        let item = format!(
            r#"{{"sandboxID":"{n:032x}","startedAt":"{started}","state":"{state}","metadata":{metadata}}}"#
        );
        Listed::read(&item).unwrap()
    }

    fn query(text: &str) -> Result<ListQuery, u16> {
        ListQuery::parse(Prefix::V2, text).map_err(|refusal| refusal.reason.status())
    }

    fn matches(text: &str, metadata: &str) -> bool {
        query(text).unwrap().matches(&item(1, "2026-01-01T00:00:00Z", "running", metadata))
    }

    #[test]
    fn a_metadata_filter_means_the_same_however_often_it_was_encoded() {
        let metadata = r#"{"team":"a b","u":"x&y","dir":"a+b","ü/1":"50%","j=1":"k"}"#;
        for (hit, text) in [
            // what the recorded SDKs send: thrice
            (true, "metadata=team%3Da%252520b%26u%3Dx%252526y&state=running%2Cpaused&limit=2"),
            (true, "metadata=team%3Da%252520b%26u%3Dx%252526y&state=running,paused&limit=2"),
            (true, "metadata=team%3Da%2520b"),
            (true, "metadata=team%3Da%20b"),
            (true, "metadata=team%3Da+b"),
            (true, "metadata=team%3Da%2Bb"),
            (true, "metadata=dir%3Da%2Bb"),
            (true, "metadata=dir%3Da%25252Bb"),
            (true, "metadata=%2525C3%2525BC%25252F1%3D50%252525"),
            (true, "metadata=j%25253D1%3Dk"),
            (false, "metadata=team%3Da%252520c"),
            (false, "metadata=team%3Da%252520b%26u%3Dz"),
            (false, "metadata=u%3Dx%26y%3Dz"),
            (false, "metadata=nobody%3Da"),
            (true, "metadata=u%3Dx%252526y&metadata=team%3Da%20b"),
            (false, "metadata=u%3Dx%252526y&metadata=team%3Dno"),
        ] {
            assert_eq!(matches(text, metadata), hit, "{text}");
        }
    }

    #[test]
    fn what_cube_ignores_is_ignored_here_too() {
        for text in [
            "",
            "metadata=",
            "metadata=abc",
            "metadata=%3Dx",
            "state=foo",
            "order=desc&template=t",
            "nextToken=",
            "&&=",
            "state=",
        ] {
            assert!(matches(text, "{}"), "{text}");
        }
        let v1 = ListQuery::parse(Prefix::Root, "limit=abc&state=paused&nextToken=x&metadata=a%3Db").unwrap();
        assert!(v1.limit.is_none() && v1.states.is_empty());
        assert!(!v1.matches(&item(1, "", "running", "{}")));
    }

    #[test]
    fn a_limit_that_is_no_number_or_a_foreign_token_is_400() {
        for text in [
            "limit=abc",
            "limit=",
            "limit=1.5",
            "limit=1&limit=2",
            "nextToken=tok-page-2",
            "nextToken=5",
            "nextToken=zz-0",
        ] {
            assert_eq!(query(text), Err(400), "{text}");
        }
        for text in ["limit=0", "limit=-1", "limit=1"] {
            assert_eq!(query(text).unwrap().limit, Some(1), "{text}");
        }
    }

    #[test]
    fn a_state_filter_takes_lists_and_repetitions_and_pausing_is_paused() {
        let hits = |text: &str| {
            let states = ["running", "paused", "pausing", "odd"];
            let of = |state: &&str| query(text).unwrap().matches(&item(1, "", state, "{}"));
            states.into_iter().filter(of).collect::<Vec<_>>()
        };
        assert_eq!(hits("state=paused"), ["paused", "pausing"]);
        assert_eq!(hits("state=running,foo"), ["running", "odd"]);
        assert_eq!(hits("state=running%2Cpaused").len(), 4);
        assert_eq!(hits("state=running&state=paused").len(), 4);
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_repetition_even_if_the_list_changes() {
        let second = |n: u32| format!("2026-01-01T00:00:{:02}Z", n / 2);
        let mut items: Vec<Listed> = (0..9).map(|n| item(n, &second(n), "running", "{}")).collect();
        items.push(item(99, "", "paused", "{}"));
        let (mut token, mut seen, mut pages) = (String::new(), Vec::new(), 0);
        loop {
            let page = query(&format!("limit=3&nextToken={token}")).unwrap().page(items.clone());
            seen.extend(page.items.iter().map(|item| item.id.clone()));
            pages += 1;
            // one that was shown goes away, a new one comes: neither shifts what is still to be shown
            items.retain(|item| item.id != seen[0]);
            items.push(item(100 + pages, "2027-01-01T00:00:00Z", "running", "{}"));
            let Some(next) = page.next else { break };
            token = next;
        }
        let ids: Vec<u32> = seen.iter().map(|id| u32::from_str_radix(id.as_str(), 16).unwrap()).collect();
        assert_eq!(ids, [8, 6, 7, 4, 5, 2, 3, 0, 1, 99]);
        assert_eq!(query("").unwrap().page(items).next, None);
    }
}
