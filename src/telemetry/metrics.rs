//! Every metric there is; the doc comment of each is its help text.
//!
//! Must stay true: every series exists with zero from the start; labels come from closed sets only (a bucket that the
//! configuration does not name counts as `other`); no metric lives outside of [`Metrics`]. Counting costs one read lock
//! and one hash. What the ledger knows is not counted here: it is read when somebody asks.

mod cycle;
mod make;

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder};

mod ledger;
mod writes;

pub use ledger::{BucketGauges, LedgerGauges};
pub use writes::WriteGauges;

use super::labels::{
    Answer, Asker, CallOutcome, Decision, EntryState, KillResult, LeaseEvent, Rebuilt, Reconciled,
};
use crate::ids::OTHER;
use crate::verdict::Reason;

use make::Make as _;

pub use cycle::CycleGauges;

/// Methods that have a series of their own.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", OTHER];

/// Declares the struct of all metrics: a field `x` is the metric `cubewarden_x`, its doc comment the help text.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $field:ident: $kind:ident [$($label:literal),*],)+) => {
        /// All metrics of one warden.
        pub struct Metrics {
            registry: Registry,
            buckets: RwLock<BTreeSet<String>>,
            $($(#[doc = $help])+ $field: $kind,)+
        }

        impl Metrics {
            fn declare() -> prometheus::Result<Self> {
                let registry = Registry::new();
                $(
                    let name = concat!("cubewarden_", stringify!($field));
                    let $field = $kind::make(name, concat!($($help),+).trim(), &[$($label),*])?;
                    registry.register(Box::new($field.clone()))?;
                )+
                Ok(Self { registry, buckets: RwLock::default(), $($field,)+ })
            }
        }
    };
}

