//! The file and the environment as they are read: one section after the other, nothing overlooked.
//!
//! serde would stop at the first error and forget where a value came from. Here each section asks for its keys by name,
//! with kind and default, and what nobody asked for is unknown. So one line of a section's file is the whole truth about
//! a key: its name, its default, its range.
//! Must stay true: reading goes on after a problem, with the default in place of the bad value; no cross-check speaks of
//! a value that is bad itself.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use toml::{Table, Value};

use super::kinds::{self, Kind};
use super::nearest;
use super::problem::{Problem, Problems, Source};

const PREFIX: &str = "CUBEWARDEN_";
/// Variables that the command line reads itself.
const OF_THE_COMMAND_LINE: [&str; 3] = ["CUBEWARDEN_CONFIG", "CUBEWARDEN_ADMIN", "CUBEWARDEN_ADMIN_TOKEN"];

/// One value that holds, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The key as it stands in the file, such as `collector.cycle`.
    pub key: String,
    /// The value as it stands in the file; secrets are not shown.
    pub value: String,
    /// Who wrote it.
    pub source: Source,
    /// Tells two values apart even where they are not shown.
    pub(super) fingerprint: u64,
}

impl std::fmt::Display for Effective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}  # {}", self.key, self.value, self.source)
    }
}

/// File and environment while they are read.
pub(super) struct Sheet {
    file: Table,
    env: BTreeMap<String, String>,
    variables: Vec<String>,
    allowed_variables: Vec<String>,
    keys: Vec<String>,
    unknown: Vec<(String, String)>,
    problems: Vec<Problem>,
    effective: Vec<Effective>,
}

impl Sheet {
    /// The file's text and the environment.
    pub(super) fn open(text: &str, env: impl IntoIterator<Item = (String, String)>) -> Result<Self, Problem> {
        let file = text.parse::<Table>().map_err(|error| syntax(text, &error))?;
        Ok(Self {
            file,
            env: env.into_iter().collect(),
            variables: Vec::new(),
            allowed_variables: OF_THE_COMMAND_LINE.map(str::to_owned).to_vec(),
            keys: Vec::new(),
            unknown: Vec::new(),
            problems: Vec::new(),
            effective: Vec::new(),
        })
    }

    /// Reads `[name]`.
    pub(super) fn section<T>(&mut self, name: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let table = match self.file.remove(name) {
            Some(Value::Table(table)) => table,
            Some(other) => {
                self.problem(format!("{name} = {}: wanted a section, [{name}]", kinds::show(&other)));
                Table::new()
            }
            None => Table::new(),
        };
        self.keys.push(name.to_owned());
        self.read(name.to_owned(), Override::ByVariable, table, read)
    }

    /// Reads every `[[name]]`, in order; a section is called by what `title` makes of it, else by its number.
    pub(super) fn sections<T>(
        &mut self,
        name: &str,
        title: fn(&Table) -> Option<String>,
        mut read: impl FnMut(&mut Section<'_>) -> T,
    ) -> Vec<T> {
        self.keys.push(name.to_owned());
        let items = match self.file.remove(name) {
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.problem(format!("{name} = {}: wanted sections, [[{name}]]", kinds::show(&other)));
                Vec::new()
            }
            None => Vec::new(),
        };
        let mut found = Vec::new();
        for (at, item) in items.into_iter().enumerate() {
            let Value::Table(table) = item else {
                self.problem(format!("{name} = {}: wanted sections, [[{name}]]", kinds::show(&item)));
                continue;
            };
            let title = title(&table).unwrap_or_else(|| format!("#{}", at + 1));
            found.push(self.read(format!("{name}.{title}"), Override::None, table, &mut read));
        }
        found
    }

