//! Mends: what clients and Cube versions do not understand of each other, put right before or after a call.
//!
//! Each is a pure function with a switch of its own and a name under which it is counted. Must stay true: what is not
//! mended keeps its bytes; statuses never change; a mend that has nothing to do says so and is not counted. Deliberately
//! absent: anything that would hide a failure.

use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::settings::Compat;
use crate::cube::api::{ConnectBody, CreateBody, Lifecycle, OnTimeout, set_members};
use crate::cube::outcome::{cube_code, no_such_route};
use crate::cube::profile::Profile;
use crate::verdict::{Reason, Refusal};

/// A mend, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mend {
    /// A v2 call went out as v1.
    V2Create,
    /// `lifecycle` was said for autoPause and autoResume.
    Lifecycle,
    /// An error body was put into JSON.
    ErrorBody,
    /// A missing endAt, or another field that the client's model requires, was filled in.
    MissingEndAt,
    /// `pausing` was called `paused`.
    PausingState,
    /// "No more resource" was said as a 429.
    CapacityAnswers,
}

impl Mend {
    /// Every mend, for metrics that must exist from the start.
    pub const ALL: [Self; 6] = [
        Self::V2Create,
        Self::Lifecycle,
        Self::ErrorBody,
        Self::MissingEndAt,
        Self::PausingState,
        Self::CapacityAnswers,
    ];

    /// The name, which is also that of its switch.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2Create => "v2_create",
            Self::Lifecycle => "lifecycle",
            Self::ErrorBody => "error_bodies",
            Self::MissingEndAt => "missing_end_at",
            Self::PausingState => "pausing_state",
            Self::CapacityAnswers => "capacity_answers",
        }
    }
}

/// Is this the answer after which a v2 call goes out again as v1? Only a router's empty 404 or 405 is: it proves that
/// nothing was begun.
#[must_use]
pub fn falls_back_to_v1(compat: &Compat, status: u16, body: &[u8]) -> bool {
    compat.v2_create && no_such_route(status, body)
}

/// May this create go out as v1?
///
/// # Errors
/// 400 if it asks for what v1 cannot honour: v1 would ignore it and keep the memory.
pub fn create_as_v1(body: &CreateBody) -> Result<(), Refusal> {
    match (body.memory, body.auto_pause_memory) {
        (Some(false), _) => Err(needs_v2("memory")),
        (_, Some(false)) => Err(needs_v2("autoPauseMemory")),
        _ => Ok(()),
    }
}

/// May this connect go out as v1?
///
/// # Errors
/// 400 if it asks for a start without the old memory.
pub fn connect_as_v1(body: &ConnectBody) -> Result<(), Refusal> {
    if body.without_memory() { Err(needs_v2("memory")) } else { Ok(()) }
}

fn needs_v2(field: &str) -> Refusal {
    let text =
        format!("{field}: false is not supported by this Cube, which always keeps memory; leave it out");
    Refusal::new(Reason::BadRequest, text)
}

/// What `lifecycle` a create must say so that an upstream heeds its autoPause and autoResume; `None` if it is fine.
#[must_use]
pub fn lifecycle(compat: &Compat, profile: &Profile, body: &CreateBody) -> Option<Lifecycle> {
    let asked = body.auto_pause == Some(true) || body.auto_resume == Some(true);
    // where `lifecycle` stands, Cube ignores the others
    let needed = compat.lifecycle && profile.lifecycle_needed() && body.lifecycle.is_none();
    (needed && asked).then(|| Lifecycle {
        on_timeout: (body.auto_pause == Some(true)).then_some(OnTimeout::Pause),
        auto_resume: body.auto_resume,
    })
}

/// The code of `CubeMaster` for "no more resource".
const NO_MORE_RESOURCE: i64 = 130_597;
/// How many characters of an error text are kept.
const LONGEST_MESSAGE: usize = 1000;

