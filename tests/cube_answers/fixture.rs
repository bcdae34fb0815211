//! Reads the recorded exchanges of `tests/cube/recorded/`; the format stands at the head of each file there.

use std::collections::BTreeMap;

/// A section: a fresh simulator, and what is done to it.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

/// One line of set-up, or one exchange.
#[derive(Debug)]
pub(crate) enum Step {
    SetUp(String),
    Exchange(Exchange),
}

/// A request and what was answered.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) name: String,
    pub(crate) request: Vec<u8>,
    pub(crate) interim: bool,
    pub(crate) answer: Recorded,
}

/// A recorded answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// `1.1 200`; empty if the connection was closed without an answer.
    pub(crate) status: String,
    pub(crate) framing: String,
    pub(crate) headers: Vec<String>,
    pub(crate) after_seconds: u64,
    pub(crate) body: RecordedBody,
}

/// What is known of a body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordedBody {
    #[default]
    None,
    Whole(String),
    /// Its length and how it begins.
    Cut(usize, String),
    Compressed,
}

/// All sections of a file.
pub(crate) fn read(text: &str) -> Vec<Section> {
    let mut reader = Reader::default();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).for_each(|line| reader.line(line));
    reader.finish_exchange();
    reader.sections
}

#[derive(Default)]
struct Reader {
    sections: Vec<Section>,
    sets: BTreeMap<String, Vec<String>>,
    open: Option<Draft>,
    name: String,
}

#[derive(Default)]
struct Draft {
    line: String,
    raw: Option<Vec<u8>>,
    headers: Vec<String>,
    body: Option<Vec<u8>>,
    interim: bool,
    answer: Recorded,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "##" => {
                self.finish_exchange();
                self.sections.push(Section { title: rest.to_owned(), steps: Vec::new() });
            }
            "#" => {
                self.finish_exchange();
                rest.clone_into(&mut self.name);
            }
            "!" => self.push(Step::SetUp(rest.to_owned())),
            ">" => self.open = Some(Draft::begin(rest)),
            set if set.starts_with('H') => {
                let lines = rest.split('|').map(str::to_owned).collect();
                self.sets.insert(set.to_owned(), lines);
            }
            _ => {
                let draft = self.open.as_mut().expect("this line belongs to an exchange");
                draft.line(mark, rest, &self.sets);
            }
        }
    }

    fn push(&mut self, step: Step) {
        self.sections.last_mut().expect("a section is open").steps.push(step);
    }

    fn finish_exchange(&mut self) {
        if let Some(draft) = self.open.take() {
            let name = std::mem::take(&mut self.name);
            self.push(Step::Exchange(draft.finish(name)));
        }
    }
}

impl Draft {
    fn begin(rest: &str) -> Self {
        let raw = rest.strip_prefix("raw ").map(unescape);
        Self { line: rest.to_owned(), raw, ..Self::default() }
    }

    fn line(&mut self, mark: &str, rest: &str, sets: &BTreeMap<String, Vec<String>>) {
        match mark {
            "" => self.headers.push(rest.trim().to_owned()),
            "body" => self.body = Some(unescape(rest)),
            "pad" => self.body = Some(padded(rest.parse().expect("a length"))),
            "pairs" => self.body = Some(pairs(rest.parse().expect("a number"))),
            "<" if rest == "interim 100" => self.interim = true,
            "<" if rest == "closed" => {}
            "<" => self.answer = answer(rest, sets),
            "=" => self.answer.body = RecordedBody::Whole(rest.to_owned()),
            "~" => {
                let (length, start) = rest.split_once(' ').expect("a length and a beginning");
                self.answer.body = RecordedBody::Cut(length.parse().expect("a length"), start.to_owned());
            }
            "?" => self.answer.body = RecordedBody::Compressed,
            other => panic!("unknown mark {other:?}"),
        }
    }

    fn finish(self, name: String) -> Exchange {
        let request = self.raw.clone().unwrap_or_else(|| self.request());
        Exchange { name, request, interim: self.interim, answer: self.answer }
    }

    fn request(&self) -> Vec<u8> {
        let words: Vec<&str> = self.line.splitn(3, ' ').collect();
        let [version, method, target] = words.as_slice() else { panic!("not a request line: {}", self.line) };
        let length = self.body.as_ref().map(|body| format!("Content-Length: {}", body.len()));
        let lines =
            ["Host: cube.test".to_owned()].into_iter().chain(self.headers.iter().map(|line| repeated(line)));
        let lines: Vec<String> = lines.chain(length).collect();
        let head = format!("{method} {} HTTP/{version}\r\n{}\r\n\r\n", repeated(target), lines.join("\r\n"));
        [head.into_bytes(), self.body.clone().unwrap_or_default()].concat()
    }
}

fn answer(rest: &str, sets: &BTreeMap<String, Vec<String>>) -> Recorded {
    let words: Vec<&str> = rest.split(' ').collect();
    Recorded {
        status: format!("{} {}", words[0], words[1]),
        framing: words[2].to_owned(),
        headers: sets[words[3]].clone(),
        after_seconds: words.get(5).map_or(0, |seconds| seconds.parse().expect("seconds")),
        body: RecordedBody::None,
    }
}

/// `{a*3}` stands for `aaa`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{a*") else {
        return text.to_owned();
    };
    let (count, after) = rest.split_once('}').expect("a closing brace");
    format!("{before}{}{after}", "a".repeat(count.parse().expect("a number")))
}

fn padded(length: usize) -> Vec<u8> {
    let (before, after) = (r#"{"templateID":"tpl-000000000000000000000001","mcp":{"pad":""#, r#""}}"#);
    let pad = "x".repeat(length - before.len() - after.len());
    format!("{before}{pad}{after}").into_bytes()
}

fn pairs(count: usize) -> Vec<u8> {
    let pairs: Vec<String> = (0..count).map(|n| format!("\"k{n:04}\":\"{}\"", "v".repeat(100))).collect();
    format!(r#"{{"templateID":"tpl-000000000000000000000001","metadata":{{{}}}}}"#, pairs.join(","))
        .into_bytes()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'\\', [b'x', high, low, ..]) => {
                let hex = String::from_utf8_lossy(&[*high, *low]).into_owned();
                bytes.push(u8::from_str_radix(&hex, 16).expect("two hexadecimal digits"));
                rest = &tail[3..];
            }
            (b'\\', [escaped, ..]) => {
                bytes.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    other => *other,
                });
                rest = &tail[1..];
            }
            _ => bytes.push(*first),
        }
    }
    bytes
}