metrics! {
    /// Governed calls by kind and by how they ended for the caller.
    calls_total: IntCounterVec ["call", "outcome"],
    /// Refusals by reason and bucket; those before a bucket is known count as other.
    refusals_total: IntCounterVec ["reason", "bucket"],
    /// Creates that were given a slot.
    admissions_total: IntCounterVec ["bucket"],
    /// Creates that wait for a slot now.
    waiting: IntGaugeVec ["bucket"],
    /// Time until the head of Cube's answer, by method and by whom it was for.
    upstream_seconds: HistogramVec ["method", "asker"],
    /// Cube's answers to governed calls, by what they meant.
    upstream_answers_total: IntCounterVec ["outcome"],
    /// Mends of what SDKs and older Cubes make of each other.
    mends_total: IntCounterVec ["mend"],
    /// Metadata keys of ours that clients sent and that were overwritten.
    reserved_metadata_overwritten_total: IntCounter [],
    /// Writes that the warden does not know how to govern, passed or refused.
    ungoverned_writes_total: IntCounter [],
    /// Requests that only passed.
    pass_through_requests_total: IntCounter [],
    /// Attempts to end a sandbox, by result.
    kills_total: IntCounterVec ["result"],
    /// What the reconciler settled.
    reconciled_total: IntCounterVec ["result"],
    /// Decisions about wishes to end a sandbox.
    decisions_total: IntCounterVec ["decision"],
    /// What happened to leases.
    lease_events_total: IntCounterVec ["event"],
    /// Defects of the warden that ended one call and nothing else.
    panics_total: IntCounter [],
    /// 1 if the ledger answered this scrape; if 0, what follows from the ledger is the last that was known.
    ledger_up: IntGauge [],
    /// 1 while the ledger is not whole (it has lost what it had confirmed, or is being rebuilt) and creates wait.
    ledger_lost: IntGauge [],
    /// How often this warden saw a lost ledger whole again.
    ledger_rebuilds_total: IntCounter [],
    /// Slots that were held beyond the limits of their buckets when the ledger was last rebuilt.
    ledger_rebuilt_over_limit: IntGauge [],
    /// Entries of a lost ledger that this warden brought back, by where from.
    ledger_rebuilt_entries_total: IntCounterVec ["source"],
    /// 1 while wardens of one ledger run with different limits: the smaller hold.
    limits_disagree: IntGauge [],
    /// Slots of a bucket; -1 for no limit.
    bucket_limit: IntGaugeVec ["bucket"],
    /// Entries of the ledger that hold a slot.
    entries: IntGaugeVec ["bucket", "state"],
    /// Live entries that are paused.
    paused: IntGaugeVec ["bucket"],
    /// Sandboxes on this Cube that are another ledger's or nobody's.
    foreign_sandboxes: IntGauge [],
    /// Sandboxes that nothing keeps, as the last cycle of this warden's collector found them.
    zombies: IntGaugeVec ["bucket", "state", "age"],
    /// For how long nothing has kept the oldest of them.
    oldest_zombie_seconds: IntGaugeVec ["bucket"],
    /// Thousandths of processors of what is kept though nothing keeps it.
    kept_millicpu: IntGaugeVec ["bucket"],
    /// Memory of what is kept though nothing keeps it, in MiB.
    kept_memory_mebibytes: IntGaugeVec ["bucket"],
    /// Where ledger and Cube differ; healthy is zero.
    drift: IntGaugeVec ["kind"],
    /// Sandboxes that the collector condemned, by reason.
    collected_total: IntCounterVec ["reason"],
    /// 1 for what was last thought of Cube's list.
    listing_verdict: IntGaugeVec ["verdict"],
    /// Time that one cycle of the collector took.
    collector_cycle_seconds: HistogramVec [],
    /// 1 if this warden leads the collector of its Cube.
    collector_leader: IntGauge [],
    /// What operators were told of.
    events_total: IntCounterVec ["event"],
    /// Events for the webhook, by what became of them.
    webhook_deliveries_total: IntCounterVec ["result"],
    /// The breaker of creates and that of deletes: 0 closed, 1 half-open, 2 open.
    breaker_state: IntGaugeVec ["path"],
    /// How often a breaker opened, probed, or closed.
    breaker_changes_total: IntCounterVec ["path", "change"],
    /// Writes to Cube at once, at most, now.
    write_limit: IntGauge [],
    /// Writes to Cube on their way.
    writes_in_flight: IntGaugeVec ["lane"],
    /// Writes that wait for a place.
    writes_waiting: IntGaugeVec ["lane"],
    /// Condemned sandboxes that stand, without the quarantined ones, when last counted.
    delete_backlog: IntGauge [],
    /// Deletes that were confirmed within the last minute.
    deletes_last_minute: IntGauge [],
    /// 1 while creates are paid with confirmed deletes.
    recovering: IntGauge [],
    /// Running mean of the time that the last few creates took, in milliseconds.
    create_latency_milliseconds: IntGaugeVec ["bucket"],
    /// The same over many creates: what is usual.
    create_latency_usual_milliseconds: IntGaugeVec ["bucket"],
}

/// The closed sets that other rooms know.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Kinds of governed calls.
    pub calls: &'a [&'static str],
    /// Mends.
    pub mends: &'a [&'static str],
}

