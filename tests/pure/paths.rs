//! No spelling of a path reaches a governed thing ungoverned, whoever normalises it on the way.

use cubewarden::calls::classify::{Call, classify};
use http::Method;
use percent_encoding::percent_decode_str;
use proptest::collection::vec;
use proptest::prelude::*;

use super::cases;

const ID: &str = "0cbc7f6b7af7453fac450e3313bcc679";

/// What a path is made of by somebody who tries.
fn fragment() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(vec![
        "/",
        "/",
        "/",
        "//",
        "\\",
        "sandboxes",
        "sandboxes",
        "volumes",
        "snapshots",
        "templates",
        "snap-1",
        "v2",
        "v3",
        "cubeapi",
        "v1",
        "..",
        ".",
        ";a=b",
        "?",
        "#",
        "health",
        "logs",
        "connect",
        "fork",
        ID,
        "x",
        " ",
        "\u{0}",
        "-",
        "SANDBOXES",
        "Volumes",
        "%",
        "%25",
        "ü",
    ]);
    (plain, vec(0..4u8, 0..12)).prop_map(|(text, encoded)| {
        let letter = |(n, byte): (usize, u8)| match encoded.get(n).copied().unwrap_or(0) {
            1 => format!("%{byte:02x}").into_bytes(),
            2 => format!("%25{byte:02X}").into_bytes(),
            _ => vec![byte],
        };
        String::from_utf8_lossy(&text.bytes().enumerate().flat_map(letter).collect::<Vec<_>>()).into_owned()
    })
}

fn paths() -> impl Strategy<Value = String> {
    vec(fragment(), 0..8).prop_map(|fragments| format!("/{}", fragments.concat()))
}

/// What some server, proxy or framework does to a path, one at a time.
#[derive(Clone, Copy, Debug)]
enum Kindness {
    Decode,
    CollapseSlashes,
    TrimTrailingSlash,
    ResolveDots,
    LowerCase,
    Backslashes,
    DropParameters,
    CutAtQuestionMark,
    DropControls,
}

const KINDNESS: [Kindness; 9] = [
    Kindness::Decode,
    Kindness::CollapseSlashes,
    Kindness::TrimTrailingSlash,
    Kindness::ResolveDots,
    Kindness::LowerCase,
    Kindness::Backslashes,
    Kindness::DropParameters,
    Kindness::CutAtQuestionMark,
    Kindness::DropControls,
];

impl Kindness {
    fn apply(self, path: &str) -> String {
        match self {
            Self::Decode => percent_decode_str(path).decode_utf8_lossy().into_owned(),
            Self::CutAtQuestionMark => path.split(['?', '#']).next().unwrap().to_owned(),
            Self::DropControls => path.chars().filter(|c| !c.is_control()).collect(),
            Self::LowerCase => path.to_ascii_lowercase(),
            Self::Backslashes => path.replace('\\', "/"),
            Self::TrimTrailingSlash => path.trim_end_matches('/').to_owned(),
            Self::CollapseSlashes => {
                let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
                format!("/{}", parts.join("/"))
            }
            Self::DropParameters => {
                let parts: Vec<&str> = path.split('/').map(|part| part.split(';').next().unwrap()).collect();
                parts.join("/")
            }
            Self::ResolveDots => {
                let mut kept: Vec<&str> = Vec::new();
                for part in path.split('/') {
                    match part {
                        "." => {}
                        ".." => drop(kept.pop()),
                        part => kept.push(part),
                    }
                }
                format!("/{}", kept.join("/").trim_start_matches('/'))
            }
        }
    }
}

/// Does a router that compares segments find a sandbox here?
fn reaches_sandbox(path: &str) -> bool {
    root(path).1 == "sandboxes"
}

/// Does it find anything that belongs to somebody?
fn reaches_owned(path: &str) -> bool {
    let (rest, root) = root(path);
    let snapshot = rest.get(1).is_some_and(|id| id.starts_with("snap-"));
    matches!(root, "sandboxes" | "volumes" | "snapshots") || (root == "templates" && snapshot)
}

/// The path behind its prefixes, and its first segment.
fn root(path: &str) -> (Vec<&str>, &str) {
    let segments = path.trim_start_matches('/').split('/');
    let rest: Vec<&str> =
        segments.skip_while(|part| matches!(*part, "cubeapi" | "v1" | "v2" | "v3")).collect();
    let root = rest.first().copied().unwrap_or_default();
    (rest, root)
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn no_kindness_on_the_way_turns_a_passed_path_into_an_owned_one(
        path in paths(),
        kindnesses in vec(prop::sample::select(KINDNESS.to_vec()), 0..8),
        method in prop::sample::select(vec!["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "FROB"]),
    ) {
        let method: Method = method.parse().unwrap();
        let call = classify(&method, &path);
        prop_assert!(Call::all_names().contains(&call.name()));
        let reached = kindnesses.iter().fold(path.clone(), |path, kindness| kindness.apply(&path));
        let slipped = match call {
            Call::Pass | Call::ReadTemplate | Call::WriteTemplate | Call::DeleteTemplate => reaches_owned(&reached),
            // where there are tenants it is refused, and where there are none all else is everybody's
            Call::UngovernedWrite => reaches_sandbox(&reached),
            _ => false,
        };
        prop_assert!(!slipped, "{method} {path:?} is {call:?} and becomes {reached:?}");
    }

    #[test]
    fn a_call_on_a_sandbox_goes_upstream_under_the_bare_id_and_means_the_same_there(
        prefix in prop::sample::select(vec!["", "/v2", "/cubeapi/v1", "/cubeapi/v1/v2"]),
        form in prop::sample::select(vec!["", "-gmh7x2abc", "-node-0", "-gmh7x2abc-c"]),
        tail in "(/[a-z]{1,9}){0,3}",
    ) {
        let call = classify(&Method::GET, &format!("{prefix}/sandboxes/{ID}{form}{tail}"));
        let path = call.upstream_path();
        prop_assert_eq!(path.as_deref(), Some(&*format!("{prefix}/sandboxes/{ID}{tail}")));
        prop_assert_eq!(classify(&Method::GET, &path.unwrap()).name(), call.name());
    }

    #[test]
    fn any_text_is_some_call(path in ".{0,60}", method in "[A-Z]{1,7}") {
        let call = classify(&method.parse().unwrap(), &path);
        prop_assert!(Call::all_names().contains(&call.name()));
    }
}

#[test]
fn a_path_encoded_over_and_over_costs_no_more_than_its_length() {
    let path = format!("/x%{}41", "25".repeat(30_000));
    assert_eq!(classify(&Method::GET, &path), Call::NoSuchSandbox);
}
