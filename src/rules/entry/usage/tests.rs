//! Calls whose end comes late.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use super::super::tests::{live, operation, timing};
use super::*;

#[test]
fn what_was_not_written_down_in_time_counts_once_and_shortens_nothing() {
    let (timing, now) = (timing(), UnixMillis(1_000_000));
    let call = operation(now);
    let deadline = now.plus(Duration::from_secs(600));
    let begun = Entry { deadline: Some(deadline), ..live(true) }.begin(call.clone(), now).unwrap();
    let late = |effect| begun.clone().end_late(&call.id, effect, now, &timing).unwrap();
    let (sooner, later) = (now.plus(Duration::from_secs(60)), now.plus(Duration::from_secs(6000)));
    for (effect, kept) in [
        (Effect::Deadline(Some(sooner)), Some(deadline)),
        (Effect::RunningUntil(Some(later)), Some(later)),
        (Effect::Deadline(None), None),
        (Effect::Paused, Some(deadline)),
    ] {
        let ended = late(effect);
        assert_eq!(
            (ended.deadline, ended.paused_since(), ended.busy(now)),
            (kept, None, false),
            "{effect:?}"
        );
        assert_eq!(ended.end_late(&call.id, effect, now, &timing), None);
    }
    let never = Entry { deadline: None, ..begun.clone() };
    assert_eq!(never.end_late(&call.id, Effect::Deadline(Some(later)), now, &timing).unwrap().deadline, None);
}
