//! Hop-by-hop header fields (RFC 9110, 7.6.1). PURE: header maps in, header maps out.
//!
//! Must stay true: what is end-to-end keeps its value, its repetition and its place; framing fields are never dropped on a
//! peer's word. `Transfer-Encoding` stays where it stands: the HTTP library re-makes the chunks and trusts that line.

use http::header::{self, Entry};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What a request wants its connection to become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// An ordinary exchange.
    Exchange,
    /// Another protocol, if the upstream agrees.
    Upgrade,
}

/// Brings a request's head into the form that goes on: origin-form target, its authority as `Host`, nothing hop-by-hop
/// but `TE: trailers` and a real upgrade.
pub(super) fn clean_request(head: &mut Parts) -> Wish {
    to_origin_form(head);
    let wish = wish(head);
    let trailers = tokens(&head.headers, &header::TE).any(|token| {
        let coding = token.split(';').next().unwrap_or_default();
        coding.trim().eq_ignore_ascii_case("trailers")
    });
    let kept = match (wish, trailers) {
        (Wish::Upgrade, true) => "TE, Upgrade",
        (Wish::Upgrade, false) => "Upgrade",
        (Wish::Exchange, true) => "TE",
        (Wish::Exchange, false) => "",
    };
    if trailers {
        head.headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    strip(&mut head.headers, kept);
    wish
}

/// Takes an upgrade wish out of a head that goes on as an ordinary exchange.
pub(super) fn without_upgrade(headers: &mut HeaderMap) {
    let trailers = headers.contains_key(header::TE);
    strip(headers, if trailers { "TE" } else { "" });
}

/// Brings an answer's head into the form that goes back. The connection's own end is our HTTP library's business.
pub(super) fn clean_answer(status: StatusCode, headers: &mut HeaderMap) {
    let about_upgrade = status == StatusCode::SWITCHING_PROTOCOLS || status == StatusCode::UPGRADE_REQUIRED;
    let kept = if about_upgrade && headers.contains_key(header::UPGRADE) { "Upgrade" } else { "" };
    strip(headers, kept);
}

/// Sets the exact length of a whole body; an answer that may have none gets none.
pub(super) fn set_length(status: StatusCode, headers: &mut HeaderMap, length: usize) {
    remove(headers, |name| name == header::TRANSFER_ENCODING || name == header::TRAILER);
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless || status.is_informational() {
        remove(headers, |name| name == header::CONTENT_LENGTH);
    } else {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Removes one field; the others keep their order (which `HeaderMap::remove` does not promise).
pub(super) fn remove(headers: &mut HeaderMap, unwanted: impl Fn(&HeaderName) -> bool) {
    if !headers.keys().any(&unwanted) {
        return;
    }
    let mut current = None;
    for (name, value) in std::mem::take(headers) {
        if name.is_some() {
            current = name;
        }
        if let Some(name) = current.as_ref().filter(|name| !unwanted(name)) {
            headers.append(name.clone(), value);
        }
    }
}

/// `h2c` is no upgrade that can be tunnelled through a pooled exchange: without it the peers stay on HTTP/1.1.
fn wish(head: &Parts) -> Wish {
    let asked = head.version == Version::HTTP_11
        && tokens(&head.headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let mut protocols = tokens(&head.headers, &header::UPGRADE).peekable();
    let real = protocols.peek().is_some() && !protocols.any(|token| token.eq_ignore_ascii_case("h2c"));
    if asked && real { Wish::Upgrade } else { Wish::Exchange }
}

/// An absolute-form target names the host; it then counts instead of `Host` (RFC 9112, 3.2.2).
fn to_origin_form(head: &mut Parts) {
    let Some(authority) = head.uri.authority() else {
        return;
    };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        match head.headers.entry(header::HOST) {
            Entry::Occupied(mut there) => drop(there.insert(host)),
            Entry::Vacant(none) => drop(none.insert(host)),
        }
    }
    let path = head.uri.path_and_query().cloned();
    head.uri = path.map_or_else(Uri::default, Uri::from);
}

/// Removes what is hop-by-hop; `kept` are the options that the next hop is to see, as its `Connection` line.
fn strip(headers: &mut HeaderMap, kept: &'static str) {
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| !is_framing(name))
        .collect();
    let keeps = |option: &str| kept.split(", ").any(|token| token.eq_ignore_ascii_case(option));
    let hop = |name: &HeaderName| match *name {
        header::CONNECTION => kept.is_empty(),
        header::TE | header::UPGRADE => !keeps(name.as_str()),
        _ => *name == KEEP_ALIVE || *name == PROXY_CONNECTION || named.contains(name),
    };
    if !kept.is_empty() {
        headers.insert(header::CONNECTION, HeaderValue::from_static(kept));
    }
    remove(headers, hop);
}

/// Dropping these because `Connection` names them would let a peer change where a message ends or whom it is for.
fn is_framing(name: &HeaderName) -> bool {
    matches!(*name, header::HOST | header::CONTENT_LENGTH | header::TRANSFER_ENCODING)
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}
