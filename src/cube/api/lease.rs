//! The body of the native API's `POST /v1/leases`: our own words, and around them any field of a create.
//!
//! Must stay true: what is not ours goes into the create with its bytes and in its order.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::create::OnTimeout;
use super::splice::{Edit, Malformed, Member, Object, quoted};
use crate::ids::{Generation, LeaseId, OwnerId, SandboxId};

/// Our own words in it.
const OURS: [&str; 8] =
    ["namespace", "env", "owner_id", "project", "run", "lease_id", "template_id", "template"];

/// What a holder asks for, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseBody {
    raw: Bytes,
    ours: BTreeMap<String, String>,
}

/// What a lease sets in its create where its body says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseDefaults {
    /// The template it is made from.
    pub template_id: String,
    /// Its timeout in seconds.
    pub timeout: u64,
}

/// What a holder is told of what it holds.
#[derive(Clone, Debug)]
pub struct Held<'a> {
    /// The lease.
    pub lease: Option<&'a LeaseId>,
    /// Whose it is.
    pub owner: &'a OwnerId,
    /// The fencing token.
    pub generation: Generation,
    /// The sandbox.
    pub sandbox: Option<&'a SandboxId>,
}

impl Held<'_> {
    /// As JSON, with flags and, of an acquisition, Cube's answer to the create.
    #[must_use]
    pub fn json(&self, flag: Option<(&str, bool)>, created: Option<&[u8]>) -> Vec<u8> {
        let mut said = json!({
            "lease_id": self.lease.map(LeaseId::as_str),
            "owner_id": self.owner.as_str(),
            "generation": self.generation.0,
            "sandbox_id": self.sandbox.map(SandboxId::as_str),
        });
        if let Some((name, value)) = flag {
            said[name] = json!(value);
        }
        if let Some(created) = created {
            said["sandbox"] = serde_json::from_slice(created).unwrap_or(Value::Null);
        }
        said.to_string().into_bytes()
    }
}

fn as_written(name: &str) -> &str {
    name
}

impl LeaseBody {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Malformed`] if it is not one JSON object with each key once, or one of our words is no text.
    pub fn read(body: &Bytes) -> Result<Self, Malformed> {
        let object = Object::of_body(body, as_written)?;
        let mut ours = BTreeMap::new();
        for member in object.members.iter().filter(|member| OURS.contains(&member.name.as_str())) {
            match serde_json::from_str::<Option<String>>(member.value) {
                Ok(Some(text)) => drop(ours.insert(member.name.clone(), text)),
                Ok(None) => {}
                Err(_) => return Err(Malformed::NotText(member.name.clone())),
            }
        }
        Ok(Self { raw: body.clone(), ours })
    }

    /// One of our words; `None` if it is absent, `null` or empty.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.ours.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether a field of the create is there.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        Object::of_body(&self.raw, as_written).is_ok_and(|object| object.get(field).is_some())
    }

    /// The create: our words gone, the template named, an owner that is named put where creates name it, and where nothing
    /// is said, paused when it times out and resumed by traffic.
    #[must_use]
    pub fn create(&self, defaults: &LeaseDefaults, owner_key: &str) -> Bytes {
        let Ok(object) = Object::of_body(&self.raw, as_written) else { return self.raw.clone() };
        let mut added = Vec::new();
        let mut add = |name: &str, json: String| {
            if object.get(name).is_none() {
                added.push((name.to_owned(), json));
            }
        };
        add("templateID", quoted(&defaults.template_id));
        add("timeout", defaults.timeout.to_string());
        if !["autoPause", "auto_pause", "autoResume", "auto_resume"].iter().any(|name| self.has(name)) {
            let on_timeout = quoted(OnTimeout::Pause.as_str());
            add("lifecycle", format!(r#"{{"onTimeout":{on_timeout},"autoResume":true}}"#));
        }
        let owner = self.word("owner_id").map(|owner| (owner_key.to_owned(), quoted(owner)));
        if let Some((name, owner)) = &owner {
            add("metadata", format!("{{{}:{owner}}}", quoted(name)));
        }
        let edit = |member: &Member<'_>| match (member.name.as_str(), &owner) {
            (name, _) if OURS.contains(&name) => Edit::Drop,
            ("metadata", Some(named)) => {
                let metadata = Object::read("metadata", member.value);
                metadata.map_or(Edit::Keep, |object| Edit::Value(object.with(std::slice::from_ref(named))))
            }
            _ => Edit::Keep,
        };
        object.edited(edit, &added).into()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn created(text: &str) -> String {
        let defaults = LeaseDefaults { template_id: "tpl".into(), timeout: 300 };
        let body = LeaseBody::read(&Bytes::from(text.to_owned())).unwrap();
        String::from_utf8(body.create(&defaults, "owner_id").to_vec()).unwrap()
    }

    #[test]
    fn our_words_go_and_everything_else_keeps_its_bytes() {
        let paused = r#""lifecycle":{"onTimeout":"pause","autoResume":true}"#;
        let cases = [
            ("{}", format!(r#"{{"templateID":"tpl","timeout":300,{paused}}}"#)),
            (
                r#"{"run":"7", "envVars": {"A" : "b"},"lease_id":null,"timeout":60}"#,
                format!(r#"{{ "envVars": {{"A" : "b"}},"timeout":60,"templateID":"tpl",{paused}}}"#),
            ),
            (
                r#"{"owner_id":"o","metadata":{"a": "b"},"autoPause":false,"templateID":"x"}"#,
                r#"{"metadata":{"a": "b","owner_id":"o"},"autoPause":false,"templateID":"x","timeout":300}"#
                    .to_owned(),
            ),
            (
                r#"{"owner_id":"o","lifecycle":{}}"#,
                r#"{"lifecycle":{},"templateID":"tpl","timeout":300,"metadata":{"owner_id":"o"}}"#.to_owned(),
            ),
        ];
        for (asked, create) in cases {
            assert_eq!(created(asked), create, "{asked}");
        }
    }

    #[test]
    fn what_is_no_text_or_stands_twice_is_named() {
        let read = |text: &str| LeaseBody::read(&Bytes::from(text.to_owned())).unwrap_err().to_string();
        assert_eq!(read(r#"{"run":7}"#), "run must be text");
        assert_eq!(read(r#"{"run":"7","run":"8"}"#), r#"the body has the key "run" twice"#);
        assert!(read("[]").contains("must be a JSON object"));
    }
}
