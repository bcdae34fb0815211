//! What one upstream can do, learned from its answers.
//!
//! Must stay true: what is not known is `None` and is treated in the way that is right for every version; learning is
//! a pure step from an answer to the next profile. Deliberately absent: who probes, and when.

use super::outcome::no_such_route;

/// An answer that tells something of the version behind it. None of the questions changes anything: the writes name the
/// sandbox of all zeros, which does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// `POST /v2/sandboxes` (a client's create; never sent as a probe).
    V2Create,
    /// `POST /v2/sandboxes/{id}/connect` (a client's connect; never sent as a probe).
    V2Connect,
    /// `POST /sandboxes/0../timeout {"timeout":60}`
    TimeoutOfNobody,
    /// `DELETE /sandboxes/0..`
    DeleteOfNobody,
}

/// What an upstream can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// It creates under `/v2` (no Cube up to 0.7).
    pub has_v2_create: Option<bool>,
    /// It connects under `/v2` (no Cube up to 0.7).
    pub has_v2_connect: Option<bool>,
    /// It heeds `autoPause` at the top level (from 0.7); else it must be told by `lifecycle`.
    pub heeds_auto_pause: Option<bool>,
    /// It answers 204 to the DELETE of an id that it never had (0.1): such a 204 proves nothing.
    pub deletes_anything: Option<bool>,
}

impl Profile {
    /// The profile after one more answer. An answer that may come from something else (5xx but 500, 408, 401, 429)
    /// teaches nothing.
    #[must_use]
    pub fn learn(&self, probe: Probe, status: u16, body: &[u8]) -> Self {
        let mut next = *self;
        if matches!(status, 401 | 403 | 408 | 429 | 501..) {
            return next;
        }
        let there = Some(!no_such_route(status, body));
        match probe {
            Probe::V2Create => next.has_v2_create = there,
            Probe::V2Connect => next.has_v2_connect = there,
            // from 0.7 on an unknown sandbox is a 404 here too, and the same builds heed autoPause
            Probe::TimeoutOfNobody => next.heeds_auto_pause = Some(status == 404 && !body.is_empty()),
            Probe::DeleteOfNobody => next.deletes_anything = Some((200..300).contains(&status)),
        }
        next
    }

    /// Must top-level `autoPause` and `autoResume` be said again as `lifecycle`? Every version that pauses by itself
    /// understands `lifecycle`, so in doubt they are.
    #[must_use]
    pub fn lifecycle_needed(&self) -> bool {
        self.heeds_auto_pause != Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: &[u8] = br#"{"code":404,"message":"sandbox 00000000000000000000000000000000 not found"}"#;
    const MASTER: &[u8] =
        br#"{"code":500,"message":"CubeMaster returned error code 130404: sandbox not found"}"#;

    fn learned(answers: &[(Probe, u16, &[u8])]) -> Profile {
        let step = |profile: Profile, (probe, status, body): &(Probe, u16, &[u8])| {
            profile.learn(*probe, *status, body)
        };
        answers.iter().fold(Profile::default(), step)
    }

    #[test]
    fn the_recorded_answers_of_0_5_1_and_of_0_7_give_their_profiles() {
        let old = learned(&[
            (Probe::V2Create, 405, b""),
            (Probe::V2Connect, 404, b""),
            (Probe::TimeoutOfNobody, 500, MASTER),
            (Probe::DeleteOfNobody, 404, NOBODY),
        ]);
        let expected = Profile {
            has_v2_create: Some(false),
            has_v2_connect: Some(false),
            heeds_auto_pause: Some(false),
            deletes_anything: Some(false),
        };
        assert_eq!(old, expected);
        assert!(old.lifecycle_needed());
        let new = learned(&[(Probe::TimeoutOfNobody, 404, NOBODY), (Probe::V2Create, 201, b"{}")]);
        assert_eq!(new.has_v2_create, Some(true));
        assert!(!new.lifecycle_needed());
    }

    #[test]
    fn an_answer_of_somebody_else_teaches_nothing() {
        for status in [401, 403, 408, 429, 502, 503, 504] {
            assert_eq!(
                learned(&[(Probe::V2Create, status, b""), (Probe::V2Connect, status, b"x")]),
                Profile::default()
            );
        }
        assert!(Profile::default().lifecycle_needed());
        assert_eq!(learned(&[(Probe::DeleteOfNobody, 204, b"")]).deletes_anything, Some(true));
    }
}
