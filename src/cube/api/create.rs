//! The body of a create: read for what governance needs, edited without touching the rest.
//!
//! Must stay true: types are judged by Cube (it answers 422), not here, except where its parser would understand more
//! than one thing: keys that stand twice, structs written as arrays. A wrong type is noted, not repaired, and edits are
//! made all the same: policy holds even if a later Cube takes such a type. Both
//! spellings of a key (`autoPause`, `auto_pause`) are one key.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

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
pub struct Edits {
    /// Whose names are reserved.
    pub names: LabelNames,
    /// Metadata to set.
    pub set_metadata: Vec<(String, String)>,
    /// The timeout to set.
    pub set_timeout: Option<i64>,
    /// The parts of `lifecycle` to set.
    pub lifecycle: Option<Lifecycle>,
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

    /// The client's metadata as a JSON object, as far as it is text; `None` if it sent none.
    #[must_use]
    pub fn metadata_json(&self) -> Option<String> {
        let written = serde_json::to_string(&self.metadata).ok();
        written.filter(|_| !self.metadata.is_empty())
    }

    /// What is asked for, metadata and timeout apart, as a hash: the same for every order, spelling and white space, and
    /// for what is absent or `null`.
    #[must_use]
    pub fn essence(&self) -> String {
        let members: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(&self.raw).unwrap_or_default();
        let asked = members.into_iter().map(|(name, value)| (canonical(&name).to_owned(), value));
        let asked = asked.filter(|(name, value)| !value.is_null() && name != "metadata" && name != "timeout");
        let asked: BTreeMap<String, serde_json::Value> = asked.collect();
        let text = serde_json::to_vec(&asked).unwrap_or_default();
        hex::encode(Sha256::digest(text))
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
        let mounts: Option<Vec<Box<RawValue>>> = self.typed("volumeMounts", value);
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
    pub fn edit(&self, edits: &Edits) -> Edited {
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
        let edit = |member: &Member<'_>| set(&member.name, Some(member.value));
        let body = object.edited(edit, &added).into();
        Edited { body, overwritten }
    }
}

impl Edits {
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn read(text: &str) -> Result<CreateBody, Malformed> {
        CreateBody::read(&Bytes::copy_from_slice(text.as_bytes()))
    }

    fn labels() -> Vec<(String, String)> {
        [("env", "dev"), ("managed_by", "cubewarden")].map(|(key, value)| (key.into(), value.into())).to_vec()
    }

    fn edited(text: &str, edits: &Edits) -> (String, Vec<String>) {
        let edited = read(text).unwrap().edit(edits);
        (String::from_utf8(edited.body.to_vec()).unwrap(), edited.overwritten)
    }

    fn labelled(text: &str) -> (String, Vec<String>) {
        edited(text, &Edits { set_metadata: labels(), ..Edits::default() })
    }

    #[test]
    fn a_create_is_read_for_what_governance_needs() {
        let body = read(
            r#"{"templateID": "tpl-1", "timeout": 120, "metadata": {"team": "a b", "\u0068ost-mount": "[]"},
            "distributionScope": ["10.0.0.1"], "lifecycle": {"onTimeout": "pause", "autoResume": true},
            "volumeMounts": [{"name": "v1", "path": "/p"}, {"name": "v2"}], "auto_pause": true,
            "autoResume": {"enabled": false}, "memory": false, "autoPauseMemory": true}"#,
        )
        .unwrap();
        assert_eq!(body.template_id.as_deref(), Some("tpl-1"));
        assert_eq!(body.timeout, Some(120));
        assert_eq!(body.metadata["team"], "a b");
        let lifecycle = Lifecycle { on_timeout: Some(OnTimeout::Pause), auto_resume: Some(true) };
        assert_eq!(body.lifecycle, Some(lifecycle));
        assert_eq!(body.volumes, ["v1", "v2"]);
        assert_eq!((body.auto_pause, body.auto_resume), (Some(true), Some(false)));
        assert_eq!((body.memory, body.auto_pause_memory), (Some(false), Some(true)));
        assert!(body.chooses_nodes && body.mounts_host && body.left_to_cube.is_none());
    }

