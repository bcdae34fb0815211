//! How long Cube takes, as measured: pure, a random number in, a length out.

use std::time::Duration;

use super::ask::Kind;

/// Whether requests take time at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Latency {
    #[default]
    None,
    /// As on a node: a create has its median at 180 ms and its 95th percentile at 210 ms.
    Node,
}

/// Milliseconds at the percentiles 0, 50, 95 and 100, in thousandths.
const CREATE: [(u64, u64); 4] = [(0, 150), (500, 180), (950, 210), (1000, 280)];
const PAUSE: [(u64, u64); 4] = [(0, 350), (500, 400), (950, 460), (1000, 600)];
const WAKE: [(u64, u64); 4] = [(0, 260), (500, 300), (950, 350), (1000, 450)];
const DELETE: [(u64, u64); 4] = [(0, 50), (500, 65), (950, 80), (1000, 120)];
const READ: [(u64, u64); 4] = [(0, 1), (500, 3), (950, 8), (1000, 15)];

impl Latency {
    /// The length for a random number below 1000.
    pub(crate) fn sample(self, kind: Kind, thousandth: u64) -> Duration {
        if self == Self::None {
            return Duration::ZERO;
        }
        let curve = match kind {
            Kind::Create => CREATE,
            Kind::Pause | Kind::Snapshot => PAUSE,
            Kind::Resume | Kind::Connect | Kind::Rollback => WAKE,
            Kind::Delete => DELETE,
            _ => READ,
        };
        Duration::from_millis(interpolate(&curve, thousandth))
    }
}

fn interpolate(curve: &[(u64, u64)], at: u64) -> u64 {
    let segment = curve.windows(2).find(|pair| at <= pair[1].0);
    let Some([(from, low), (to, high)]) = segment else {
        return curve[curve.len() - 1].1;
    };
    low + (high - low) * (at - from) / (to - from)
}
