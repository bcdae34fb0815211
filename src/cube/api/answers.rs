//! Cube's answers, with what we need of them.
//!
//! Must stay true: an answer without a whole sandbox id is a typed error, never a guess; all else may be missing
//! (0.7.0 loses template, metadata and start of a paused sandbox). The answer's own text is kept beside what was read.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::splice::{Object, quoted, set_members};
use crate::ids::{SandboxId, SandboxRef};
use crate::time::{UnixMillis, parse_rfc3339};

/// An answer that does not say what it must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    /// Not the JSON that was expected.
    #[error("read the answer of Cube: {0}")]
    Unreadable(String),
    /// No id, or not a whole one.
    #[error("the answer of Cube names no {0}")]
    Nameless(&'static str),
}

/// The members of one answer; a wrong type counts as missing.
struct Answer<'a>(Object<'a>);

impl<'a> Answer<'a> {
    fn read(text: &'a str) -> Result<Self, BadAnswer> {
        Object::read("the answer", text).map(Self).map_err(|error| BadAnswer::Unreadable(error.to_string()))
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str::<Option<T>>(self.0.get(name)?).ok()?
    }

    fn time(&self, name: &str) -> Option<UnixMillis> {
        parse_rfc3339(&self.get::<String>(name)?)
    }

    fn sandbox_id(&self) -> Result<SandboxId, BadAnswer> {
        let id = self.get::<String>("sandboxID").and_then(|id| SandboxId::new(&id).ok());
        id.ok_or(BadAnswer::Nameless("sandboxID"))
    }
}

fn text(body: &[u8]) -> Result<&str, BadAnswer> {
    std::str::from_utf8(body).map_err(|_| BadAnswer::Unreadable("not UTF-8".into()))
}

/// The answer of a create, connect or resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSandbox {
    /// The sandbox.
    pub id: SandboxId,
    /// What it was made from.
    pub template_id: Option<String>,
    /// The request id on create, the host later.
    pub client_id: Option<String>,
    /// The version of the daemon inside; SDKs behave by it.
    pub envd_version: Option<String>,
    /// Where its data plane is.
    pub domain: Option<String>,
    /// Given only here and only once.
    pub traffic_access_token: Option<String>,
}

impl CreatedSandbox {
    /// Reads the body of a 201 or 200.
    ///
    /// # Errors
    /// [`BadAnswer`] if it is no object with a whole `sandboxID`.
    pub fn read(body: &[u8]) -> Result<Self, BadAnswer> {
        let answer = Answer::read(text(body)?)?;
        Ok(Self {
            id: answer.sandbox_id()?,
            template_id: answer.get("templateID"),
            client_id: answer.get("clientID"),
            envd_version: answer.get("envdVersion"),
            domain: answer.get("domain"),
            traffic_access_token: answer.get("trafficAccessToken"),
        })
    }
}

/// What a sandbox is doing, as Cube shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// `running`; Cube says so of unknown states too.
    Running,
    /// `paused`.
    Paused,
    /// `pausing`: on its way.
    Pausing,
    /// Anything else, or nothing.
    Other(String),
}

impl SandboxState {
    fn of(text: Option<String>) -> Self {
        match text.as_deref() {
            Some("running") => Self::Running,
            Some("paused") => Self::Paused,
            Some("pausing") => Self::Pausing,
            _ => Self::Other(text.unwrap_or_default()),
        }
    }
}

/// One item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The item as it came.
    pub raw: String,
    /// The sandbox.
    pub id: SandboxId,
    /// What it was made from; empty or missing after a pause on 0.7.0.
    pub template_id: Option<String>,
    /// The host it is on.
    pub client_id: Option<String>,
    /// When it began.
    pub started_at: Option<UnixMillis>,
    /// When its idle window would end without traffic; missing for never. Advisory.
    pub end_at: Option<UnixMillis>,
    /// What it is doing.
    pub state: SandboxState,
    /// Its metadata, Cube's own keys among them.
    pub metadata: BTreeMap<String, String>,
    /// Virtual processors.
    pub cpu_count: Option<u32>,
    /// Memory.
    pub memory_mb: Option<u64>,
}

impl Listed {
    /// Reads one item.
    ///
    /// # Errors
    /// [`BadAnswer`] if it is no object with a whole `sandboxID`.
    pub fn read(item: &str) -> Result<Self, BadAnswer> {
        let answer = Answer::read(item)?;
        Ok(Self {
            id: answer.sandbox_id()?,
            template_id: answer.get("templateID").filter(|id: &String| !id.is_empty()),
            client_id: answer.get("clientID"),
            started_at: answer.time("startedAt"),
            end_at: answer.time("endAt"),
            state: SandboxState::of(answer.get("state")),
            metadata: answer.get("metadata").unwrap_or_default(),
            cpu_count: answer.get("cpuCount"),
            memory_mb: answer.get("memoryMB"),
            raw: item.to_owned(),
        })
    }

    /// Reads a whole list: one item that cannot be read makes the list unreadable, for a list that leaves out a
    /// sandbox must not pass for a complete one.
    ///
    /// # Errors
    /// [`BadAnswer`] unless it is an array of such items.
    pub fn read_all(body: &[u8]) -> Result<Vec<Self>, BadAnswer> {
        let mut all = Vec::new();
        Self::read_each(body, |item| all.push(item))?;
        Ok(all)
    }

    /// The same, one item after the other: a list may be long, and few of its items are wanted whole.
    ///
    /// # Errors
    /// [`BadAnswer`] unless it is an array of such items; what was handed out until then is worth nothing.
    pub fn read_each(body: &[u8], mut take: impl FnMut(Self)) -> Result<(), BadAnswer> {
        let items: Vec<&RawValue> =
            serde_json::from_str(text(body)?).map_err(|error| BadAnswer::Unreadable(error.to_string()))?;
        items.into_iter().try_for_each(|item| Self::read(item.get()).map(&mut take))
    }
}