/// A create waits for a slot for as long as this lives, however it ends.
#[derive(Debug)]
pub struct Waiting(IntGauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    /// All metrics, every series at zero.
    ///
    /// # Panics
    /// Never: two metrics of one name would not survive the first test.
    #[must_use]
    pub fn new<'a>(names: Names<'_>, buckets: impl IntoIterator<Item = &'a str>) -> Self {
        let metrics =
            Self::declare().expect("every metric has a name of its own; the tests of this file declare them");
        for call in names.calls {
            begin(&metrics.calls_total, CallOutcome::ALL.iter().map(|outcome| [call, outcome.name()]));
        }
        begin(&metrics.mends_total, names.mends.iter().map(|mend| [*mend]));
        for method in METHODS {
            for asker in Asker::ALL {
                let _at_zero = metrics.upstream_seconds.with_label_values(&[method, asker.name()]);
            }
        }
        begin(&metrics.upstream_answers_total, Answer::ALL.iter().map(|answer| [answer.name()]));
        begin(&metrics.kills_total, KillResult::ALL.iter().map(|result| [result.name()]));
        begin(&metrics.reconciled_total, Reconciled::ALL.iter().map(|result| [result.name()]));
        begin(&metrics.ledger_rebuilt_entries_total, Rebuilt::ALL.iter().map(|source| [source.name()]));
        begin(&metrics.decisions_total, Decision::ALL.iter().map(|decision| [decision.name()]));
        metrics.begin_cycle();
        begin(&metrics.lease_events_total, LeaseEvent::ALL.iter().map(|event| [event.name()]));
        metrics.begin_writes();
        metrics.name_buckets(buckets.into_iter().chain([OTHER]));
        metrics
    }

    /// Gives buckets their own series, at zero; a reload may bring new ones. Old ones keep theirs.
    pub fn name_buckets<'a>(&self, labels: impl IntoIterator<Item = &'a str>) {
        for label in labels {
            begin(&self.refusals_total, Reason::all().map(|reason| [reason.name(), label]));
            begin(&self.admissions_total, [[label]]);
            let gauges = [
                &self.waiting,
                &self.bucket_limit,
                &self.paused,
                &self.create_latency_milliseconds,
                &self.create_latency_usual_milliseconds,
            ];
            for gauge in gauges {
                let _at_zero = gauge.with_label_values(&[label]);
            }
            for state in EntryState::ALL {
                let _at_zero = self.entries.with_label_values(&[label, state.name()]);
            }
            self.begin_zombies(label);
            self.buckets.write().unwrap_or_else(PoisonError::into_inner).insert(label.to_owned());
        }
    }

    /// A governed call of a kind ended.
    pub fn called(&self, call: &'static str, outcome: CallOutcome) {
        self.calls_total.with_label_values(&[call, outcome.name()]).inc();
    }

    /// A refusal was given; `bucket` is its label, or anything else where none is known.
    pub fn refused(&self, reason: Reason, bucket: &str) {
        self.refusals_total.with_label_values(&[reason.name(), self.closed(bucket)]).inc();
    }

    /// A create was given a slot.
    pub fn admitted(&self, bucket: &str) {
        self.admissions_total.with_label_values(&[self.closed(bucket)]).inc();
    }

    /// A create waits for a slot until the value is dropped.
    #[must_use]
    pub fn waiting(&self, bucket: &str) -> Waiting {
        let gauge = self.waiting.with_label_values(&[self.closed(bucket)]);
        gauge.inc();
        Waiting(gauge)
    }

    /// Cube answered, or did not, after this time.
    pub fn asked(&self, method: &str, asker: Asker, took: Duration) {
        let method = METHODS.iter().find(|known| **known == method).unwrap_or(&OTHER);
        self.upstream_seconds.with_label_values(&[method, asker.name()]).observe(took.as_secs_f64());
    }

    /// What Cube's answer to a governed call meant.
    pub fn answered(&self, answer: Answer) {
        self.upstream_answers_total.with_label_values(&[answer.name()]).inc();
    }

    /// A mend was made.
    pub fn mended(&self, mend: &'static str) {
        self.mends_total.with_label_values(&[mend]).inc();
    }

    /// So many metadata keys of ours were overwritten.
    pub fn reserved_overwritten(&self, keys: usize) {
        self.reserved_metadata_overwritten_total.inc_by(u64::try_from(keys).unwrap_or(u64::MAX));
    }

    /// A write came that nobody knows how to govern.
    pub fn ungoverned_write(&self) {
        self.ungoverned_writes_total.inc();
    }

    /// A request only passed.
    pub fn passed(&self) {
        self.pass_through_requests_total.inc();
    }

    /// An attempt to end a sandbox had this result.
    pub fn killed(&self, result: KillResult) {
        self.kills_total.with_label_values(&[result.name()]).inc();
    }

    /// The reconciler settled something.
    pub fn reconciled(&self, result: Reconciled) {
        self.reconciled_total.with_label_values(&[result.name()]).inc();
    }

    /// A wish to end a sandbox was decided.
    pub fn decided(&self, decision: Decision) {
        self.decisions_total.with_label_values(&[decision.name()]).inc();
    }

    /// Something happened to a lease.
    pub fn leased(&self, event: LeaseEvent) {
        self.lease_events_total.with_label_values(&[event.name()]).inc();
    }

    /// A defect ended a call.
    pub fn panicked(&self) {
        self.panics_total.inc();
    }

    /// The whole in the text form of Prometheus; `ledger` is `None` if it cannot be reached.
    #[must_use]
    pub fn render(&self, ledger: Option<&LedgerGauges>) -> String {
        self.ledger_up.set(i64::from(ledger.is_some()));
        if let Some(gauges) = ledger {
            self.set(gauges);
        }
        // It can fail only for a family without a series, and every family has one from the start.
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }

    /// The label itself if the configuration knows it, else `other`.
    fn closed<'a>(&self, bucket: &'a str) -> &'a str {
        let known = self.buckets.read().unwrap_or_else(PoisonError::into_inner).contains(bucket);
        if known { bucket } else { OTHER }
    }
}

