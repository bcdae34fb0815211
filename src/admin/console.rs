//! `/`: the console, one page for a person, made of the files in `console/`. It reads what the JSON under `/v1/admin/` says.
//!
//! Must stay true: the files hold no secret, for they are served to whoever asks (the page asks for the token); the browser
//! is told to load nothing from elsewhere and to run nothing but these files, whatever a client's metadata says.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::answers;

/// Nothing from elsewhere, nothing inline, no text that becomes markup, in nobody's frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and content of each file.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("console/index.html")),
    ("/console.css", "text/css; charset=utf-8", include_str!("console/console.css")),
    ("/console.js", SCRIPT, include_str!("console/console.js")),
    ("/api.js", SCRIPT, include_str!("console/api.js")),
    ("/charts.js", SCRIPT, include_str!("console/charts.js")),
    ("/dom.js", SCRIPT, include_str!("console/dom.js")),
    ("/views.js", SCRIPT, include_str!("console/views.js")),
];

/// One of the console's files; `None` if the path is none of them.
pub(super) fn file(path: &str) -> Option<Response<Bytes>> {
    let (_, kind, content) = FILES.iter().find(|(served, ..)| *served == path)?;
    let mut answer = answers::text(StatusCode::OK, kind, (*content).to_owned());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_no_file_that_is_not_served_and_nothing_inline() {
        for (path, _, content) in FILES {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "localStorage",
                "cookie",
            ] {
                assert!(!content.contains(word), "{path} names {word}");
            }
            // The one address in them names SVG, and is never fetched.
            assert!(
                !content.replace("http://www.w3.org/2000/svg", "").contains("://"),
                "{path} names another place"
            );
            for named in
                content.split('"').filter(|text| [".js", ".css"].iter().any(|end| text.ends_with(end)))
            {
                assert!(
                    file(&format!("/{}", named.trim_start_matches("./"))).is_some(),
                    "{path} wants {named}"
                );
            }
        }
        let page = FILES[0].2;
        let acts = |word: &str| word.starts_with("on") && word.contains('=');
        assert!(
            !page.contains("<style") && !page.contains(" style=") && !page.split(' ').any(acts),
            "inline"
        );
    }
}