    /// Reads every `[name.<sub>]`, in the order of the names.
    pub(super) fn subsections<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&str, &mut Section<'_>) -> T,
    ) -> Vec<T> {
        self.keys.push(name.to_owned());
        let subs = match self.file.remove(name) {
            Some(Value::Table(subs)) => subs,
            Some(other) => {
                self.problem(format!("{name} = {}: wanted sections, [{name}.<env>]", kinds::show(&other)));
                Table::new()
            }
            None => Table::new(),
        };
        let mut found = Vec::new();
        for (sub, value) in subs {
            let path = format!("{name}.{sub}");
            match value {
                Value::Table(table) => {
                    found.push(self.read(path, Override::None, table, |section| read(&sub, section)));
                }
                other => {
                    self.problem(format!("{path} = {}: wanted a section, [{path}]", kinds::show(&other)));
                }
            }
        }
        found
    }

    /// Reads what stands above all sections. Comes last: what is left then is unknown.
    pub(super) fn top<T>(&mut self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let table = std::mem::take(&mut self.file);
        self.read(String::new(), Override::ByVariable, table, read)
    }

    fn read<T>(
        &mut self,
        path: String,
        overriding: Override,
        table: Table,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let mut section = Section { sheet: self, path, overriding, table, defaults: Table::new() };
        let value = read(&mut section);
        let Section { path, table, .. } = section;
        self.unknown.extend(table.into_iter().map(|(key, _)| (path.clone(), key)));
        value
    }

    /// Notes that something is wrong.
    pub(super) fn problem(&mut self, sentence: String) {
        self.problems.push(Problem(sentence));
    }

    /// Whether nothing is known to be wrong with the sections of that name.
    pub(super) fn is_sound(&self, name: &str) -> bool {
        !self
            .problems
            .iter()
            .any(|problem| problem.0.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Notes that values do not fit together, unless one of them is bad itself.
    pub(super) fn cross(&mut self, keys: &[&str], fits: bool, wanted: &str) {
        if fits {
            return;
        }
        let find = |key: &&str| self.effective.iter().find(|value| value.key == *key);
        let given: Option<Vec<_>> = keys
            .iter()
            .map(|key| find(key).map(|value| format!("{} = {}", value.key, value.value)))
            .collect();
        if let Some(given) = given {
            self.problem(format!("{}: {wanted}", given.join(" and ")));
        }
    }

    /// The content of the variable that `key` names; an empty name means none.
    pub(super) fn content_of(&mut self, key: &str, variable: &str) -> Option<String> {
        if variable.is_empty() {
            return None;
        }
        self.allowed_variables.push(variable.to_owned());
        let content = self
            .env
            .get(variable)
            .filter(|content| !content.is_empty() && content.bytes().all(|b| b.is_ascii_graphic()));
        let content = content.cloned();
        if content.is_none() {
            let wanted = "the name of an environment variable that holds a key of printable characters";
            self.problem(format!("{key} = {variable:?}: wanted {wanted}; it is not set so"));
        }
        content
    }

    /// All problems, unknown keys and variables among them; else the values that hold.
    pub(super) fn close(mut self) -> Result<Vec<Effective>, Problems> {
        for (section, key) in std::mem::take(&mut self.unknown) {
            let sentence = nearest::key(&section, &key, &self.keys);
            self.problem(sentence);
        }
        self.unknown_variables();
        match Problems::of(self.problems) {
            Some(problems) => Err(problems),
            None => Ok(self.effective),
        }
    }

    fn unknown_variables(&mut self) {
        let ours = self.env.keys().filter(|name| name.starts_with(PREFIX));
        let unknown: Vec<_> = ours
            .filter(|name| !self.variables.contains(name) && !self.allowed_variables.contains(name))
            .collect();
        let problems: Vec<_> = unknown.iter().map(|name| nearest::variable(name, &self.variables)).collect();
        self.problems.extend(problems.into_iter().map(Problem));
    }
}

/// Whether variables override the values of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Override {
    ByVariable,
    None,
}

/// One section while it is read.
pub(super) struct Section<'a> {
    sheet: &'a mut Sheet,
    path: String,
    overriding: Override,
    table: Table,
    defaults: Table,
}

