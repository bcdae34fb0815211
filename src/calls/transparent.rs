//! Mode `transparent`, for emergencies: everything passes; suffixes are stripped and mends are made, nothing else.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::classify::{Act, Call};
use super::context::{BODY_LIMIT, Governor};
use super::mends::{self, Mend};
use super::seam::{Reply, Route};
use super::settings::{Compat, Settings};
use crate::cube::client::Pace;
use crate::cube::profile::Probe;

/// Where a mend could have something to say, the answer must be seen whole; all else streams.
pub(super) fn route(governor: &Governor, settings: &Settings, call: &Call, head: &mut Parts) -> Route {
    governor.metrics.passed();
    governor.cube.swap_credential(&mut head.headers);
    strip_suffix(call, head);
    if wants_v1(settings.compat, call) || wants_items(settings.compat, call, head) {
        return Route::Govern { body_limit: BODY_LIMIT };
    }
    Route::Pass
}

pub(super) fn strip_suffix(call: &Call, head: &mut Parts) {
    let Call::Sandbox { .. } = call else { return };
    let (Some(path), query) = (call.upstream_path(), head.uri.query()) else { return };
    let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
    if path != head.uri.path()
        && let Ok(uri) = target.parse()
    {
        head.uri = uri;
    }
}

fn wants_v1(compat: Compat, call: &Call) -> bool {
    let v2 = match call {
        Call::Create(prefix) | Call::Sandbox { act: Act::Connect, prefix, .. } => prefix.is_v2(),
        _ => false,
    };
    v2 && compat.v2_create
}

fn wants_items(compat: Compat, call: &Call, head: &Parts) -> bool {
    let agent = head.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let reads = matches!(call, Call::List(_) | Call::Sandbox { act: Act::Get, .. });
    let mends = compat.missing_end_at || compat.pausing_state;
    reads && mends && head.method == Method::GET && agent.is_some_and(mends::is_e2b)
}

/// Forwards with the mends, and asks nobody.
pub(super) async fn run(
    governor: &Governor,
    settings: &Settings,
    call: Call,
    head: Parts,
    body: Bytes,
) -> Reply {
    let agent = head.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or("").to_owned();
    let pace = if matches!(call, Call::Sandbox { act: Act::Connect, .. }) { Pace::Wake } else { Pace::Call };
    let answer = match governor.cube.carry(head.clone(), body.clone(), pace).await {
        Ok(answer) => answer,
        Err(error) => {
            return Reply::Answer(super::answers::refusal(&super::read_sandbox::unanswered(&error)));
        }
    };
    if wants_v1(settings.compat, &call) {
        let create = matches!(call, Call::Create(_));
        governor.cube.learn(if create { Probe::V2Create } else { Probe::V2Connect }, &answer);
        if mends::falls_back_to_v1(&settings.compat, answer.status().as_u16(), answer.body()) {
            governor.metrics.mended(Mend::V2Create.name());
            return Reply::Forward(as_v1(&call, head), body);
        }
        return Reply::Answer(answer);
    }
    let (head, body) = answer.into_parts();
    let text = std::str::from_utf8(&body).ok().filter(|_| head.status == StatusCode::OK);
    let mended = text.map(|text| match call {
        Call::List(_) => mends::list(&settings.compat, &agent, text),
        _ => mends::item(&settings.compat, &agent, text),
    });
    let body = mended.map_or(body, |mended| Bytes::from(mended.text));
    Reply::Answer(Response::from_parts(head, body))
}

fn as_v1(call: &Call, mut head: Parts) -> Parts {
    let prefix = match call {
        Call::Create(prefix) | Call::Sandbox { prefix, .. } => prefix.as_v1(),
        _ => return head,
    };
    if let Some(uri) = call.path_under(prefix).and_then(|path| path.parse().ok()) {
        head.uri = uri;
    }
    head
}
