//! The kinds of values a setting can have: how each is read, and what is said when it cannot be.
//!
//! A kind reads a TOML value. What the environment gives is text; the kind says how that text would stand in the file,
//! so there is one reader for both. Must stay true: every number has a range, every length of time and size a unit.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use crate::time::millis;

type Read<T> = Box<dyn Fn(&Value) -> Result<T, String>>;

/// How one kind of value is read and shown.
pub(super) struct Kind<T> {
    /// The value, or the words after "wanted".
    pub(super) read: Read<T>,
    /// How a text of the environment would stand in the file.
    pub(super) from_env: fn(&str) -> Value,
    /// How a value is shown, secrets left out.
    pub(super) show: fn(&Value) -> String,
}

impl<T: 'static> Kind<T> {
    fn new(read: impl Fn(&Value) -> Result<T, String> + 'static) -> Self {
        Self { read: Box::new(read), from_env: |text| Value::from(text), show }
    }

    /// The same kind, shown otherwise.
    pub(super) fn shown_as(self, show: fn(&Value) -> String) -> Self {
        Self { show, ..self }
    }

    /// The same kind, as a value that also may be `"none"`.
    pub(super) fn or_none(self) -> Kind<Option<T>> {
        let Self { read, from_env, show } = self;
        let read: Read<Option<T>> = Box::new(move |value| match value.as_str() {
            Some("none") => Ok(None),
            _ => read(value).map(Some).map_err(|wanted| format!("{wanted}, or \"none\"")),
        });
        Kind { read, from_env, show }
    }
}

impl<T: 'static> Kind<Vec<T>> {
    /// The same kind, with at least one in the list.
    pub(super) fn filled(self, wanted: &'static str) -> Self {
        let Self { read, from_env, show } = self;
        let read: Read<Vec<T>> = Box::new(move |value| {
            let items = read(value)?;
            if items.is_empty() { Err(format!("at least one of {wanted}")) } else { Ok(items) }
        });
        Self { read, from_env, show }
    }
}

/// A value as it stands in a file, bounded.
pub(super) fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Table(_) => "a section".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() > 80 { text.chars().take(77).chain("...".chars()).collect() } else { text }
}

/// Shown in place of what may be a secret.
pub(super) fn hidden(_: &Value) -> String {
    "(not shown)".to_owned()
}

/// Any text that `ok` takes.
pub(super) fn text<T: 'static>(wanted: &'static str, ok: fn(&str) -> Option<T>) -> Kind<T> {
    Kind::new(move |value| value.as_str().and_then(ok).ok_or_else(|| wanted.to_owned()))
}

/// Any text at all.
pub(super) fn any_text() -> Kind<String> {
    text("a text in quotes", |text| Some(text.to_owned()))
}

/// One of a few words.
pub(super) fn choice<T: Copy + 'static, const N: usize>(words: [(&'static str, T); N]) -> Kind<T> {
    let wanted = words.map(|(word, _)| format!("{word:?}")).join(" or ");
    Kind::new(move |value| {
        let found = value.as_str().and_then(|given| words.iter().find(|(word, _)| *word == given));
        found.map(|(_, meant)| *meant).ok_or_else(|| wanted.clone())
    })
}

/// true or false.
pub(super) fn flag() -> Kind<bool> {
    let from_env = |text: &str| text.parse().map_or_else(|_| Value::from(text), Value::Boolean);
    Kind { from_env, ..Kind::new(|value| value.as_bool().ok_or_else(|| "true or false".to_owned())) }
}

/// A whole number within a range.
pub(super) fn whole(range: RangeInclusive<u32>) -> Kind<u32> {
    let from_env = |text: &str| text.parse().map_or_else(|_| Value::from(text), Value::Integer);
    let read = move |value: &Value| {
        let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
        let found = number.filter(|number| range.contains(number));
        found.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    };
    Kind { from_env, ..Kind::new(read) }
}