/// Lets series exist, at zero.
fn begin<'a, const N: usize>(counter: &IntCounterVec, series: impl IntoIterator<Item = [&'a str; N]>) {
    for labels in series {
        let _at_zero = counter.with_label_values(&labels);
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use std::collections::BTreeMap;

    use super::*;
    use crate::telemetry::labels::{BreakerMove, BreakerPath};

    fn metrics() -> Metrics {
        let names = Names { calls: &["create", "delete"], mends: &["v2_create"] };
        Metrics::new(names, ["default/dev"])
    }

    /// Reads the exposition format: families stand together, each with help and type; every line is a series.
    fn series(text: &str) -> BTreeMap<String, f64> {
        let (mut found, mut families, mut family) = (BTreeMap::new(), BTreeSet::new(), String::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(families.insert(name.to_owned()), "{line}");
                assert!(words.ends_with('.'), "{line}");
                name.clone_into(&mut family);
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(name == family && ["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            } else {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with(&family) && family.starts_with("cubewarden_"), "{line}");
                assert!(found.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
            }
        }
        found
    }

    #[test]
    fn every_series_exists_with_zero_from_the_start() {
        let found = series(&metrics().render(None));
        assert!(found.values().all(|value| *value == 0.0), "{found:?}");
        for family in
            ["calls_total", "waiting", "upstream_seconds_count", "mends_total", "panics_total", "ledger_up"]
        {
            assert!(found.keys().any(|name| name.starts_with(&format!("cubewarden_{family}"))), "{family}");
        }
        for outcome in CallOutcome::ALL {
            let name = format!("cubewarden_calls_total{{call=\"delete\",outcome=\"{}\"}}", outcome.name());
            assert!(found.contains_key(&name), "{name}");
        }
        for reason in Reason::all() {
            for bucket in ["default/dev", "other"] {
                let name =
                    format!("cubewarden_refusals_total{{bucket=\"{bucket}\",reason=\"{}\"}}", reason.name());
                assert!(found.contains_key(&name), "{name}");
            }
        }
    }

    #[test]
    fn nothing_that_happens_makes_a_series_that_was_not_there() {
        let metrics = metrics();
        let before: Vec<_> = series(&metrics.render(None)).into_keys().collect();
        metrics.called("create", CallOutcome::Ok);
        metrics.refused(Reason::CapacityExceeded, "a-strangers/bucket");
        metrics.admitted("default/dev");
        metrics.asked("BREW", Asker::PassThrough, Duration::from_secs(200));
        metrics.answered(Answer::SlowDown);
        metrics.mended("v2_create");
        metrics.killed(KillResult::Quarantined);
        metrics.reconciled(Reconciled::NeverCame);
        metrics.decided(Decision::Later);
        metrics.reserved_overwritten(2);
        metrics.ungoverned_write();
        metrics.passed();
        metrics.panicked();
        metrics.ledger_lost(true);
        metrics.rebuilt();
        metrics.rebuilt_over_limit(3);
        metrics.gave(Rebuilt::Memory, 2);
        assert!(metrics.limits_disagree(true) && !metrics.limits_disagree(true));
        metrics.breaker_moved(BreakerPath::Delete, BreakerMove::Opened);
        metrics.set_writes(&WriteGauges { limit: 3, ..WriteGauges::default() });
        metrics.create_latency("a-strangers/bucket", Duration::from_secs(2), Duration::from_secs(1));
        let found = series(&metrics.render(None));
        assert_eq!(found.keys().cloned().collect::<Vec<_>>(), before);
        assert!((found["cubewarden_reserved_metadata_overwritten_total"] - 2.0).abs() < 0.1);
        let refused = r#"cubewarden_refusals_total{bucket="other",reason="CAPACITY_EXCEEDED"}"#;
        assert!((found[refused] - 1.0).abs() < 0.1);
        assert!(
            (found[r#"cubewarden_upstream_seconds_count{asker="pass_through",method="other"}"#] - 1.0).abs()
                < 0.1
        );
    }

    #[test]
    fn a_waiter_is_counted_until_it_leaves_however_it_leaves() {
        let metrics = metrics();
        let (first, second) = (metrics.waiting("default/dev"), metrics.waiting("default/dev"));
        let waiting = || metrics.waiting.with_label_values(&["default/dev"]).get();
        assert_eq!(waiting(), 2);
        drop(first);
        let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _still = second;
            panic!("a waiter that fails");
        }));
        assert!(left.is_err());
        assert_eq!(waiting(), 0);
    }

    #[test]
    fn gauges_are_what_the_ledger_says_and_buckets_without_a_name_are_added_up() {
        let metrics = metrics();
        let bucket = |label: &str, limit, live| BucketGauges {
            label: label.to_owned(),
            limit,
            entries: vec![(EntryState::Live, live), (EntryState::Killing, 1)],
            paused: 1,
        };
        let buckets =
            vec![bucket("default/dev", Some(10), 3), bucket("x/y", Some(2), 4), bucket("other", None, 5)];
        let found = series(&metrics.render(Some(&LedgerGauges { buckets, foreign: 7 })));
        let value = |name: &str| found[&format!("cubewarden_{name}")].to_string();
        assert_eq!(value(r#"entries{bucket="default/dev",state="live"}"#), "3");
        assert_eq!(value(r#"entries{bucket="other",state="live"}"#), "9");
        assert_eq!(value(r#"entries{bucket="other",state="ambiguous"}"#), "0");
        assert_eq!(value(r#"bucket_limit{bucket="default/dev"}"#), "10");
        assert_eq!(value(r#"bucket_limit{bucket="other"}"#), "-1");
        assert_eq!(value(r#"paused{bucket="other"}"#), "2");
        assert_eq!((value("foreign_sandboxes"), value("ledger_up")), ("7".to_owned(), "1".to_owned()));
        let gone = series(&metrics.render(Some(&LedgerGauges::default())));
        assert!(gone[r#"cubewarden_entries{bucket="default/dev",state="live"}"#].abs() < 0.1);
        assert!((gone[r#"cubewarden_bucket_limit{bucket="default/dev"}"#] + 1.0).abs() < 0.1);
    }

    #[test]
    fn a_reload_brings_new_buckets_at_zero_and_keeps_the_old_ones() {
        let metrics = metrics();
        metrics.admitted("default/dev");
        metrics.name_buckets(["shop/prod"]);
        let found = series(&metrics.render(None));
        assert!((found[r#"cubewarden_admissions_total{bucket="default/dev"}"#] - 1.0).abs() < 0.1);
        assert!(found[r#"cubewarden_admissions_total{bucket="shop/prod"}"#].abs() < 0.1);
    }
}
