//! What each policy says of each kind of white subject.

use super::super::mark::tests::subject;
use super::*;
use crate::rules::colour::Ceilings;

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(1800);

fn of(change: impl FnOnce(&mut Subject), traffic: Traffic, retention: Option<Duration>) -> &'static str {
    let mut subject = subject();
    change(&mut subject);
    match sentence(&subject, traffic, Terms { retention, overdue_grace: GRACE }, NOW) {
        Sentence::End { reason, lasted, allowed } => {
            assert!(lasted >= allowed, "{reason:?} before its time");
            reason.name()
        }
        Sentence::Stay { keep, .. } => keep.name(),
    }
}

#[test]
fn what_is_paused_goes_by_retention_alone() {
    let paused = |minutes: u32| {
        move |subject: &mut Subject| {
            subject.phase = Phase::Live(Activity::Paused(NOW));
            subject.paused_for = Some(minutes * MINUTE);
            // A lease that lapsed long ago is no reason: a pause is how a session waits.
            subject.lapsed_for = Some(100 * GRACE);
            subject.overdue_for = Some(100 * GRACE);
        }
    };
    let hour = Some(60 * MINUTE);
    assert_eq!(of(paused(999_999), Traffic::Unknown, None), "no_retention");
    assert_eq!(of(paused(60), Traffic::Unknown, hour), "within_retention");
    assert_eq!(of(paused(61), Traffic::Unknown, hour), "retention");
}

#[test]
fn what_runs_ends_only_if_its_holder_is_silent_or_it_is_known_to_be_idle() {
    let lapsed = |length| move |subject: &mut Subject| subject.lapsed_for = Some(length);
    let overdue = |length| move |subject: &mut Subject| subject.overdue_for = Some(length);
    let ago = |length| Traffic::Last(NOW.minus(length));
    let long = GRACE + MINUTE;
    for retention in [None, Some(MINUTE)] {
        let of = |change: &dyn Fn(&mut Subject), traffic| of(change, traffic, retention);
        assert_eq!(of(&|_| {}, Traffic::Unknown), "endless");
        assert_eq!(of(&lapsed(GRACE), Traffic::Unknown), "within_grace");
        assert_eq!(of(&lapsed(long), Traffic::Unknown), "lease_lapsed");
        assert_eq!(of(&lapsed(long), ago(MINUTE)), "used_lately");
        assert_eq!(of(&overdue(100 * GRACE), Traffic::Unknown), "use_unknown");
        assert_eq!(of(&overdue(100 * GRACE), Traffic::NoneFor(GRACE)), "use_unknown");
        assert_eq!(of(&overdue(100 * GRACE), ago(GRACE)), "used_lately");
        assert_eq!(of(&overdue(GRACE), ago(long)), "within_grace");
        assert_eq!(of(&overdue(long), ago(long)), "overdue_idle");
        assert_eq!(of(&overdue(long), Traffic::NoneFor(long)), "overdue_idle");
    }
}

#[test]
fn ceilings_end_the_old_and_the_idle_and_the_running_only_if_they_are_known_to_be_idle() {
    let ceilings = Ceilings { idle: Some(MINUTE), age: Some(10 * MINUTE) };
    let beyond = |beyond, paused| {
        move |subject: &mut Subject| {
            (subject.ceilings, subject.beyond) = (ceilings, Some(beyond));
            if paused {
                subject.phase = Phase::Live(Activity::Paused(NOW));
                subject.paused_for = Some(MINUTE);
            }
        }
    };
    assert_eq!(of(beyond(Ceiling::Age, false), Traffic::Last(NOW), None), "max_age");
    assert_eq!(of(beyond(Ceiling::Age, true), Traffic::Unknown, None), "max_age");
    assert_eq!(of(beyond(Ceiling::Idle, true), Traffic::Unknown, None), "max_idle");
    assert_eq!(of(beyond(Ceiling::Idle, false), Traffic::Unknown, None), "endless");
    assert_eq!(of(beyond(Ceiling::Idle, false), Traffic::NoneFor(MINUTE), None), "max_idle");
}