    #[test]
    fn a_wrong_type_is_left_to_cube_and_said_to_be() {
        for (text, field) in [
            ("{}", "templateID"),
            (r#"{"templateID":5}"#, "templateID"),
            (r#"{"templateID":"t","timeout":1.5}"#, "timeout"),
            (r#"{"templateID":"t","timeout":3000000000}"#, "timeout"),
            (r#"{"templateID":"t","metadata":{"a":1}}"#, "metadata"),
            (r#"{"templateID":"t","metadata":[]}"#, "metadata"),
            (r#"{"templateID":"t","volumeMounts":5}"#, "volumeMounts"),
            (r#"{"templateID":"t","volumeMounts":[{}]}"#, "volumeMounts"),
            (r#"{"templateID":"t","lifecycle":{"onTimeout":"explode"}}"#, "lifecycle.onTimeout"),
            (r#"{"templateID":"t","autoPause":"yes"}"#, "autoPause"),
            (r#"{"templateID":"t","autoResume":{"enabled":1}}"#, "autoResume"),
        ] {
            assert_eq!(read(text).unwrap().left_to_cube, Some(field), "{text}");
        }
        let null = r#"{"templateID":"t","timeout":null,"metadata":null,"lifecycle":null,"network":null,"volumeMounts":null,"distributionScope":null,"autoPause":null,"autoResume":null}"#;
        let null = read(null).unwrap();
        assert!(null.left_to_cube.is_none() && null.lifecycle.is_none() && !null.chooses_nodes);
    }

    #[test]
    fn what_two_readers_could_understand_differently_is_malformed() {
        for text in [
            r#"{"templateID":"t","templateID":"t"}"#,
            r#"{"templateID":"t","template\u0049D":"t"}"#,
            r#"{"templateID":"t","foo":1,"foo":1}"#,
            r#"{"templateID":"t","autoPause":true,"auto_pause":false}"#,
            r#"{"templateID":"t","metadata":{"a":"1","\u0061":"2"}}"#,
            r#"{"templateID":"t","lifecycle":{"onTimeout":"kill","on_timeout":"pause"}}"#,
            r#"{"templateID":"t","lifecycle":["kill",true]}"#,
            r#"{"templateID":"t","network":{"allowOut":[],"allow_out":[]}}"#,
            r#"{"templateID":"t","network":[]}"#,
            r#"{"templateID":"t","autoResume":[true]}"#,
            r#"{"templateID":"t","volumeMounts":[["v","/p"]]}"#,
            r#"{"templateID":"t","volumeMounts":[{"name":"a","name":"b"}]}"#,
            "[]",
            "null",
            "",
            "{",
            "hello",
            r#"{"a":1}x"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn labels_are_put_into_metadata_that_is_there_or_made_and_the_rest_keeps_its_bytes() {
        let ours = r#""env":"dev","managed_by":"cubewarden""#;
        for (before, after) in [
            (r#"{"templateID":"t"}"#, format!(r#"{{"templateID":"t","metadata":{{{ours}}}}}"#)),
            (
                r#"{"metadata":null, "timeout" : 3e1 }"#,
                format!(r#"{{"metadata":{{{ours}}}, "timeout" : 3e1 }}"#),
            ),
            (r#"{"metadata":{},"x":1.50}"#, format!(r#"{{"metadata":{{{ours}}},"x":1.50}}"#)),
            (
                r#"{"metadata":{ "ü\u002f" : "a\/b" }}"#,
                format!(r#"{{"metadata":{{ "ü\u002f" : "a\/b" ,{ours}}}}}"#),
            ),
            ("{}", format!(r#"{{"metadata":{{{ours}}}}}"#)),
        ] {
            assert_eq!(labelled(before), (after, vec![]), "{before}");
        }
        for untouched in [r#"{"metadata":5}"#, r#"{"metadata":[] }"#] {
            assert_eq!(labelled(untouched).0, untouched);
        }
    }

    #[test]
    fn reserved_keys_of_the_client_are_overwritten_or_taken_out_and_named() {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let before =
            r#"{"metadata":{"env":"dev","a":"b", "\u006danaged_by" : "me" ,"CW_marker":"x","owner_id":"y"}}"#;
        let after = r#"{"metadata":{"env":"dev","a":"b", "\u006danaged_by" : "cubewarden" }}"#;
        assert_eq!(labelled(before), (after.into(), names(&["managed_by", "CW_marker", "owner_id"])));
        let plain = r#"{"metadata":{"ENV":"x","Owner_ID":"y"}}"#;
        assert_eq!(labelled(plain).1, names(&[]));
    }

    #[test]
    fn timeout_and_lifecycle_are_edited_in_place() {
        let edits = Edits {
            set_timeout: Some(60),
            lifecycle: Some(Lifecycle { on_timeout: Some(OnTimeout::Kill), auto_resume: None }),
            ..Edits::default()
        };
        for (before, after) in [
            ("{}", r#"{"timeout":60,"lifecycle":{"onTimeout":"kill"}}"#),
            (
                r#"{ "timeout" : -1 ,"lifecycle":{"on_timeout":"pause", "auto_resume":true},"z":1}"#,
                r#"{ "timeout" : 60 ,"lifecycle":{"on_timeout":"kill", "auto_resume":true},"z":1}"#,
            ),
            (r#"{"lifecycle":null}"#, r#"{"lifecycle":{"onTimeout":"kill"},"timeout":60}"#),
        ] {
            assert_eq!(edited(before, &edits).0, after, "{before}");
        }
        let same = r#"{ "templateID":"t" ,"metadata":null,"timeout":5}"#;
        assert_eq!(edited(same, &Edits::default()).0, same);
    }
}
