//! One way to make each type of metric, so that the table of metrics needs no more than a type's name.

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

/// Seconds: Cube answers reads in milliseconds, creates in tenths, and gives up after half a minute or four.
const LATENCIES: [f64; 14] =
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 15.0, 35.0, 130.0];

/// Makes a metric of one type.
pub(super) trait Make: Collector + Clone + Sized + 'static {
    fn make(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self>;
}

impl Make for IntCounter {
    fn make(name: &str, help: &str, _: &[&str]) -> prometheus::Result<Self> {
        Self::new(name, help)
    }
}

impl Make for IntGauge {
    fn make(name: &str, help: &str, _: &[&str]) -> prometheus::Result<Self> {
        Self::new(name, help)
    }
}

impl Make for IntCounterVec {
    fn make(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl Make for IntGaugeVec {
    fn make(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl Make for HistogramVec {
    fn make(name: &str, help: &str, labels: &[&str]) -> prometheus::Result<Self> {
        Self::new(HistogramOpts::new(name, help).buckets(LATENCIES.to_vec()), labels)
    }
}
