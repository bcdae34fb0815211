//! The closed sets that metric labels come from.
//!
//! Must stay true: nothing that a caller writes ever becomes a label.

/// Declares a closed set with the name of each member in metrics.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$member_doc])* $member,)+ }

        impl $name {
            /// Every member, in order.
            pub const ALL: &[Self] = &[$(Self::$member,)+];

            /// The label.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$member => $label,)+ }
            }
        }
    };
}

labels!(
    /// How a call ended for its caller.
    CallOutcome {
        /// It was done.
        Ok = "ok",
        /// The warden refused it.
        Refused = "refused",
        /// Cube refused it: the caller's doing.
        ClientError = "client_error",
        /// Cube failed.
        UpstreamError = "upstream_error",
        /// Nobody knows whether it was done.
        Unknown = "unknown",
    }
);
labels!(
    /// On whose behalf Cube was asked.
    Asker {
        /// A governed call's, carried further for its client.
        Call = "call",
        /// A request's that only passed.
        PassThrough = "pass_through",
        /// The warden's own: its questions, its listings, its kills.
        Task = "task",
    }
);
labels!(
    /// What an answer of Cube to a governed call meant.
    Answer {
        /// Done.
        Done = "done",
        /// Refused, and nothing happened.
        Refused = "refused",
        /// Refused, and we should slow down.
        SlowDown = "slow_down",
        /// It may or may not have happened.
        Unknown = "unknown",
        /// Nothing was sent.
        NotSent = "not_sent",
    }
);
labels!(
    /// How an attempt to end a sandbox went.
    KillResult {
        /// It is gone, by the warden's DELETE.
        Gone = "gone",
        /// It was gone already.
        AlreadyGone = "already_gone",
        /// It is not proven gone; it is tried again.
        Failed = "failed",
        /// Too many attempts failed; it is tried slowly from now on.
        Quarantined = "quarantined",
    }
);
labels!(
    /// What happened to a lease.
    LeaseEvent {
        /// A new sandbox is held by it.
        Acquired = "acquired",
        /// A living sandbox went to it, under a new generation.
        Reused = "reused",
        /// Its holder showed that it lives.
        Beat = "beat",
        /// Its holder let it go.
        Released = "released",
        /// A sealed one tried to act.
        Sealed = "sealed",
        /// It is not the one that its owner holds.
        Mismatch = "mismatch",
        /// Cube did not honour its renewal.
        RenewalFailed = "renewal_failed",
    }
);
labels!(
    /// What the reconciler settled.
    Reconciled {
        /// A create whose answer was lost was found.
        Found = "found",
        /// A retry claimed what was found.
        Claimed = "claimed",
        /// Nobody claimed it, so it was ended.
        Unclaimed = "unclaimed",
        /// It was proven that it never came to be.
        NeverCame = "never_came",
        /// A sandbox past its deadline was gone.
        Ended = "ended",
        /// What was there before the warden was taken into the ledger.
        Imported = "imported",
        /// What was made round the warden was taken into the ledger.
        Round = "round",
        /// What the ledger once knew (it carries its labels) and knew no more was taken in again.
        Unrecorded = "unrecorded",
    }
);
labels!(
    /// From what a lost ledger was rebuilt.
    Rebuilt {
        /// What wardens remember.
        Memory = "memory",
        /// What Cube lists.
        Listing = "listing",
    }
);
labels!(
    /// What was decided about a wish to end a sandbox.
    Decision {
        /// It may end.
        Allow = "allow",
        /// It may not.
        Refuse = "refuse",
        /// It may not, and so nothing else: it was asked for by a holder that was overtaken.
        Fenced = "fenced",
        /// Not now.
        Later = "later",
        /// A claim was given up; it may end once nobody has one and nothing keeps it.
        Defer = "defer",
    }
);
labels!(
    /// How an entry of the ledger holds its slot.
    EntryState {
        /// Nothing was sent yet.
        Reserved = "reserved",
        /// The create is on its way.
        Dispatched = "dispatched",
        /// The create's answer was lost.
        Ambiguous = "ambiguous",
        /// It lives, running or paused.
        Live = "live",
        /// Its end is written down.
        Killing = "killing",
        /// It cannot be ended.
        Quarantined = "quarantined",
    }
);
labels!(
    /// What an operator is told of.
    EventKind {
        /// It ends in the next cycle unless something changes.
        AboutToEnd = "about_to_be_collected",
        /// The collector condemned it.
        Collected = "collected",
        /// Nothing keeps it, and its bucket's policy does not end it.
        KeptRootless = "kept_though_rootless",
        /// It cannot be ended.
        Quarantined = "quarantined",
        /// The list leaves out what a GET finds.
        ListLies = "list_lies",
        /// Another ledger's or nobody's sandboxes came or went.
        Foreign = "foreign",
        /// It was made round the warden.
        Round = "changed_round_the_warden",
    }
);

