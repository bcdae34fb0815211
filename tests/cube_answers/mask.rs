//! Makes two answers comparable: what is random or a time becomes a mark, metadata comes into one order.

/// The text with marks.
pub(crate) fn masked(text: &str) -> String {
    sorted_metadata(&marked(text))
}

/// Kinds of random names, by what stands before their digits.
const PREFIXES: [&str; 4] = ["snap-", "job-", "op-", "tpl-"];

fn marked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (mark, length) = mark(rest).unwrap_or_else(|| (first.to_string(), first.len_utf8()));
        out.push_str(&mark);
        rest = &rest[length..];
    }
    out
}

/// What stands at the beginning of the text, if it is to be masked, and how long it is.
fn mark(text: &str) -> Option<(String, usize)> {
    let time = time_length(text).map(|length| (format!("<time of {length}>"), length));
    time.or_else(|| uuid_length(text).map(|length| ("<uuid>".to_owned(), length)))
        .or_else(|| random_name(text))
        .or_else(|| backend_url(text))
        .or_else(|| traffic_token(text))
}

fn time_length(text: &str) -> Option<usize> {
    let candidate = &text[..=text.find('Z')?];
    let shaped = candidate.len() < 40 && candidate.starts_with("20") && candidate.contains('T');
    (shaped && cubewarden::time::parse_rfc3339(candidate).is_some()).then_some(candidate.len())
}

fn hex_length(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)).count()
}

fn uuid_length(text: &str) -> Option<usize> {
    let candidate = text.get(..36)?;
    let parts: Vec<&str> = candidate.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| hex_length(part)).collect();
    (lengths == [8, 4, 4, 4, 12]).then_some(36)
}

fn random_name(text: &str) -> Option<(String, usize)> {
    let prefix = PREFIXES.into_iter().find(|prefix| text.starts_with(prefix))?;
    let digits = hex_length(&text[prefix.len()..]);
    // The templates that are always there are numbered, not random.
    let random = digits >= 12 && !text[prefix.len()..].starts_with("0000");
    random.then(|| (format!("{prefix}<{digits}>"), prefix.len() + digits))
}

fn backend_url(text: &str) -> Option<(String, usize)> {
    const LEAD: &str = "http://127.0.0.1:";
    let port = text.strip_prefix(LEAD)?.bytes().take_while(u8::is_ascii_digit).count();
    Some(("http://backend".to_owned(), LEAD.len() + port))
}

fn traffic_token(text: &str) -> Option<(String, usize)> {
    const LEAD: &str = "\"trafficAccessToken\":\"";
    let digits = hex_length(text.strip_prefix(LEAD)?);
    Some((format!("{LEAD}<{digits}>"), LEAD.len() + digits))
}

fn sorted_metadata(text: &str) -> String {
    const LEAD: &str = "\"metadata\":{";
    let mut pieces = text.split(LEAD);
    let first = pieces.next().unwrap_or_default().to_owned();
    let sorted = pieces.map(|piece| {
        let (pairs, rest) = piece.split_once('}').unwrap_or((piece, ""));
        let mut pairs: Vec<&str> = pairs.split(",\"").map(|pair| pair.trim_start_matches('"')).collect();
        pairs.sort_unstable();
        format!("{LEAD}{}}}{rest}", pairs.join(" "))
    });
    std::iter::once(first).chain(sorted).collect()
}
