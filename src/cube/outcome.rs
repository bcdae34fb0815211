//! THE table of Cube's answers: done, refused, or unknown.
//!
//! Must stay true: three outcomes, never two; a timeout is not a failure, it may have happened. `Refused` is said only
//! where Cube has said that it did nothing, for a slot is given back on it. A 404 without a JSON body comes from a
//! router, not from a handler, and proves nothing. Deliberately absent: what to do about it.

use http::StatusCode;
use serde_json::Value;

use super::profile::Profile;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    /// A create.
    Create,
    /// A DELETE of a sandbox.
    Delete,
    /// Another write.
    Write,
    /// A GET of one sandbox.
    Get,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was not done.
    Refused {
        /// Cube is overrun: ask less often.
        slow_down: bool,
    },
    /// It may have been done, or may yet be.
    Unknown,
}

/// Codes inside a 500 that say: not done.
const REFUSED: [i64; 6] = [130_400, 130_404, 130_409, 130_483, 130_597, 130_593];
/// Codes inside a 500 that say: not done, and too much at once.
const SLOW_DOWN: [i64; 3] = [130_429, 130_480, 130_592];
/// The state does not allow it: already paused, already running, another operation in progress.
const WRONG_STATE: i64 = 130_490;
/// Could not be woken; said of a DELETE it means that nothing was deleted.
const RESUME_FAILED: i64 = 130_589;

/// Reads an answer.
#[must_use]
pub fn outcome(asked: Asked, status: u16, body: &[u8]) -> Outcome {
    let refused = Outcome::Refused { slow_down: false };
    match status {
        200..=299 => Outcome::Done,
        408 => Outcome::Unknown,
        429 => Outcome::Refused { slow_down: true },
        300..=499 | 501 => refused,
        500 => match cube_code(body) {
            Some(code) if SLOW_DOWN.contains(&code) => Outcome::Refused { slow_down: true },
            Some(code) if REFUSED.contains(&code) || code == WRONG_STATE => refused,
            Some(RESUME_FAILED) if asked == Asked::Delete => refused,
            _ => Outcome::Unknown,
        },
        // a DELETE that Cube itself puts off ("retry DELETE after 2 seconds"); any other 503 is somebody else's
        503 if asked == Asked::Delete && is_cubes_own(status, body) => refused,
        _ => Outcome::Unknown,
    }
}

/// Whether an answer proves that a sandbox is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absence {
    /// It is gone.
    Proven,
    /// It is there.
    Alive,
    /// The answer says nothing about it.
    NoProof,
}

/// Reads an answer to a GET or DELETE of one sandbox. Cube 0.1 answers 204 to a DELETE of anything: there, and where it is
/// not known whether this is such a Cube, only GET proves something.
#[must_use]
pub fn absence(asked: Asked, status: u16, body: &[u8], profile: &Profile) -> Absence {
    match (asked, status) {
        (Asked::Delete, 204) if profile.deletes_anything == Some(false) => Absence::Proven,
        (Asked::Delete | Asked::Get, 404) if is_cubes_own(status, body) => Absence::Proven,
        (Asked::Get, 200) if serde_json::from_slice::<Value>(body).is_ok_and(|body| body.is_object()) => {
            Absence::Alive
        }
        _ => Absence::NoProof,
    }
}

/// Was a DELETE refused because the sandbox is paused, so that it must be woken first? (Up to 0.5: 500 with 130593; some
/// builds before 0.6: 409.) Another operation under way, or no room to wake it, is not that.
#[must_use]
pub fn paused_refuses_delete(status: u16, body: &[u8]) -> bool {
    let text = message(body).unwrap_or_default();
    match status {
        500 => cube_code(body) == Some(130_593) && text.contains("not in normal state"),
        409 => !text.contains("in progress") && !text.contains("rejected by"),
        _ => false,
    }
}

/// Is there no such route (an empty 404 or 405), as of the v2 paths on a Cube without them?
#[must_use]
pub fn no_such_route(status: u16, body: &[u8]) -> bool {
    matches!(status, 404 | 405) && body.is_empty()
}

