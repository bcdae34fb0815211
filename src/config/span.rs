//! Lengths of time that the ranges of settings are made of.

use std::time::Duration;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);
/// Long enough for everybody, and far from the end of every arithmetic.
pub(super) const YEAR: Duration = Duration::from_hours(24 * 365);