/// The answer of a GET of one sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// What a list would show too.
    pub listed: Listed,
    /// Where its data plane is.
    pub domain: Option<String>,
}

impl Detail {
    /// Reads the body of a 200.
    ///
    /// # Errors
    /// [`BadAnswer`] if it is no object with a whole `sandboxID`.
    pub fn read(body: &[u8]) -> Result<Self, BadAnswer> {
        let text = text(body)?;
        Ok(Self { listed: Listed::read(text)?, domain: Answer::read(text)?.get("domain") })
    }
}

impl Detail {
    /// The answer that a create of this sandbox would have had, as far as a detail tells.
    #[must_use]
    pub fn as_created(&self) -> String {
        let detail: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&self.listed.raw).unwrap_or_default();
        let names = ["templateID", "sandboxID", "clientID", "envdVersion", "domain"];
        let kept = names.into_iter().filter_map(|name| Some((name.to_owned(), detail.get(name)?.clone())));
        serde_json::Value::Object(kept.collect()).to_string()
    }
}

/// The answer of a snapshot's making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMade {
    /// `snap-...`
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
}

impl SnapshotMade {
    /// Reads the body of a 201.
    ///
    /// # Errors
    /// [`BadAnswer`] if it is no object with a `snapshotID`.
    pub fn read(body: &[u8]) -> Result<Self, BadAnswer> {
        let answer = Answer::read(text(body)?)?;
        let id = answer.get("snapshotID").filter(|id: &String| !id.is_empty());
        Ok(Self {
            id: id.ok_or(BadAnswer::Nameless("snapshotID"))?,
            names: answer.get("names").unwrap_or_default(),
        })
    }
}

/// An item of a list of snapshots or volumes: its text as it came, and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The item as it came.
    pub raw: String,
    /// Its id; empty if it names none.
    pub id: String,
}

impl ListedObject {
    /// Reads a list whose items name themselves in `id_field`.
    ///
    /// # Errors
    /// [`BadAnswer`] unless it is an array.
    pub fn read_all(body: &[u8], id_field: &str) -> Result<Vec<Self>, BadAnswer> {
        let items: Vec<&RawValue> =
            serde_json::from_str(text(body)?).map_err(|error| BadAnswer::Unreadable(error.to_string()))?;
        let read = |item: &RawValue| Self {
            raw: item.get().to_owned(),
            id: text_member(item.get().as_bytes(), id_field),
        };
        Ok(items.into_iter().map(read).collect())
    }
}

/// A text member of an answer; empty if there is none.
#[must_use]
pub fn text_member(body: &[u8], name: &str) -> String {
    let member = text(body).ok().and_then(|text| Answer::read(text).ok()?.get(name));
    member.unwrap_or_default()
}

/// An answer or item with another `sandboxID`, all else as it came.
#[must_use]
pub fn with_sandbox_id(text: &str, id: &SandboxRef) -> Option<String> {
    set_members(text, &[("sandboxID".to_owned(), quoted(&id.to_string()))])
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    const ID: &str = "0cbc7f6b7af7453fac450e3313bcc679";

    #[test]
    fn a_created_sandbox_is_read_and_one_without_a_whole_id_is_an_error() {
        let body = format!(
            r#"{{"templateID":"tpl-1","sandboxID":"{ID}","clientID":"c","envdVersion":"0.5.11","domain":"cube.test"}}"#
        );
        let made = CreatedSandbox::read(body.as_bytes()).unwrap();
        assert_eq!(made.id.as_str(), ID);
        assert_eq!((made.domain.as_deref(), made.traffic_access_token), (Some("cube.test"), None));
        for bad in ["", "[]", "{}", r#"{"sandboxID":5}"#, r#"{"sandboxID":"0cbc7f"}"#, "<html>"] {
            assert!(CreatedSandbox::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_item_that_0_7_0_emptied_on_pause_is_still_read() {
        let item = format!(
            r#"{{"templateID":"","sandboxID":"{ID}","clientID":"node-0","startedAt":"2026-11-29T12:56:53.275951360Z","endAt":null,"cpuCount":0,"memoryMB":0,"diskSizeMB":0,"state":"paused"}}"#
        );
        let item = Listed::read(&item).unwrap();
        assert_eq!((item.template_id, item.end_at), (None, None));
        assert_eq!(item.started_at, parse_rfc3339("2026-11-29T12:56:53.275Z"));
        assert_eq!(item.state, SandboxState::Paused);
        assert!(item.metadata.is_empty());
    }

    #[test]
    fn a_list_with_one_nameless_item_is_not_a_list() {
        let good = format!(r#"{{"sandboxID":"{ID}","state":"running","metadata":{{"a":"b"}}}}"#);
        assert_eq!(Listed::read_all(format!("[{good} , {good}]").as_bytes()).unwrap()[1].raw, good);
        assert!(Listed::read_all(format!("[{good},{{}}]").as_bytes()).is_err());
        assert!(Listed::read_all(good.as_bytes()).is_err());
        assert_eq!(Listed::read_all(b" [ ] "), Ok(Vec::new()));
    }

    #[test]
    fn another_id_is_put_into_an_answer_and_nothing_else_changes() {
        let qualified = SandboxRef::parse(&format!("{ID}-gmh7x2abc")).unwrap();
        let before = format!(r#"{{ "sandboxID" : "{ID}","x":1.0 }}"#);
        let after = before.replace(ID, &qualified.to_string());
        assert_eq!(with_sandbox_id(&before, &qualified), Some(after));
    }
}
