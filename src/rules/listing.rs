//! Whether a listing of Cube may be believed.
//!
//! Must stay true: absence from a list proves nothing by itself; what the list leaves out is believed gone only where
//! single GETs say so. In doubt it is suspect: nothing is concluded from what it does not show.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::SandboxId;

/// What one listing showed: each sandbox, and the host it was on if that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(BTreeMap<SandboxId, Option<String>>);

/// What a single GET of one sandbox said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It exists.
    Here,
    /// It is proven gone, and written down.
    Gone,
    /// It could not be told, or the proof does not hold yet.
    Unclear,
}

/// A sandbox that was known to live when the listing began, and that it leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which one.
    pub sandbox: SandboxId,
    /// What a GET said, if it was asked about.
    pub answer: Option<Answer>,
}

/// Whether a listing may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing speaks against it.
    Trusted,
    /// It may leave out what exists.
    Suspect(Doubt),
    /// It leaves out what a GET finds.
    Lies,
}

/// Why a listing is suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// It could not be told whether something that it leaves out exists.
    Unclear,
    /// It shows nothing; the last one did, and something that is known to have lived is not proven gone.
    Empty,
    /// A host is gone from it, and something that lived there is not proven gone.
    HostGone,
    /// It shows far fewer than the last one did, and not all that it leaves out are proven gone.
    Fewer,
}

/// How many may vanish at once on the proof of a sample: the larger of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// So many.
    pub floor: usize,
    /// Or this share of what the last trusted listing showed.
    pub percent: usize,
}

impl Drop {
    fn exceeded(self, before: usize, missing: usize) -> bool {
        missing > self.floor.max(before.saturating_mul(self.percent) / 100)
    }
}

impl Verdict {
    /// Whether absence from the listing counts.
    #[must_use]
    pub fn is_trusted(self) -> bool {
        self == Self::Trusted
    }
}

impl FromIterator<(SandboxId, Option<String>)> for Shown {
    fn from_iter<I: IntoIterator<Item = (SandboxId, Option<String>)>>(items: I) -> Self {
        let named = |host: Option<String>| host.filter(|host| !host.is_empty());
        Self(items.into_iter().map(|(sandbox, host)| (sandbox, named(host))).collect())
    }
}

impl Shown {
    /// Whether it shows this sandbox.
    #[must_use]
    pub fn shows(&self, sandbox: &SandboxId) -> bool {
        self.0.contains_key(sandbox)
    }

    /// How many sandboxes it shows on each host; of those that name none, under "".
    #[must_use]
    pub fn hosts(&self) -> BTreeMap<String, u64> {
        let mut hosts = BTreeMap::new();
        for host in self.0.values() {
            *hosts.entry(host.clone().unwrap_or_default()).or_default() += 1;
        }
        hosts
    }

    /// The sandboxes that `before` showed on hosts of which `self` shows nothing.
    #[must_use]
    pub fn on_lost_hosts<'a>(&self, before: &'a Self) -> BTreeSet<&'a SandboxId> {
        let hosts: BTreeSet<&str> = self.0.values().flatten().map(String::as_str).collect();
        let lost = |host: &Option<String>| host.as_deref().is_some_and(|host| !hosts.contains(host));
        before.0.iter().filter(|(_, host)| lost(host)).map(|(sandbox, _)| sandbox).collect()
    }
}

/// Judges a listing by the last trusted one, and by what GETs said of those that it leaves out.
#[must_use]
pub fn verdict(before: &Shown, now: &Shown, missing: &[Missing], drop: Drop) -> Verdict {
    let answered = |answer| missing.iter().any(|one| one.answer == Some(answer));
    if answered(Answer::Here) {
        return Verdict::Lies;
    }
    if answered(Answer::Unclear) {
        return Verdict::Suspect(Doubt::Unclear);
    }
    let unproven = || missing.iter().filter(|one| one.answer != Some(Answer::Gone));
    if now.0.is_empty() && !before.0.is_empty() && unproven().next().is_some() {
        return Verdict::Suspect(Doubt::Empty);
    }
    let on_lost_hosts = now.on_lost_hosts(before);
    if unproven().any(|one| on_lost_hosts.contains(&one.sandbox)) {
        return Verdict::Suspect(Doubt::HostGone);
    }
    if drop.exceeded(before.0.len(), missing.len()) && unproven().next().is_some() {
        return Verdict::Suspect(Doubt::Fewer);
    }
    Verdict::Trusted
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn id(digit: char) -> SandboxId {
        SandboxId::new(&digit.to_string().repeat(32)).unwrap()
    }

    /// `1a 2b`: sandbox 1 on host a, 2 on b.
    fn shown(text: &str) -> Shown {
        let item = |item: &str| (id(item.chars().next().unwrap()), Some(item[1..].to_owned()));
        text.split_whitespace().map(item).collect()
    }

    /// `1g 2u 3h 4`: 1 gone, 2 unclear, 3 here, 4 not asked.
    fn missing(text: &str) -> Vec<Missing> {
        let one = |one: &str| Missing {
            sandbox: id(one.chars().next().unwrap()),
            answer: match &one[1..] {
                "g" => Some(Answer::Gone),
                "u" => Some(Answer::Unclear),
                "h" => Some(Answer::Here),
                _ => None,
            },
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn a_listing_is_trusted_only_if_nothing_speaks_against_it() {
        use Doubt::{Empty, Fewer, HostGone, Unclear};

        use Verdict::{Lies, Suspect, Trusted};
        let drop = Drop { floor: 2, percent: 50 };
        for (before, now, left_out, expected) in [
            ("", "", "", Trusted),
            ("1a 2b", "1a 2b", "", Trusted),
            // What was asked about decides; those that were not are more of the same.
            ("1a 2b", "2b", "1g", Trusted),
            ("1a 2a 3a", "3a", "1g 2", Trusted),
            ("1a 2a 3a", "3a", "1g 2u", Suspect(Unclear)),
            ("1a 2a 3a", "3a", "1u 2h", Lies),
            ("", "2b", "1u", Suspect(Unclear)),
            // Empty after not empty: only if all that lived is proven gone.
            ("1a 2a", "", "", Trusted),
            ("1a 2a", "", "1g 2g", Trusted),
            ("1a 2a", "", "1g 2", Suspect(Empty)),
            ("9a", "", "1", Suspect(Empty)),
            ("", "", "1g 2", Trusted),
            // A host is gone: only if all that lived there is proven gone.
            ("1a 2b 3b", "1a", "2g 3g", Trusted),
            ("1a 2b 3b", "1a", "2g 3", Suspect(HostGone)),
            ("1a 2b 3b", "1a 3a", "2", Suspect(HostGone)),
            ("1a 2b 3b", "1a 3b", "2", Trusted),
            // Woken elsewhere, or never known here.
            ("1a 2b", "1a 2a", "", Trusted),
            ("1a 2b", "1a", "", Trusted),
            // More than two and more than half: not on the proof of a sample.
            ("1a 2a 3a 4a 5a 6a", "4a 5a 6a", "1g 2 3", Trusted),
            ("1a 2a 3a 4a 5a 6a", "5a 6a", "1g 2g 3g 4", Suspect(Fewer)),
            ("1a 2a 3a 4a 5a 6a", "5a 6a", "1g 2g 3g 4g", Trusted),
            // Hosts that are not named are none.
            ("1 2", "2", "1", Trusted),
        ] {
            let verdict = verdict(&shown(before), &shown(now), &missing(left_out), drop);
            assert_eq!(verdict, expected, "{before:?} → {now:?}, missing {left_out:?}");
        }
    }
}
