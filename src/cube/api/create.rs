//! The body of a create: read for what governance needs, edited without touching the rest.
//!
//! Must stay true: types are judged by Cube (it answers 422), not here, except where its parser would understand more
//! than one thing: keys that stand twice, structs written as arrays. A field of a wrong type is never repaired by an
//! edit. Both spellings of a key (`autoPause`, `auto_pause`) are one key.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::labels::LabelNames;
use super::splice::{Edit, Malformed, Member, Object, quoted};

/// What happens when the idle window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// It is deleted.
    Kill,
    /// It is paused.
    Pause,
}

impl OnTimeout {
    /// As Cube writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
        }
    }
}

/// The `lifecycle` of a create, or an edit of it (what is `None` stays as it is).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// `onTimeout`.
    pub on_timeout: Option<OnTimeout>,
    /// `autoResume`.
    pub auto_resume: Option<bool>,
}

/// A create, as asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateBody {
    raw: Bytes,
    /// `templateID`.
    pub template_id: Option<String>,
    /// `timeout` in seconds: an idle window since Cube 0.5; -1 is never.
    pub timeout: Option<i64>,
    /// `metadata`, as far as it is text.
    pub metadata: BTreeMap<String, String>,
    /// `lifecycle`.
    pub lifecycle: Option<Lifecycle>,
    /// Top-level `autoPause`.
    pub auto_pause: Option<bool>,
    /// Top-level `autoResume`, also written `{"enabled": ..}`.
    pub auto_resume: Option<bool>,
    /// The names in `volumeMounts`.
    pub volumes: Vec<String>,
    /// `memory` (v2 only).
    pub memory: Option<bool>,
    /// `autoPauseMemory` (v2 only).
    pub auto_pause_memory: Option<bool>,
    /// `distributionScope` is there: the client chooses nodes.
    pub chooses_nodes: bool,
    /// `metadata["host-mount"]` is there: the client asks for a directory of the host.
    pub mounts_host: bool,
    /// The first field whose type is wrong: Cube will say 422, and the body goes to it for that.
    pub left_to_cube: Option<&'static str>,
}

/// What is to be changed in a create.
#[derive(Clone, Debug, Default)]
pub struct Edits<'a> {
    /// Whose names are reserved.
    pub names: LabelNames,
    /// Metadata to set.
    pub set_metadata: Vec<(String, String)>,
    /// The timeout to set.
    pub set_timeout: Option<i64>,
    /// The parts of `lifecycle` to set.
    pub lifecycle: Option<Lifecycle>,
    /// Top-level fields to leave out.
    pub drop_fields: &'a [&'a str],
}

/// An edited create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// What goes upstream.
    pub body: Bytes,
    /// The reserved keys that the client had sent with other values than ours.
    pub overwritten: Vec<String>,
}

/// One name for all spellings of a key.
fn canonical(name: &str) -> &str {
    match name {
        "auto_pause" => "autoPause",
        "auto_resume" => "autoResume",
        "on_timeout" => "onTimeout",
        "distribution_scope" => "distributionScope",
        "volume_mounts" => "volumeMounts",
        "allow_out" => "allowOut",
        "deny_out" => "denyOut",
        other => other,
    }
}

fn as_written(name: &str) -> &str {
    name
}

