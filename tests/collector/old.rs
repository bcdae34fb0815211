//! The rules that the article tells of, each as it was when its incident came: what would have been collected.

use cubewarden::rules::entry::Entry;
use cubewarden::time::UnixMillis;

/// Before July 13: what is overdue is Cube's own sweeper's to end.
pub(super) fn leaves_the_overdue_to_cube(_entry: &Entry, _now: UnixMillis) -> bool {
    false
}

/// The first fix: whatever is overdue by more than 1800 s is killed, in use or not.
pub(super) fn ends_all_that_is_overdue(entry: &Entry, now: UnixMillis) -> bool {
    entry.deadline.is_some_and(|deadline| now.since(deadline).as_secs() > 1800)
}

/// The second round: whatever holds a lease is a root, lapsed or not.
pub(super) fn keeps_what_holds_a_lease(entry: &Entry, now: UnixMillis) -> bool {
    entry.lease.is_none() && ends_all_that_is_overdue(entry, now)
}

/// The third round: a list that falls from some to none is no list, and without a list nothing is looked at. True if
/// anything is looked at.
pub(super) fn looks_at_a_list(before: usize, now: usize) -> bool {
    now > 0 || before == 0
}

/// August 13: what retention does not end is nobody's concern.
pub(super) fn reports(entry: &Entry, retention_seconds: u64, now: UnixMillis) -> bool {
    retention_seconds > 0
        && entry.paused_since().is_some_and(|since| now.since(since).as_secs() > retention_seconds)
}