/// A value was written and cannot be used; the problem is noted.
struct Bad;

impl Section<'_> {
    /// The value of `key`, or `default` where nobody wrote one (or wrote a bad one).
    pub(super) fn get<T>(&mut self, key: &str, default: impl Into<Value>, kind: &Kind<T>) -> T {
        let default = default.into();
        let found = self.written(key, kind);
        if let Ok(Some(value)) = found {
            return value;
        }
        if found.is_ok() {
            self.note(key, &default, Source::Default, kind);
        }
        (kind.read)(&default).unwrap_or_else(|wanted| {
            unreachable!(
                "the default of {} is not {wanted}; the test that loads an empty file sees it",
                self.path_of(key)
            )
        })
    }

    /// The value of `key`, if somebody wrote a good one.
    pub(super) fn find<T>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        self.written(key, kind).ok().flatten()
    }

    /// The value of `key`; that it is missing is a problem.
    pub(super) fn require<T>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        let written = self.written(key, kind);
        if matches!(written, Ok(None)) {
            let wanted = (kind.read)(&Value::Boolean(false)).err().unwrap_or_default();
            let path = self.path_of(key);
            self.sheet.problem(format!("{path} is missing: wanted {wanted}"));
        }
        written.ok().flatten()
    }

    /// From here on `find` gives these where nobody wrote a value.
    pub(super) fn begin_defaults(&mut self, defaults: &Table) {
        self.defaults = defaults.clone();
    }

    /// The content of the variable that `key` names.
    pub(super) fn content_of(&mut self, key: &str, variable: &str) -> Option<String> {
        let path = self.path_of(key);
        self.sheet.content_of(&path, variable)
    }

    /// Notes that the values of this section do not fit together.
    pub(super) fn complain(&mut self, sentence: &str) {
        let sentence = format!("{}: {sentence}", self.path);
        self.sheet.problem(sentence);
    }

    /// The key as it stands in the file.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn written<T>(&mut self, key: &str, kind: &Kind<T>) -> Result<Option<T>, Bad> {
        let path = self.path_of(key);
        let in_file = self.table.remove(key);
        let variable = self.variable_of(&path);
        let in_env =
            variable.as_ref().and_then(|name| self.sheet.env.get(name)).map(|text| (kind.from_env)(text));
        self.sheet.keys.push(path.clone());
        let (value, source, said) = match (in_env, in_file, variable) {
            (Some(value), _, Some(name)) => (value, Source::Environment, format!(" (from {name})")),
            (_, Some(value), _) => (value, Source::File, String::new()),
            _ => match self.defaults.remove(key) {
                Some(value) => (value, Source::Default, String::new()),
                None => return Ok(None),
            },
        };
        match (kind.read)(&value) {
            Ok(meant) => {
                self.note(key, &value, source, kind);
                Ok(Some(meant))
            }
            Err(wanted) => {
                let given = (kind.show)(&value);
                self.sheet.problem(format!("{path} = {given}{said}: wanted {wanted}"));
                Err(Bad)
            }
        }
    }

    /// The variable that overrides a key, now a known one.
    fn variable_of(&mut self, path: &str) -> Option<String> {
        if self.overriding == Override::None {
            return None;
        }
        let name = format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "_"));
        self.sheet.variables.push(name.clone());
        Some(name)
    }

    fn note<T>(&mut self, key: &str, value: &Value, source: Source, kind: &Kind<T>) {
        let key = self.path_of(key);
        let mut hasher = DefaultHasher::new();
        value.to_string().hash(&mut hasher);
        self.sheet.effective.push(Effective {
            key,
            value: (kind.show)(value),
            source,
            fingerprint: hasher.finish(),
        });
    }
}

/// The file is not TOML.
fn syntax(text: &str, error: &toml::de::Error) -> Problem {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    Problem(format!("line {line} is not TOML: {}", error.message().replace('\n', ", ")))
}
