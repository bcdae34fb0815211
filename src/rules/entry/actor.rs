//! Who may want the end of a sandbox; what each must show stands in `rules::delete`.

/// Who wants an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The tenant's own DELETE (or `timeout 0`).
    Client,
    /// The holder of a lease releases it.
    Holder,
    /// The warden itself: two trusted cycles saw nothing that keeps it, and its bucket's policy ends such.
    Collector,
    /// The warden itself: every claim on it was given up by somebody who could not prove to be its holder, and nothing
    /// keeps it any more.
    Deferred,
    /// The warden itself: nobody awaits the create's answer and nothing could claim it.
    Abandoned,
    /// The warden itself: a found create that nobody claimed, or a dead one that appeared again.
    Recovery,
    /// An operator.
    Operator,
}

impl Actor {
    /// Whether it gives way to a call under way: the warden's own wishes do, the holder's and an operator's do not.
    #[must_use]
    pub fn yields(self) -> bool {
        match self {
            Self::Collector | Self::Deferred | Self::Abandoned | Self::Recovery => true,
            Self::Client | Self::Holder | Self::Operator => false,
        }
    }

    /// The name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Holder => "holder",
            Self::Collector => "collector",
            Self::Deferred => "deferred",
            Self::Abandoned => "abandoned",
            Self::Recovery => "recovery",
            Self::Operator => "operator",
        }
    }
}
