//! What a listing is worth, and when one is forced.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use super::*;
use crate::rules::listing::Doubt;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

fn terms() -> Terms {
    let cycle = Duration::from_secs(60);
    Terms {
        cycle,
        confirmations: 2,
        overdue_grace: cycle,
        root_fresh: cycle,
        skip_cap: 3,
        most_kills: 50,
        most_kills_per_bucket: 50,
    }
}

/// `1t 1t 2t 1s 1l`: leader 1 with a trusted listing, ..., suspect, lies; each a minute later; `+` an hour in between.
fn worth(story: &str) -> String {
    let (mut state, mut now, mut said) = (State::default(), START, String::new());
    for word in story.split_whitespace() {
        let seconds = if word.starts_with('+') { 3600 } else { 60 };
        now = now.plus(Duration::from_secs(seconds));
        let word = word.trim_start_matches('+');
        let leader = InstanceId::new(&word[..1].repeat(16)).unwrap();
        let verdict = match &word[1..] {
            "t" => Verdict::Trusted,
            "s" => Verdict::Suspect(Doubt::Unclear),
            _ => Verdict::Lies,
        };
        let (next, worth) = state.listed(&leader, now, verdict, &terms());
        state = next;
        said.push(if worth == Worth::Confirms { '*' } else { '.' });
    }
    said
}

#[test]
fn a_listing_confirms_if_it_is_trusted_and_its_leader_was_the_last_and_there_was_no_outage() {
    assert_eq!(worth("1t 1t 1t"), ".**");
    assert_eq!(worth("1t 1t 2t 2t 1t 1t"), ".*.*.*");
    assert_eq!(worth("1t 1t +1t 1t"), ".*.*");
    assert_eq!(worth("1t 1s 1l 1t 1t"), "...**");
}

#[test]
fn three_are_skipped_and_then_each_counts_until_one_is_trusted() {
    assert_eq!(worth("1t 1s 1s 1l 1s 1l 1s"), "....***");
    assert_eq!(worth("1t 1s 1s 1s 1s 1t 1s 1s 1s 1s"), "....**...*");
    assert_eq!(worth("1t 1s 1s 1s 2s 2s"), ".....*", "a new leader's first confirms nothing even then");
}