/// How long Cube asks to wait, in seconds: its header, or the words of a body that had no header (0.7.0).
#[must_use]
pub fn retry_after(header: Option<&str>, body: &[u8]) -> Option<u32> {
    const LONGEST: u32 = 300;
    let said = header.map(str::to_owned).or_else(|| {
        let text = message(body)?;
        let (_, tail) = text.split_once("retry DELETE after ")?;
        tail.split(' ').next().map(str::to_owned)
    })?;
    said.trim().parse::<u32>().ok().map(|seconds| seconds.min(LONGEST))
}

/// The code of `CubeMaster` inside a message, read from its very beginning: what follows may quote the client.
#[must_use]
pub fn cube_code(body: &[u8]) -> Option<i64> {
    let text = message(body)?;
    let (code, _) = text.strip_prefix("CubeMaster returned error code ")?.split_once(':')?;
    code.parse().ok()
}

fn message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body.get("message")?.as_str().map(str::to_owned)
}

/// Does the body say the status itself, as all errors of Cube's handlers do?
fn is_cubes_own(status: u16, body: &[u8]) -> bool {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    body.is_some_and(|body| body.get("code").and_then(Value::as_u64) == Some(u64::from(status)))
}

/// Was the answer to a create lost on the way, whoever lost it? The client cannot be told what became of it.
#[must_use]
pub fn is_lost(status: u16) -> bool {
    [StatusCode::REQUEST_TIMEOUT, StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT]
        .iter()
        .any(|lost| lost.as_u16() == status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Outcome = Outcome::Refused { slow_down: false };
    const SLOW: Outcome = Outcome::Refused { slow_down: true };
    const EVERY: [Asked; 4] = [Asked::Create, Asked::Delete, Asked::Write, Asked::Get];

    fn master(code: i64, text: &str) -> String {
        format!(r#"{{"code":500,"message":"CubeMaster returned error code {code}: {text}"}}"#)
    }

    #[test]
    fn every_status_has_one_outcome_whatever_was_asked() {
        for status in 100..=999u16 {
            let expected = match status {
                200..=299 => Outcome::Done,
                429 => SLOW,
                408 => Outcome::Unknown,
                300..=499 | 501 => NO,
                _ => Outcome::Unknown,
            };
            for asked in EVERY {
                assert_eq!(outcome(asked, status, b""), expected, "{asked:?} {status}");
            }
        }
    }

    #[test]
    fn every_code_inside_a_500_has_one_outcome() {
        for (code, expected) in [
            (130_400, NO),
            (130_404, NO),
            (130_409, NO),
            (130_483, NO),
            (130_490, NO),
            (130_593, NO),
            (130_597, NO),
            (130_429, SLOW),
            (130_480, SLOW),
            (130_592, SLOW),
            (130_401, Outcome::Unknown),
            (130_406, Outcome::Unknown),
            (130_408, Outcome::Unknown),
            (130_499, Outcome::Unknown),
            (130_588, Outcome::Unknown),
            (130_594, Outcome::Unknown),
            (130_595, Outcome::Unknown),
            (130_596, Outcome::Unknown),
            (130_598, Outcome::Unknown),
            (130_599, Outcome::Unknown),
            (-1, Outcome::Unknown),
            (404, Outcome::Unknown),
            (503, Outcome::Unknown),
        ] {
            for asked in EVERY {
                assert_eq!(outcome(asked, 500, master(code, "x").as_bytes()), expected, "{asked:?} {code}");
            }
        }
        assert_eq!(outcome(Asked::Delete, 500, master(130_589, "x").as_bytes()), NO);
        assert_eq!(outcome(Asked::Write, 500, master(130_589, "x").as_bytes()), Outcome::Unknown);
    }

    #[test]
    fn a_500_that_only_quotes_a_code_says_nothing() {
        for body in [
            r#"{"code":500,"message":"HTTP transport error: error sending request for url (http://h/cube/sandbox)"}"#,
            r#"{"code":500,"message":"failed: CubeMaster returned error code 130597: no more resource"}"#,
            r#"{"code":500,"message":"CubeMaster returned error code 130597"}"#,
            "CubeMaster returned error code 130597: no more resource",
            "",
        ] {
            assert_eq!(outcome(Asked::Create, 500, body.as_bytes()), Outcome::Unknown, "{body}");
        }
    }

    #[test]
    fn a_503_means_something_only_where_cube_puts_a_delete_off() {
        let own = br#"{"code":503,"message":"sandbox lifecycle operation is in progress; retry DELETE after 2 seconds"}"#;
        assert_eq!(outcome(Asked::Delete, 503, own), NO);
        assert_eq!(outcome(Asked::Create, 503, own), Outcome::Unknown);
        assert_eq!(outcome(Asked::Delete, 503, b"<html>busy</html>"), Outcome::Unknown);
        assert_eq!(retry_after(Some("2"), own), Some(2));
        assert_eq!(retry_after(None, master(130_593, "x; retry DELETE after 5 seconds").as_bytes()), Some(5));
        assert_eq!(retry_after(Some("Wed, 21 Oct 2026 07:28:00 GMT"), own), None);
        assert_eq!(retry_after(Some("99999"), b""), Some(300));
        assert_eq!(retry_after(None, b""), None);
    }

    #[test]
    fn only_a_handlers_404_or_a_204_of_delete_proves_absence() {
        let gone = br#"{"code":404,"message":"sandbox 0123 not found"}"#;
        let new = Profile { deletes_anything: Some(false), ..Profile::default() };
        let first = Profile { deletes_anything: Some(true), ..Profile::default() };
        let proof = |asked, status, body: &[u8]| absence(asked, status, body, &new);
        assert_eq!(proof(Asked::Get, 404, gone), Absence::Proven);
        assert_eq!(proof(Asked::Delete, 404, gone), Absence::Proven);
        assert_eq!(proof(Asked::Delete, 204, b""), Absence::Proven);
        assert_eq!(absence(Asked::Delete, 204, b"", &first), Absence::NoProof);
        assert_eq!(absence(Asked::Delete, 204, b"", &Profile::default()), Absence::NoProof);
        assert_eq!(absence(Asked::Get, 404, gone, &first), Absence::Proven);
        assert_eq!(proof(Asked::Get, 200, b"{}"), Absence::Alive);
        for (asked, status, body) in [
            (Asked::Get, 404, &b""[..]),
            (Asked::Delete, 404, b""),
            (Asked::Get, 404, b"<html>404</html>"),
            (Asked::Get, 404, br#"{"code":502}"#),
            (Asked::Get, 200, b""),
            (Asked::Get, 500, master(130_406, "NotFoundAtCubelet").as_bytes()),
            (Asked::Delete, 500, master(130_404, "no such sandbox").as_bytes()),
            (Asked::Write, 404, gone),
            (Asked::Create, 404, gone),
            (Asked::Delete, 200, b"{}"),
        ] {
            assert_eq!(proof(asked, status, body), Absence::NoProof, "{asked:?} {status}");
        }
    }

    /// CB01
    #[test]
    fn a_paused_sandbox_that_refuses_its_delete_is_known_by_code_or_conflict() {
        assert!(paused_refuses_delete(500, master(130_593, "sandbox not in normal state").as_bytes()));
        assert!(paused_refuses_delete(409, br#"{"code":409,"message":"sandbox is paused"}"#));
        for (status, body) in [
            (
                500,
                master(130_593, "sandbox lifecycle operation is in progress; retry DELETE after 2 seconds"),
            ),
            (500, master(130_597, "sandbox not in normal state")),
            (409, r#"{"code":409,"message":"sandbox lifecycle operation in progress; retry later"}"#.into()),
            (
                409,
                r#"{"code":409,"message":"resume rejected by paused_resource_release_ratio policy"}"#.into(),
            ),
            (503, r#"{"code":503,"message":"sandbox not in normal state"}"#.into()),
            (204, String::new()),
        ] {
            assert!(!paused_refuses_delete(status, body.as_bytes()), "{status} {body}");
        }
    }

    #[test]
    fn a_missing_route_is_empty_and_a_lost_answer_is_408_502_or_504() {
        assert!(no_such_route(404, b"") && no_such_route(405, b""));
        assert!(!no_such_route(404, b"{}") && !no_such_route(408, b""));
        let lost: Vec<u16> = (100..=599).filter(|status| is_lost(*status)).collect();
        assert_eq!(lost, [408, 502, 504]);
    }
}