impl CreateBody {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`] if it is not UTF-8, not an object, too deep, has a key twice where a key decides something, or
    /// writes a struct as an array.
    pub fn read(body: &Bytes) -> Result<Self, Malformed> {
        let mut read = Self { raw: body.clone(), ..Self::default() };
        for member in &Object::of_body(body, canonical)?.members {
            read.take(member)?;
        }
        if read.template_id.is_none() {
            read.leave("templateID");
        }
        Ok(read)
    }

    /// The body as it came.
    #[must_use]
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    fn leave(&mut self, field: &'static str) {
        self.left_to_cube.get_or_insert(field);
    }

    /// A value by Cube's own rules of type; `null` and a wrong type (noted) are `None`.
    fn typed<T: DeserializeOwned>(&mut self, field: &'static str, value: &str) -> Option<T> {
        let Ok(typed) = serde_json::from_str::<Option<T>>(value) else {
            self.leave(field);
            return None;
        };
        typed
    }

    fn take(&mut self, member: &Member<'_>) -> Result<(), Malformed> {
        let value = member.value;
        match canonical(&member.name) {
            "templateID" => self.template_id = self.typed("templateID", value),
            "timeout" => self.timeout = self.typed::<i32>("timeout", value).map(i64::from),
            "metadata" => self.take_metadata(value)?,
            "lifecycle" => self.take_lifecycle(value)?,
            "autoPause" => self.auto_pause = self.typed("autoPause", value),
            "autoResume" => self.auto_resume = self.switch(value)?,
            "volumeMounts" => self.take_volumes(value)?,
            "network" if value != "null" => {
                Object::read("network", value)?.without_duplicates("network", canonical)?;
            }
            // v1 knows neither of these, so a wrong type is nobody's error
            "memory" => self.memory = serde_json::from_str(value).ok(),
            "autoPauseMemory" => self.auto_pause_memory = serde_json::from_str(value).ok(),
            "distributionScope" => self.chooses_nodes = value != "null",
            _ => {}
        }
        Ok(())
    }

    /// A map cannot be written as an array, so what is no object is Cube's 422.
    fn take_metadata(&mut self, value: &str) -> Result<(), Malformed> {
        let object = match Object::read("metadata", value) {
            Ok(object) => object.without_duplicates("metadata", as_written)?,
            Err(_) if value == "null" => return Ok(()),
            Err(_) => {
                self.leave("metadata");
                return Ok(());
            }
        };
        for member in object.members {
            self.mounts_host |= member.name == "host-mount";
            match serde_json::from_str(member.value) {
                Ok(text) => drop(self.metadata.insert(member.name, text)),
                Err(_) => self.leave("metadata"),
            }
        }
        Ok(())
    }

    fn take_lifecycle(&mut self, value: &str) -> Result<(), Malformed> {
        if value == "null" {
            return Ok(());
        }
        let object = Object::read("lifecycle", value)?.without_duplicates("lifecycle", canonical)?;
        let mut lifecycle = Lifecycle::default();
        for member in object.members {
            match canonical(&member.name) {
                "onTimeout" => lifecycle.on_timeout = self.on_timeout(member.value),
                "autoResume" => lifecycle.auto_resume = self.typed("lifecycle.autoResume", member.value),
                _ => {}
            }
        }
        self.lifecycle = Some(lifecycle);
        Ok(())
    }

    fn on_timeout(&mut self, value: &str) -> Option<OnTimeout> {
        match self.typed::<String>("lifecycle.onTimeout", value)?.as_str() {
            "kill" => Some(OnTimeout::Kill),
            "pause" => Some(OnTimeout::Pause),
            _ => {
                self.leave("lifecycle.onTimeout");
                None
            }
        }
    }

    /// `true`, `false`, or `{"enabled": ..}`.
    fn switch(&mut self, value: &str) -> Result<Option<bool>, Malformed> {
        if let Ok(switch) = serde_json::from_str(value) {
            return Ok(switch);
        }
        let object = Object::read("autoResume", value)?.without_duplicates("autoResume", as_written)?;
        Ok(object.get("enabled").and_then(|enabled| self.typed("autoResume", enabled)))
    }

    fn take_volumes(&mut self, value: &str) -> Result<(), Malformed> {
        let mounts: Option<Vec<&serde_json::value::RawValue>> = match serde_json::from_str(value) {
            Ok(mounts) => mounts,
            Err(_) => {
                self.leave("volumeMounts");
                return Ok(());
            }
        };
        for mount in mounts.unwrap_or_default() {
            let object = Object::read("an item of volumeMounts", mount.get())?;
            let object = object.without_duplicates("an item of volumeMounts", as_written)?;
            match object.get("name").and_then(|name| self.typed("volumeMounts", name)) {
                Some(name) => self.volumes.push(name),
                None => self.leave("volumeMounts"),
            }
        }
        Ok(())
    }

    /// The body with these edits; everything else keeps its bytes and its order.
    ///
    /// # Panics
    /// Never: `read` has read this body before.
    #[must_use]
    pub fn edit(&self, edits: &Edits<'_>) -> Edited {
        let object = Object::of_body(&self.raw, canonical).expect("read() has accepted this body");
        let mut overwritten = Vec::new();
        let mut added = Vec::new();
        let mut set = |name: &str, old: Option<&str>| -> Edit {
            let new = match name {
                "metadata" => edits.metadata(old, &mut overwritten),
                "timeout" => edits.set_timeout.map(|seconds| seconds.to_string()),
                "lifecycle" => edits.lifecycle.and_then(|lifecycle| lifecycle.written(old)),
                _ => None,
            };
            new.map_or(Edit::Keep, Edit::Value)
        };
        for name in ["metadata", "timeout", "lifecycle"] {
            if object.get(name).is_none()
                && let Edit::Value(value) = set(name, None)
            {
                added.push((name.to_owned(), value));
            }
        }
        let edit = |member: &Member<'_>| {
            let dropped = edits.drop_fields.contains(&canonical(&member.name));
            if dropped { Edit::Drop } else { set(&member.name, Some(member.value)) }
        };
        let body = object.edited(edit, &added).into();
        Edited { body, overwritten }
    }
}

impl Edits<'_> {
    /// The new text of `metadata`; `None` if it stays.
    fn metadata(&self, old: Option<&str>, overwritten: &mut Vec<String>) -> Option<String> {
        let written = old.filter(|old| *old != "null");
        if written.is_none() && self.set_metadata.is_empty() {
            return None;
        }
        let object = Object::read("metadata", written.unwrap_or("{}")).ok()?;
        let ours = |key: &str| self.set_metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let missing = self.set_metadata.iter().filter(|(name, _)| object.get(name).is_none());
        let missing: Vec<_> = missing.map(|(name, value)| (name.clone(), quoted(value))).collect();
        let edit = |member: &Member<'_>| {
            let new = ours(&member.name);
            if new.is_some_and(|new| serde_json::from_str(member.value).ok().as_ref() == Some(new)) {
                return Edit::Keep;
            }
            if new.is_none() && !self.names.reserves(&member.name) {
                return Edit::Keep;
            }
            overwritten.push(member.name.clone());
            new.map_or(Edit::Drop, |new| Edit::Value(quoted(new)))
        };
        Some(object.edited(edit, &missing))
    }
}

impl Lifecycle {
    /// The new text of `lifecycle`; `None` if it stays.
    fn written(self, old: Option<&str>) -> Option<String> {
        let object = Object::read("lifecycle", old.filter(|old| *old != "null").unwrap_or("{}")).ok()?;
        let mut set = Vec::new();
        if let Some(on_timeout) = self.on_timeout {
            set.push(("onTimeout", quoted(on_timeout.as_str())));
        }
        if let Some(auto_resume) = self.auto_resume {
            set.push(("autoResume", auto_resume.to_string()));
        }
        // the key keeps the spelling that the client gave it: two spellings of one key are a duplicate to Cube
        let spelled = |name: &'static str| {
            let theirs = object.members.iter().find(|member| canonical(&member.name) == name);
            theirs.map_or(name.to_owned(), |member| member.name.clone())
        };
        let set: Vec<_> = set.into_iter().map(|(name, json)| (spelled(name), json)).collect();
        (!set.is_empty()).then(|| object.with(&set))
    }
}