/// The JSON form of an error body that is empty or text (JS SDK 2.12 reads an empty error as success, Python breaks on
/// both); `None` for what is JSON already, or no error.
#[must_use]
pub fn error_body(compat: &Compat, status: u16, body: &[u8]) -> Option<String> {
    if !compat.error_bodies || !(400..600).contains(&status) || serde_json::from_slice::<Value>(body).is_ok()
    {
        return None;
    }
    let text = std::str::from_utf8(body).unwrap_or_default().trim();
    let said = !text.is_empty() && !text.starts_with('<');
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let message = if said { text } else { reason.unwrap_or("error") };
    let message: String = message.chars().take(LONGEST_MESSAGE).collect();
    let members = [("code".to_owned(), status.into()), ("message".to_owned(), message.into())];
    Some(Value::Object(Map::from_iter(members)).to_string())
}

/// What the client is told when Cube has no more resource (it says so as an internal error, 130597, though nothing was
/// begun and trying again later helps); `None` if it said something else.
#[must_use]
pub fn capacity(compat: &Compat, status: u16, body: &[u8]) -> Option<Refusal> {
    let full = compat.capacity_answers && status == 500 && cube_code(body) == Some(NO_MORE_RESOURCE);
    full.then(|| {
        let cube: Option<Value> = serde_json::from_slice(body).ok();
        let said =
            cube.as_ref().and_then(|cube| cube.get("message")).and_then(Value::as_str).unwrap_or_default();
        Refusal::new(
            Reason::CapacityExceeded,
            format!("Cube has no room for another sandbox now ({said}); try again later"),
        )
    })
}

/// A text with the mends that were made to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// The text.
    pub text: String,
    /// What was mended, one for each time.
    pub made: Vec<Mend>,
}

