//! What Cube forgets of a paused sandbox (0.7.0: metadata, template, size), filled in from the ledger; and items of the
//! ledger that a list left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::context::{Ask, Governor};
use crate::cube::api::{LabelNames, Labels, Listed, set_members};
use crate::rules::entry::{Entry, Origin};

/// An item or detail with what is missing from it and stands in the ledger. What Cube shows stays as it is, and so does
/// what was not made through the warden: its application never sent our labels and must not find them.
pub(super) fn item(governor: &Governor, ask: &Ask, entry: &Entry, text: &str) -> String {
    let Some(listed) = Listed::read(text).ok().filter(|_| entry.origin == Origin::Created) else {
        return text.to_owned();
    };
    let names = LabelNames::new(&ask.settings.identity.metadata_prefix);
    let mut set = Vec::new();
    if Labels::read(&listed.metadata, &names).is_none() {
        set.push(("metadata".to_owned(), metadata(governor, ask, entry)));
    }
    if listed.template_id.is_none() && !entry.template.is_empty() {
        set.push(("templateID".to_owned(), Value::from(entry.template.as_str()).to_string()));
    }
    if set.is_empty() { text.to_owned() } else { set_members(text, &set).unwrap_or_else(|| text.to_owned()) }
}

/// The item of a paused sandbox that the list left out.
pub(super) fn absent_item(governor: &Governor, ask: &Ask, entry: &Entry) -> Option<String> {
    let sandbox = entry.sandbox.as_ref()?;
    let mut item = Map::new();
    item.insert("templateID".into(), entry.template.as_str().into());
    item.insert("sandboxID".into(), sandbox.as_str().into());
    item.insert("clientID".into(), "".into());
    item.insert("startedAt".into(), entry.first_seen.unwrap_or(entry.asked).to_string().into());
    if let Some(deadline) = entry.deadline {
        item.insert("endAt".into(), deadline.to_string().into());
    }
    item.insert("cpuCount".into(), (entry.shape.cpu_milli / 1000).into());
    item.insert("memoryMB".into(), entry.shape.memory_mib.into());
    item.insert("diskSizeMB".into(), 0.into());
    item.insert("state".into(), "paused".into());
    item.insert("envdVersion".into(), envd_version(entry).into());
    let text = Value::Object(item).to_string();
    set_members(&text, &[("metadata".to_owned(), metadata(governor, ask, entry))])
}

fn envd_version(entry: &Entry) -> String {
    let answer: Option<Value> = entry.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok());
    let version = answer.as_ref().and_then(|answer| answer.get("envdVersion")).and_then(Value::as_str);
    version.unwrap_or("0.2.0").to_owned()
}

/// The metadata as the create sent it: the client's, with our labels. Of what was made round us nothing is known.
fn metadata(governor: &Governor, ask: &Ask, entry: &Entry) -> String {
    if entry.origin != Origin::Created {
        return "{}".to_owned();
    }
    let names = LabelNames::new(&ask.settings.identity.metadata_prefix);
    let kept = entry.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let mut metadata: BTreeMap<String, String> = kept.unwrap_or_default();
    metadata.retain(|key, _| !names.reserves(key));
    let labels = Labels {
        bucket: entry.bucket.clone(),
        owner: entry.owner.clone(),
        ledger: governor.ledger.id(),
        marker: entry.marker.clone(),
    };
    metadata.extend(labels.pairs(&names));
    let object: Map<String, Value> = metadata.into_iter().map(|(key, value)| (key, value.into())).collect();
    Value::Object(object).to_string()
}
