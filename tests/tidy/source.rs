//! Rust source reduced to what the rules look at.
//!
//! Must stay true: line breaks survive, so that lines can still be counted. A lexer of forty lines, not a parser: it
//! knows comments, strings, raw strings and characters, and nothing else.

/// The text with comments and the insides of strings and characters replaced by blanks.
pub(super) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = foreign_length(rest, code.chars().next_back()).unwrap_or(0);
        if length == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            let (blanked, after) = rest.split_at(length);
            code.extend(blanked.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = after;
        }
    }
    code
}

/// The part before the inline test module; by the house's habit that module comes last.
pub(super) fn without_tests(text: &str) -> String {
    let end = ["\n#[cfg(test)]\nmod tests", "\n#[cfg(test)]\n#[expect"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min();
    text[..end.map_or(text.len(), |end| end + 1)].to_owned()
}

/// How many bytes of `rest` are a comment, string or character that begins right here.
fn foreign_length(rest: &str, before: Option<char>) -> Option<usize> {
    let follows_a_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest.as_bytes()[0] {
        b'/' if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => Some(block_comment_length(rest)),
        b'"' => Some(quoted_length(rest, '"')),
        b'r' if !follows_a_word => raw_string_length(rest),
        b'\'' => character_length(rest),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    loop {
        let tail = &rest[at..];
        let step = tail.chars().next().map_or(0, char::len_utf8);
        match step {
            0 => return rest.len(),
            _ if tail.starts_with("/*") => (at, depth) = (at + 2, depth + 1),
            _ if tail.starts_with("*/") && depth == 1 => return at + 2,
            _ if tail.starts_with("*/") => (at, depth) = (at + 2, depth - 1),
            step => at += step,
        }
    }
}

/// From the opening quote through the closing one, minding backslashes.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#` and so on; `None` for a raw identifier or any word that begins with r.
fn raw_string_length(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&close).map_or(rest.len(), |end| 2 + hashes + end + close.len()))
}

/// A character literal; `None` for a lifetime.
fn character_length(rest: &str) -> Option<usize> {
    let mut chars = rest.chars().skip(1);
    let (first, second) = (chars.next()?, chars.next()?);
    (first == '\\' || second == '\'').then(|| quoted_length(rest, '\''))
}

#[test]
fn comments_strings_and_characters_are_blanked_and_code_is_kept() {
    let text = "let a = \"x // \\\" y\"; // z\nlet b = r#\"q\"q\"#; let c: &'a str = f('\"', '\\''); /* /* d */ e */ g()\n";
    let words: Vec<String> = code_only(text).split_whitespace().map(str::to_owned).collect();
    assert_eq!(words.join(" "), "let a = ; let b = ; let c: &'a str = f( , ); g()");
    assert_eq!(code_only(text).lines().count(), 2);
}
