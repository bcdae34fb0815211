//! Which Cube is simulated: every difference between versions that the simulator knows has one question here.
//!
//! Must stay true: no other file compares profiles; they ask what a profile does.

use std::fmt;
use std::str::FromStr;

/// A version of Cube.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Profile {
    /// v0.5.1 (July 2026).
    V051,
    /// v0.6.0 (late July 2026).
    V060,
    /// The tree of 2026-08-19 with what 0.7 ships beyond it: network updates, connects that extend, the far `endAt`.
    V070,
}

impl Profile {
    /// All profiles, oldest first.
    pub(crate) const ALL: [Self; 3] = [Self::V051, Self::V060, Self::V070];

    /// The name on the command line and in answers of the side door.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V051 => "v051",
            Self::V060 => "v060",
            Self::V070 => "v070",
        }
    }

    /// The routes stand a second time under `/cubeapi/v1`.
    pub(crate) fn mirrors_old_prefix(self) -> bool {
        self == Self::V051
    }

    /// `/volumes`, `/templates/aliases`, aliases in create.
    pub(crate) fn has_volumes_and_aliases(self) -> bool {
        self >= Self::V060
    }

    /// `PUT /sandboxes/{id}/network`.
    pub(crate) fn has_network_updates(self) -> bool {
        self == Self::V070
    }

    /// A unique prefix of an id, in any case, stands for the id.
    pub(crate) fn takes_id_prefixes(self) -> bool {
        self >= Self::V060
    }

    /// DELETE of a paused sandbox works; before, it is refused with 130593.
    pub(crate) fn deletes_paused(self) -> bool {
        self >= Self::V060
    }

    /// DELETE reads 130409, 130490 and 130589 as 409 and 503; before, all are 500.
    pub(crate) fn delete_knows_conflicts(self) -> bool {
        self >= Self::V060
    }

    /// 130400 is a 400; before, it is a 500.
    pub(crate) fn reads_bad_parameters(self) -> bool {
        self == Self::V070
    }

    /// Pause, resume and logs of an unknown id are a 404.
    pub(crate) fn asks_before_acting(self) -> bool {
        self >= Self::V060
    }

    /// Timeout and refreshes of an unknown id are a 404; before, a 500 with 130404.
    pub(crate) fn timeouts_know_the_unknown(self) -> bool {
        self == Self::V070
    }

    /// The backend's text for an unknown id at timeout names the id.
    pub(crate) fn unknown_text_names_id(self) -> bool {
        self == Self::V060
    }

    /// Top-level `autoPause` and `autoResume` count; before, only `lifecycle` does.
    pub(crate) fn reads_flat_auto_pause(self) -> bool {
        self == Self::V070
    }

    /// While paused, GET shows no metadata, no template, no size, another `startedAt`; the pause is a snapshot with an id.
    pub(crate) fn loses_view_on_pause(self) -> bool {
        self == Self::V070
    }

    /// A pause is answered once it is done; before, it is answered at once.
    pub(crate) fn pauses_synchronously(self) -> bool {
        self == Self::V070
    }

    /// A paused sandbox with `onTimeout: kill` dies at its deadline; before, it stays.
    pub(crate) fn sweeps_paused(self) -> bool {
        self == Self::V070
    }

    /// Connect to a running sandbox may extend its life; before, its timeout is ignored.
    pub(crate) fn connect_extends(self) -> bool {
        self == Self::V070
    }

    /// e2b user agents see 9999-12-31 as the `endAt` of what never ends; others, and before, see none.
    pub(crate) fn shows_far_end_to_e2b(self) -> bool {
        self == Self::V070
    }

    /// Fields of a create that the server counts when it is sent an array.
    pub(crate) fn reads_wide_create(self) -> bool {
        self == Self::V070
    }

    /// Seconds until pause, resume and connect are answered 408.
    pub(crate) fn wake_budget_s(self) -> u64 {
        if self == Self::V070 { 120 } else { 30 }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|profile| profile.name() == text);
        known.ok_or_else(|| format!("profile {text:?} is none of v051, v060, v070"))
    }
}
