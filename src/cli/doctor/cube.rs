//! What Cube says: whether it answers, lets the warden in, which version it behaves like, and what time it has.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};

use super::Severity::{Danger, Note, Warning};
use super::{Finding, ill, well};
use crate::cli::check::{client, key_wanted};
use crate::config::Settings;
use crate::cube::client::{Client, ListFailed, Pace};
use crate::cube::profile::{Probe, Profile};
use crate::time::{Clock, UnixMillis, parse_http_date};

/// Clocks this far apart break nothing and mislead whoever reads logs.
pub(super) const APART: Duration = Duration::from_secs(10);

pub(super) async fn look(settings: &Settings, clock: &Arc<dyn Clock>) -> anyhow::Result<Vec<Finding>> {
    let client = client(settings, clock)?;
    let base = &settings.cube.base;
    if !client.is_up().await {
        let says = format!("GET {base}health got no good answer");
        let remedy = "start CubeAPI, or set upstream.url to where it listens";
        return Ok(vec![ill(Danger, "cube", says, remedy)]);
    }
    let mut found = vec![well("cube", format!("{base} answers"))];
    found.push(match client.list(&client.own_credential()).await {
        Ok(listed) => well("credential", format!("Cube lists {} sandboxes to the warden", listed.len())),
        Err(ListFailed::KeyWanted) => ill(
            Danger,
            "credential",
            "Cube does not let the warden in: collector and imports are off",
            key_wanted(settings),
        ),
        Err(error) => ill(Danger, "credential", error.to_string(), "look at CubeAPI's log"),
    });
    for probe in [Probe::DeleteOfNobody, Probe::TimeoutOfNobody] {
        client.probe(probe).await;
    }
    found.extend(quirks(client.profile()));
    found.extend(told_time(&client).await.map(|there| skew("Cube", clock.now(), there)));
    Ok(found)
}

/// Which Cube it behaves like, and what that means.
fn quirks(profile: Profile) -> Vec<Finding> {
    let mut found = Vec::new();
    if profile.deletes_anything == Some(true) {
        let says = "like Cube 0.1 it answers 204 to the DELETE of a sandbox that it never had: such a 204 proves nothing";
        found.push(ill(
            Note,
            "version",
            says,
            "nothing: each is confirmed by a GET; a newer Cube needs none",
        ));
    }
    found.push(match profile.heeds_auto_pause {
        Some(true) => ill(
            Note,
            "version",
            "it behaves like Cube 0.7 or newer: it heeds autoPause, and loses metadata when it pauses",
            "nothing: owners are read from the ledger",
        ),
        Some(false) => ill(
            Note,
            "version",
            "it behaves like Cube up to 0.6: it ignores autoPause at the top level, and has no v2",
            "nothing: compat.lifecycle and compat.v2_create mend that",
        ),
        None => ill(
            Note,
            "version",
            "which Cube this is could not be found out",
            "nothing: what is right for all is done",
        ),
    });
    found
}

/// The time in an answer's head.
async fn told_time(client: &Client) -> Option<UnixMillis> {
    let head = Request::get("/health").body(()).ok()?.into_parts().0;
    let answer = client.carry(head, Bytes::new(), Pace::Call).await.ok()?;
    parse_http_date(answer.headers().get(header::DATE)?.to_str().ok()?)
}

/// How far two clocks are apart.
pub(super) fn skew(whose: &str, here: UnixMillis, there: UnixMillis) -> Finding {
    let apart = here.since(there).max(there.since(here));
    if apart < APART {
        return well("clocks", format!("{whose} has the same time as this machine"));
    }
    let says = format!("{whose}'s clock and this machine's are {} apart", crate::rules::explain::span(apart));
    ill(Warning, "clocks", says, "let both keep time by NTP; no rule breaks, but logs and deadlines mislead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_apart_in_either_direction_or_not() {
        let at = |seconds: u64| UnixMillis(1_800_000_000_000 + seconds * 1000);
        assert_eq!(skew("Cube", at(9), at(0)).remedy, None);
        assert!(skew("Cube", at(0), at(600)).says.contains("10m apart"));
        assert!(skew("Cube", at(600), at(0)).says.contains("10m apart"));
    }
}
