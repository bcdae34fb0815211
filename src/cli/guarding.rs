//! The guard of the write path, put together from its settings; what happens to it is counted.

use std::sync::Arc;

use crate::config::Settings;
use crate::cube::guard::Guard;
use crate::rules::breaker::{self, Change};
use crate::rules::lanes::Lane;
use crate::rules::write_path::{Event, Limits};
use crate::telemetry::{BreakerMove, BreakerPath, Metrics};
use crate::time::Clock;

/// The guard that these settings mean.
pub(super) fn guard(settings: &Settings, metrics: &Arc<Metrics>, clock: &Arc<dyn Clock>) -> Arc<Guard> {
    let counted = Arc::clone(metrics);
    let observe = Arc::new(move |event| count(&counted, event));
    Arc::new(Guard::new(limits(settings), Arc::clone(clock), observe))
}

fn limits(settings: &Settings) -> Limits {
    let write_path = &settings.calls.write_path;
    let breaker = breaker::Limits {
        failures: write_path.failures,
        failure_percent: write_path.failure_percent,
        window: write_path.window,
        wait: write_path.probe_interval,
        wait_most: write_path.probe_interval_max,
        // A create that Cube lets hang is over after its budget; what lasts longer has gone astray.
        probe_deadline: settings.cube.budgets.call + std::time::Duration::from_secs(10),
    };
    Limits { most: u32::try_from(write_path.max_writes).unwrap_or(u32::MAX), breaker }
}

fn count(metrics: &Metrics, event: Event) {
    let Event::Breaker(lane, change) = event else { return };
    let path = if lane == Lane::Create { BreakerPath::Create } else { BreakerPath::Delete };
    let how = match change {
        Change::OpenedByRow(_) | Change::OpenedByShare(..) => BreakerMove::Opened,
        Change::Probes => BreakerMove::Probed,
        Change::ProbeEnded(_) => BreakerMove::ProbeFailed,
        Change::Closed => BreakerMove::Closed,
    };
    metrics.breaker_moved(path, how);
}
