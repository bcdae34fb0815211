//! Which paths a source file names: `use` trees spelled out, and every other `a::b::c` in its code.
//!
//! Must stay true: `super` and `self` that lead to the crate's root come out as `crate`, so that no import hides.

/// All paths named in `code` (comments and strings already gone) of the file at `file`, one string each.
pub(super) fn named_paths(file: &str, code: &str) -> Vec<String> {
    let tokens = tokens_of(code);
    let own_modules = modules_declared_in(&tokens);
    let (mut imported, mut plain) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" {
            at = use_tree(&tokens, at + 1, "", &mut imported);
        } else if is_word(tokens[at]) && (at == 0 || !matches!(tokens[at - 1], "::" | ".")) {
            let end = chain_end(&tokens, at);
            // A single word is a name of the file's own; a crate shows itself by what follows it.
            plain.extend((end > at + 1).then(|| tokens[at..end].concat()));
            at = end;
        } else {
            at += 1;
        }
    }
    let plain: Vec<String> = plain.iter().map(|path| through_imports(path, &imported)).collect();
    let depth = depth_of(file);
    let paths = imported.into_iter().chain(plain).map(|path| from_the_root(&path, depth));
    // A word before `::` that this file declares as a module is that module, not a crate of the same name.
    paths.filter(|path| !own_modules.iter().any(|own| path.split("::").next() == Some(own))).collect()
}

/// After `use crate::calls`, `calls::settings` is `crate::calls::settings`.
fn through_imports(path: &str, imported: &[String]) -> String {
    let (head, rest) = path.split_once("::").unwrap_or((path, ""));
    let import = imported.iter().find(|import| import.rsplit("::").next() == Some(head));
    import.map_or_else(|| path.to_owned(), |import| format!("{import}::{rest}"))
}

/// Is `path` the given path itself, or something inside it?
pub(super) fn begins(path: &str, whole: &str) -> bool {
    path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Words, `::`, and single other characters.
fn tokens_of(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let length = if rest.starts_with("::") { 2 } else { word.max(first.len_utf8()) };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn modules_declared_in<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    tokens.windows(2).filter(|pair| pair[0] == "mod").map(|pair| pair[1]).collect()
}

/// The token after the longest `word::word::…` that begins at `at`.
fn chain_end(tokens: &[&str], at: usize) -> usize {
    let mut end = at + 1;
    while end + 1 < tokens.len() && tokens[end] == "::" && is_word(tokens[end + 1]) {
        end += 2;
    }
    end
}

/// Spells out one branch of a `use` tree under `prefix`; returns the first token after it.
fn use_tree(tokens: &[&str], at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    let at = if tokens.get(at) == Some(&"::") { at + 1 } else { at };
    match tokens.get(at) {
        Some(&"{") => use_group(tokens, at + 1, prefix, paths),
        // `a::{self}` is `a`.
        Some(&"self") if !prefix.is_empty() => {
            push_and(paths, prefix.trim_end_matches("::").to_owned(), at + 1)
        }
        Some(word) if is_word(word) => {
            let end = chain_end(tokens, at);
            let path = format!("{prefix}{}", tokens[at..end].concat());
            match (tokens.get(end), tokens.get(end + 1)) {
                (Some(&"::"), Some(&"{")) => use_group(tokens, end + 2, &format!("{path}::"), paths),
                (Some(&"::"), Some(&"*")) | (Some(&"as"), _) => push_and(paths, path, end + 2),
                _ => push_and(paths, path, end),
            }
        }
        _ => at + 1,
    }
}

fn use_group(tokens: &[&str], mut at: usize, prefix: &str, paths: &mut Vec<String>) -> usize {
    while at < tokens.len() && tokens[at] != "}" {
        at = if tokens[at] == "," { at + 1 } else { use_tree(tokens, at, prefix, paths) };
    }
    at + 1
}

fn push_and(paths: &mut Vec<String>, path: String, next: usize) -> usize {
    paths.push(path);
    next
}

/// How many modules below the crate's root the file's own module is.
fn depth_of(file: &str) -> usize {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let inside = inside.trim_end_matches("/mod");
    if matches!(inside, "lib" | "main") { 0 } else { inside.split('/').count() }
}

/// `super::super::x` in a file two modules deep is `crate::x`; other relative paths stay as written.
fn from_the_root(path: &str, depth: usize) -> String {
    let path = path.strip_prefix("self::").unwrap_or(path);
    let climbs = path.split("::").take_while(|part| *part == "super").count();
    let rest: Vec<&str> = path.split("::").skip(climbs).collect();
    if climbs > 0 && climbs >= depth { format!("crate::{}", rest.join("::")) } else { path.to_owned() }
}

#[test]
fn use_trees_and_plain_paths_are_spelled_out() {
    let code =
        "use crate::{ids::{Owner, Bucket as B}, store::*}; pub use a; mod b; fn f() { b::g(x.y::<c::D>()); }";
    let named = named_paths("src/calls/list.rs", code);
    for wanted in ["crate::ids::Owner", "crate::ids::Bucket", "crate::store", "a", "c::D"] {
        assert!(named.iter().any(|path| path == wanted), "{wanted} is not in {named:?}");
    }
    assert!(
        !named.iter().any(|path| path.starts_with("b::")),
        "a module of the file's own is no crate: {named:?}"
    );
}

#[test]
fn a_path_that_begins_at_an_import_is_spelled_from_its_root() {
    let named =
        named_paths("src/config/mod.rs", "use crate::{calls, time as t}; fn f(x: calls::Governor) {}");
    assert!(named.iter().any(|path| path == "crate::calls::Governor"), "{named:?}");
}

#[test]
fn climbing_to_the_root_is_seen_and_climbing_inside_a_room_is_not() {
    assert_eq!(
        from_the_root("super::super::store::Store", depth_of("src/calls/list.rs")),
        "crate::store::Store"
    );
    assert_eq!(from_the_root("super::store::Store", depth_of("src/calls/mod.rs")), "crate::store::Store");
    assert_eq!(
        from_the_root("super::context::Context", depth_of("src/calls/list.rs")),
        "super::context::Context"
    );
}
