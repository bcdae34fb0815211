//! Mode `enforce` with default settings: what governance has nothing to say on, and what it says in other words.
//!
//! Every request of the table falls under one of these, by the call it is:
//! - **Same**: passes, or is forwarded as it came (reads of templates, snapshots, volumes, logs; template writes; OPTIONS;
//!   unknown routes). Byte for byte the direct answer, plus the `x-request-id` that the warden adds by design.
//! - **Reframed**: the warden reads the answer (one sandbox, lists, connect, timeout, pause, delete, create, new objects),
//!   so it has a `Content-Length` instead of chunks and is never compressed. Status, all other fields and the body are the
//!   direct ones.
//! - **Mended**: as the two above, but Cube's error is empty or text and gets the JSON form: status and all fields but
//!   those of the body are the direct ones.
//! - **Judged**: the warden answers itself (a path that names no sandbox, a write that nobody knows, a create without a
//!   body or with one that two readers could understand differently, a v2 call that goes out as v1, pages and filters,
//!   what it has deleted): left out here, but for its form: a success of Cube's, or JSON with `code` equal to the status
//!   and a message.
//!
//! Masked everywhere: ids that the two Cubes made up by chance, and the last digits of their start times.

use cubewarden::calls::classify::{Act, Call, Verb, classify};

use super::request::{Names, Raw};
use super::table;
use super::world::World;
use crate::cube::Profile;
use crate::proxy::compare::{Answer, Framing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Same,
    Reframed,
    Judged,
}

/// What governance says on a request of the plain table.
fn says(request: &Raw) -> Says {
    let Ok(method) = request.method().parse() else { return Says::Same };
    match classify(&method, request.path()) {
        Call::Pass
        | Call::ReadTemplate
        | Call::WriteTemplate
        | Call::DeleteTemplate
        | Call::UngovernedWrite
        | Call::ListSnapshots
        | Call::ListVolumes
        | Call::Snapshot { verb: Verb::Read, .. }
        | Call::Volume { verb: Verb::Read, .. }
        | Call::Sandbox { act: Act::Logs | Act::Metrics | Act::OtherRead(_), .. } => Says::Same,
        Call::Sandbox { prefix, act: Act::Connect, .. } if prefix.is_v2() => Says::Judged,
        Call::Create(prefix) if prefix.is_v2() => Says::Judged,
        Call::Create(_) if !request.has_body() => Says::Judged,
        Call::NoSuchSandbox | Call::UngovernedSandboxWrite => Says::Judged,
        _ => Says::Reframed,
    }
}

/// Without the ids that were made up by chance and are not of the common world, and the digits below a millisecond.
fn masked(text: &str, names: &Names) -> String {
    let word = |word: &str| {
        let made_up = word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let known = names.values().any(|name| name.ends_with(word));
        let fraction = word.strip_suffix('Z').is_some_and(|digits| digits.len() == 9);
        if (made_up && !known) || fraction { "*".to_owned() } else { word.to_owned() }
    };
    let mut out = String::new();
    let mut rest = text;
    while let Some(end) = rest.find(|c: char| !c.is_ascii_alphanumeric()) {
        out += &word(&rest[..end]);
        let step = end + rest[end..].chars().next().map_or(1, char::len_utf8);
        out += &rest[end..step];
        rest = &rest[step..];
    }
    out + &word(rest)
}

/// The fields but those called `left_out`, masked.
fn fields(answer: &Answer, left_out: &[&str], names: &Names) -> Vec<(String, String)> {
    let kept = answer.fields.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), masked(value, names))).collect()
}

/// Is this an error that the SDKs can read: JSON, `code` equal to the status, a message?
fn well_said(answer: &Answer) -> bool {
    let status: u64 = answer.status_line.split(' ').nth(1).unwrap().parse().unwrap();
    let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let message = body["message"].as_str().is_some_and(|message| !message.is_empty());
    status < 400 || (body["code"] == status && message) || answer.framing == Framing::Bodiless
}

/// Whether Cube's error is one that is mended.
fn needs_mend(direct: &Answer) -> bool {
    let error = direct.status_line.split(' ').nth(1).is_some_and(|status| status.starts_with(['4', '5']));
    error && serde_json::from_str::<serde_json::Value>(&direct.body).is_err()
}

const REQUEST_ID: &str = "x-request-id";
const FRAMING: [&str; 3] = [REQUEST_ID, "transfer-encoding", "content-length"];
const BODY: [&str; 5] = [REQUEST_ID, "transfer-encoding", "content-length", "content-type", "vary"];

/// What is wrong with the answer through the warden; `None` if nothing is.
fn complaint(request: &Raw, direct: &Answer, through: &Answer, names: &Names) -> Option<&'static str> {
    let same = |left_out: &[&str]| {
        direct.status_line == through.status_line
            && fields(direct, left_out, names) == fields(through, left_out, names)
    };
    let same_body = masked(&direct.body, names) == masked(&through.body, names);
    let fine = match says(request) {
        Says::Judged => {
            return (!well_said(through)).then_some("an answer of the warden's own is not well said");
        }
        Says::Same => same(&[REQUEST_ID]) && same_body && direct.framing == through.framing,
        Says::Reframed if needs_mend(direct) => same(&BODY) && well_said(through),
        Says::Reframed => same(&FRAMING) && same_body,
    };
    let marked = fields(through, &[], names).iter().filter(|(name, _)| name == REQUEST_ID).count() == 1;
    match (fine, marked) {
        (false, _) => Some("the answer is another"),
        (true, false) => Some("no request id came back"),
        (true, true) => None,
    }
}

async fn check(profile: Profile, config: &str, imported: bool) {
    let world = World::of(profile, config).await;
    if imported {
        world.warden.warden.tasks.tick_inventory().await.unwrap();
        assert_eq!(world.warden.held().await, 5);
    }
    let all = table::plain(&world.names);
    let (mut complaints, mut counts) = (Vec::new(), [0; 3]);
    for request in &all {
        let (direct, through) = world.both(request).await;
        counts[says(request) as usize] += 1;
        if let Some(what) = complaint(request, &direct, &through, &world.names) {
            complaints.push(format!("{what}: {}\n direct:  {direct:?}\n through: {through:?}", request.line));
        }
    }
    let of = all.len();
    assert!(complaints.is_empty(), "{profile}: {} of {of}:\n{}", complaints.len(), complaints.join("\n"));
    assert!(counts[0] > 180 && counts[1] > 120, "{counts:?}");
    for request in table::governed(&world.names).iter().chain(&table::unspeakable(&world.names)) {
        let (_, through) = world.both(request).await;
        let broken = request.line.starts_with("BROKEN") && through.status_line == "HTTP/1.1 400 Bad Request";
        let passed = says(request) == Says::Same;
        assert!(broken || passed || well_said(&through), "{profile}: {}: {through:?}", request.line);
    }
    assert!(world.warden.warden.metrics.render(None).contains("cubewarden_panics_total 0"));
}

#[tokio::test]
async fn with_default_settings_nobody_notices_a_warden_before_v051() {
    check(Profile::V051, "", true).await;
}

#[tokio::test]
async fn with_default_settings_nobody_notices_a_warden_before_v060() {
    check(Profile::V060, "", true).await;
}

#[tokio::test]
async fn with_default_settings_nobody_notices_a_warden_before_v070() {
    check(Profile::V070, "", true).await;
}

/// Until the first inventory was taken, nothing has a record.
#[tokio::test]
async fn nobody_notices_a_warden_that_has_only_just_started() {
    check(Profile::V070, "", false).await;
}