/// What the models of E2B's SDKs require of an item, and what stands in for it. The end is what Cube 0.7 says itself;
/// the version is the one it falls back to.
const REQUIRED: [(&str, &str); 8] = [
    ("templateID", r#""""#),
    ("clientID", r#""cube""#),
    ("startedAt", r#""1970-01-01T00:00:00Z""#),
    ("endAt", r#""9999-12-31T23:59:59Z""#),
    ("cpuCount", "0"),
    ("memoryMB", "0"),
    ("diskSizeMB", "0"),
    ("envdVersion", r#""0.2.0""#),
];

/// Does this client refuse a list in which one item is incomplete?
#[must_use]
pub fn is_e2b(user_agent: &str) -> bool {
    ["e2b-python-sdk/", "e2b-js-sdk/", "e2b-code-interpreter"].iter().any(|name| user_agent.contains(name))
}

/// Mends one item of a list, or a detail, for this client.
#[must_use]
pub fn item(compat: &Compat, user_agent: &str, text: &str) -> Mended {
    let fields: Map<String, Value> = match serde_json::from_str(text) {
        Ok(fields) if is_e2b(user_agent) => fields,
        _ => return Mended { text: text.to_owned(), made: Vec::new() },
    };
    let mut set = Vec::new();
    let mut made = Vec::new();
    if compat.missing_end_at {
        let missing = REQUIRED.iter().filter(|(name, _)| fields.get(*name).is_none_or(Value::is_null));
        set.extend(missing.map(|(name, json)| ((*name).to_owned(), (*json).to_owned())));
        made.extend((!set.is_empty()).then_some(Mend::MissingEndAt));
    }
    if compat.pausing_state && fields.get("state").and_then(Value::as_str) == Some("pausing") {
        set.push(("state".to_owned(), r#""paused""#.to_owned()));
        made.push(Mend::PausingState);
    }
    let mended = if set.is_empty() { None } else { set_members(text, &set) };
    Mended { text: mended.unwrap_or_else(|| text.to_owned()), made }
}

/// Mends each item of a whole list; what is no list stays as it is.
#[must_use]
pub fn list(compat: &Compat, user_agent: &str, text: &str) -> Mended {
    let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    let (mut out, mut made, mut at) = (String::with_capacity(text.len()), Vec::new(), 0);
    for raw in items {
        // the parser borrows the item from `text`, so the distance of the addresses is its position
        let from = raw.get().as_ptr().addr() - text.as_ptr().addr();
        let mended = item(compat, user_agent, raw.get());
        out.push_str(&text[at..from]);
        out.push_str(&mended.text);
        made.extend(mended.made);
        at = from + raw.get().len();
    }
    out.push_str(&text[at..]);
    Mended { text: out, made }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use bytes::Bytes;

    use super::*;

    const E2B: &str = "e2b-python-sdk/2.63.0";
    const OFF: Compat = Compat {
        v2_create: false,
        lifecycle: false,
        error_bodies: false,
        missing_end_at: false,
        pausing_state: false,
        capacity_answers: false,
    };

    fn create(text: &'static str) -> CreateBody {
        CreateBody::read(&Bytes::from_static(text.as_bytes())).unwrap()
    }

    /// CB23
    #[test]
    fn a_v2_call_falls_back_on_a_routers_answer_only_and_never_loses_what_v1_cannot_do() {
        let on = Compat::default();
        assert!(falls_back_to_v1(&on, 405, b"") && falls_back_to_v1(&on, 404, b""));
        for (status, body) in
            [(404, &br#"{"code":404,"message":"x"}"#[..]), (408, b""), (500, b""), (201, b"")]
        {
            assert!(!falls_back_to_v1(&on, status, body), "{status}");
        }
        assert!(!falls_back_to_v1(&OFF, 405, b""));
        for bad in [r#"{"templateID":"t","memory":false}"#, r#"{"templateID":"t","autoPauseMemory":false}"#] {
            assert_eq!(create_as_v1(&create(bad)).unwrap_err().reason.status(), 400);
        }
        assert!(create_as_v1(&create(r#"{"templateID":"t","memory":true}"#)).is_ok());
        let connect = |text: &'static str| {
            connect_as_v1(&ConnectBody::read(&Bytes::from_static(text.as_bytes())).unwrap())
        };
        assert!(connect(r#"{"timeout":9}"#).is_ok());
        assert_eq!(connect(r#"{"memory":false}"#).unwrap_err().reason.status(), 400);
    }

    #[test]
    fn auto_pause_and_auto_resume_are_said_as_lifecycle_where_nothing_else_is_heeded() {
        let old = Profile { heeds_auto_pause: Some(false), ..Profile::default() };
        let of =
            |text| lifecycle(&Compat::default(), &old, &create(text)).map(|l| (l.on_timeout, l.auto_resume));
        let pause = Some(OnTimeout::Pause);
        assert_eq!(of(r#"{"templateID":"t","autoPause":true}"#), Some((pause, None)));
        assert_eq!(of(r#"{"autoPause":true,"autoResume":{"enabled":true}}"#), Some((pause, Some(true))));
        assert_eq!(of(r#"{"autoPause":true,"autoResume":{"enabled":false}}"#), Some((pause, Some(false))));
        assert_eq!(of(r#"{"auto_resume":true}"#), Some((None, Some(true))));
        for fine in [
            r#"{"templateID":"t"}"#,
            r#"{"autoPause":false,"autoResume":{"enabled":false}}"#,
            r#"{"autoPause":true,"lifecycle":{"onTimeout":"kill"}}"#,
        ] {
            assert_eq!(of(fine), None, "{fine}");
        }
        let body = create(r#"{"autoPause":true}"#);
        assert_eq!(lifecycle(&OFF, &old, &body), None);
        let new = Profile { heeds_auto_pause: Some(true), ..Profile::default() };
        assert_eq!(lifecycle(&Compat::default(), &new, &body), None);
    }

    #[test]
    fn an_empty_or_text_error_gets_the_json_form_and_everything_else_stays() {
        let of = |status, body: &[u8]| error_body(&Compat::default(), status, body);
        assert_eq!(of(408, b"").unwrap(), r#"{"code":408,"message":"Request Timeout"}"#);
        assert_eq!(of(404, b"").unwrap(), r#"{"code":404,"message":"Not Found"}"#);
        let text = b"Failed to parse the request body as JSON: \"x\"";
        assert_eq!(
            of(422, text).unwrap(),
            r#"{"code":422,"message":"Failed to parse the request body as JSON: \"x\""}"#
        );
        assert_eq!(of(502, b"<html>Bad</html>").unwrap(), r#"{"code":502,"message":"Bad Gateway"}"#);
        assert_eq!(of(599, b"\xff").unwrap(), r#"{"code":599,"message":"error"}"#);
        for (status, body) in
            [(404, &br#"{"code":404,"message":"x"}"#[..]), (204, b""), (201, b"x"), (304, b"")]
        {
            assert_eq!(of(status, body), None, "{status}");
        }
        assert_eq!(error_body(&OFF, 408, b""), None);
    }

    const WHOLE: &str = r#"{"templateID":"t","sandboxID":"s","clientID":"c","startedAt":"a","endAt":"b","cpuCount":2,"memoryMB":2048,"diskSizeMB":0,"state":"running","envdVersion":"0.5.11"}"#;

    #[test]
    fn an_item_that_would_break_the_whole_list_of_an_e2b_client_is_completed() {
        let on = Compat::default();
        let never = WHOLE.replace(r#","endAt":"b""#, "");
        let completed =
            WHOLE.replace(r#","endAt":"b""#, "").replace('}', r#","endAt":"9999-12-31T23:59:59Z"}"#);
        assert_eq!(item(&on, E2B, &never), Mended { text: completed, made: vec![Mend::MissingEndAt] });
        let null = WHOLE.replace(r#""b""#, "null");
        assert_eq!(item(&on, E2B, &null).text, WHOLE.replace(r#""b""#, r#""9999-12-31T23:59:59Z""#));
        let pausing = WHOLE.replace("running", "pausing");
        assert_eq!(item(&on, E2B, &pausing).text, WHOLE.replace("running", "paused"));
        let both = item(&on, E2B, r#"{ "sandboxID" : "s", "state":"pausing" }"#);
        assert_eq!(both.made, [Mend::MissingEndAt, Mend::PausingState]);
        let fields: Map<String, Value> = serde_json::from_str(&both.text).unwrap();
        assert!(REQUIRED.iter().all(|(name, _)| fields.contains_key(*name)));
    }

    #[test]
    fn what_needs_no_mend_or_may_get_none_keeps_its_bytes() {
        let broken = r#"{ "state" : "pausing","x":1.0 }"#;
        for (compat, agent, text) in [
            (Compat::default(), E2B, WHOLE),
            (Compat::default(), "python-requests/2.34.2", broken),
            (OFF, "e2b-js-sdk/2.51.0", broken),
            (Compat::default(), E2B, "[1]"),
            (Compat::default(), E2B, "nonsense"),
        ] {
            assert_eq!(item(&compat, agent, text), Mended { text: text.into(), made: vec![] }, "{text}");
        }
        for text in ["[]", " [ ] ", "{}", "nonsense", ""] {
            assert_eq!(list(&Compat::default(), E2B, text).text, text);
        }
    }

    #[test]
    fn in_a_list_only_the_items_that_need_it_change() {
        let pausing = WHOLE.replace("running", "pausing");
        let before = format!(" [ {WHOLE} , {pausing}\n, 5 ] ");
        let mended = list(&Compat::default(), "e2b-code-interpreter/1", &before);
        assert_eq!(mended.text, before.replace("pausing", "paused"));
        assert_eq!(mended.made, [Mend::PausingState]);
    }

    /// CB31
    #[test]
    fn no_more_resource_is_said_as_what_it_is_and_nothing_else_is() {
        let full = br#"{"code":500,"message":"CubeMaster returned error code 130597: no more resource"}"#;
        let said = capacity(&Compat::default(), 500, full).unwrap();
        assert_eq!(said.reason, Reason::CapacityExceeded);
        assert!(said.message.contains("130597: no more resource"));
        assert_eq!(capacity(&OFF, 500, full), None);
        let other = br#"{"code":500,"message":"CubeMaster returned error code 130598: no more resource"}"#;
        assert_eq!(capacity(&Compat::default(), 500, other), None);
        assert_eq!(capacity(&Compat::default(), 503, full), None);
    }
}