impl EventKind {
    /// What happened, in a sentence.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::AboutToEnd => "a sandbox will be collected in the next cycle unless something changes",
            Self::Collected => "a sandbox was collected",
            Self::KeptRootless => "sandboxes that nothing keeps are kept by their bucket's policy",
            Self::Quarantined => "a condemned sandbox cannot be ended: it is still charged",
            Self::ListLies => "Cube's list leaves out sandboxes that exist",
            Self::Foreign => "the number of sandboxes that are not this ledger's has changed",
            Self::Round => "a sandbox was made round the warden",
        }
    }
}

labels!(
    /// Why the collector ended something.
    CollectReason {
        /// Paused for longer than its bucket keeps such.
        Retention = "retention",
        /// Its holder was silent for too long.
        LeaseLapsed = "lease_lapsed",
        /// Overdue and known to be idle.
        OverdueIdle = "overdue_idle",
        /// Beyond its bucket's longest idle time.
        MaxIdle = "max_idle",
        /// Beyond its bucket's longest life.
        MaxAge = "max_age",
    }
);
labels!(
    /// What a zombie is doing.
    ZombieState {
        /// It runs.
        Running = "running",
        /// It is paused.
        Paused = "paused",
        /// It cannot be ended.
        Quarantined = "quarantined",
    }
);
labels!(
    /// For how long something has been a zombie.
    AgeClass {
        /// Less than an hour.
        Minutes = "minutes",
        /// Less than a day.
        Hours = "hours",
        /// Less than a week.
        Days = "days",
        /// Longer.
        Weeks = "weeks",
    }
);
labels!(
    /// What was thought of Cube's list.
    ListVerdict {
        /// It is believed.
        Trusted = "trusted",
        /// It may leave out what exists.
        Suspect = "suspect",
        /// It does.
        Lies = "lies",
        /// There was none.
        Unavailable = "unavailable",
    }
);
labels!(
    /// Where ledger and Cube differ.
    DriftKind {
        /// The ledger charges what Cube's list does not show, and it is not proven gone.
        NotShown = "charged_not_shown",
        /// Cube showed what the ledger did not charge until now.
        NotCharged = "shown_not_charged",
    }
);
labels!(
    /// What became of an event for the webhook.
    Delivery {
        /// It was taken.
        Delivered = "delivered",
        /// It was not, after every try.
        Failed = "failed",
        /// The queue was full.
        Lost = "lost",
    }
);
labels!(
    /// What an upstream write is for, in the order of the lanes.
    WriteLane {
        /// The end of a sandbox.
        Delete = "delete",
        /// A timeout, a refresh.
        Renew = "renew",
        /// Connect, resume, pause, and other changes of what exists.
        Connect = "connect",
        /// A new sandbox.
        Create = "create",
    }
);
labels!(
    /// Which breaker.
    BreakerPath {
        /// That of creates.
        Create = "create",
        /// That of deletes.
        Delete = "delete",
    }
);
labels!(
    /// How a breaker moved.
    BreakerMove {
        /// It opened: writes fail.
        Opened = "opened",
        /// A probe went.
        Probed = "probed",
        /// The probe came to nothing.
        ProbeFailed = "probe_failed",
        /// It closed: the probe was done.
        Closed = "closed",
    }
);