/// A whole number that is not 0, because 0 would refuse everything.
pub(super) fn rate(most: u32) -> Kind<NonZeroU32> {
    let Kind { read, from_env, show } = whole(1..=most);
    let read: Read<_> = Box::new(move |value| {
        let wanted = format!("a whole number from 1 to {most}");
        NonZeroU32::new(read(value)?).ok_or(wanted)
    });
    Kind { read, from_env, show }
}

/// A length of time within a range, in whole milliseconds.
pub(super) fn duration(range: RangeInclusive<Duration>) -> Kind<Duration> {
    Kind::new(move |value| {
        let given = match value {
            Value::String(text) if text.trim().parse::<f64>().is_err() => {
                humantime::parse_duration(text).ok()
            }
            Value::String(_) | Value::Integer(_) | Value::Float(_) => {
                return Err(format!(
                    "a duration with its unit, such as \"{}s\": a bare number has none",
                    bare(value)
                ));
            }
            _ => None,
        };
        let whole = given.filter(|length| Duration::from_millis(millis(*length)) == *length);
        let (from, to) =
            (humantime::format_duration(*range.start()), humantime::format_duration(*range.end()));
        let within = whole.filter(|length| range.contains(length));
        within.ok_or_else(|| format!("a duration such as \"30s\" or \"10m\", from {from} to {to}"))
    })
}

/// The number that somebody wrote without a unit, for the example; 30 if it would make no sense.
fn bare(value: &Value) -> String {
    let digits = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    if digits.parse::<u32>().is_ok() { digits } else { "30".to_owned() }
}

/// A length of time in whole seconds, as Cube counts timeouts.
pub(super) fn seconds(range: RangeInclusive<Duration>) -> Kind<Duration> {
    let Kind { read, from_env, show } = duration(range);
    let read: Read<_> = Box::new(move |value| {
        let length = read(value)?;
        if length.subsec_nanos() == 0 { Ok(length) } else { Err("a duration in whole seconds".to_owned()) }
    });
    Kind { read, from_env, show }
}

/// A number of bytes within a range.
pub(super) fn size(range: RangeInclusive<usize>) -> Kind<usize> {
    Kind::new(move |value| {
        let within = value.as_str().and_then(bytes).filter(|bytes| range.contains(bytes));
        let (from, to) = (range.start(), range.end());
        within.ok_or_else(|| {
            let unit = if value.is_integer() { ": a bare number has none" } else { "" };
            format!("a size with its unit (B, KiB, MiB), such as \"2MiB\"{unit}; from {from} to {to} bytes")
        })
    })
}

fn bytes(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// The name of an environment variable, or nothing. Shown only if it looks like one: it may be the secret itself.
pub(super) fn variable() -> Kind<String> {
    let wanted = "the name of an environment variable (capitals, digits, _), or \"\"";
    let show = |value: &Value| {
        value.as_str().filter(|text| is_variable(text)).map_or_else(|| hidden(value), |_| show(value))
    };
    text(wanted, |text| is_variable(text).then(|| text.to_owned())).shown_as(show)
}

fn is_variable(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// An address to listen on.
pub(super) fn address() -> Kind<SocketAddr> {
    text("an IP address and a port, such as \"127.0.0.1:3000\" or \"[::]:3000\"", |text| text.parse().ok())
}

/// Several of a kind; from the environment, separated by commas.
pub(super) fn list<T: 'static>(wanted: &'static str, one: fn(&str) -> Option<T>) -> Kind<Vec<T>> {
    let from_env = |text: &str| {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Value::Array(parts.map(Value::from).collect())
    };
    let read = move |value: &Value| {
        let items = value.as_array().ok_or_else(|| format!("a list of {wanted}"))?;
        let read = items.iter().map(|item| item.as_str().and_then(one));
        read.collect::<Option<Vec<T>>>().ok_or_else(|| format!("a list of {wanted}"))
    };
    Kind { from_env, ..Kind::new(read) }
}
