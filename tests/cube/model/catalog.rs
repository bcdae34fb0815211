//! Templates and their aliases: one namespace for everybody, nobody owns anything. Snapshots and volumes stand in `storage`.

use std::collections::BTreeMap;

use cubewarden::time::{Chance, UnixMillis};
use serde::Serialize;
use serde_json::{Value, json};

use super::Cube;
use super::storage::Snapshot;
use crate::cube::answer::Answer;
use crate::cube::ask::{Ask, Kind, NewTemplate};
use crate::cube::profile::Profile;

/// The template that planted sandboxes are of.
pub(super) const BASE: &str = "tpl-000000000000000000000001";
const NO_TEMPLATE: &str = "template not found";

#[derive(Clone, Debug)]
struct Template {
    id: String,
    image: String,
    job: String,
    aliases: Vec<String>,
    created: UnixMillis,
}

/// An entry of the list, or with `detail` an answer of its own; fields that a version lacks are absent.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateView<'a> {
    #[serde(rename = "templateID")]
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<bool>,
    instance_type: &'static str,
    version: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_info: Option<&'a str>,
    #[serde(flatten)]
    detail: Option<TemplateDetail>,
    #[serde(rename = "jobID")]
    job: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aliases: Option<&'a [String]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateDetail {
    replicas: Value,
    create_request: Value,
    network_type: &'static str,
    allow_internet_access: bool,
}

#[derive(Serialize)]
struct TemplateJob<'a> {
    #[serde(rename = "jobID")]
    job: &'a str,
    #[serde(rename = "templateID")]
    template: &'a str,
    status: &'static str,
    phase: &'static str,
    progress: u32,
}

/// All that sandboxes are made from and leave behind.
#[derive(Debug)]
pub(super) struct Catalog {
    templates: Vec<Template>,
    pub(super) snapshots: Vec<Snapshot>,
    pub(super) volumes: BTreeMap<String, String>,
}

impl Catalog {
    /// Three templates, each with its alias.
    pub(super) fn new(now: UnixMillis, chance: &Chance) -> Self {
        let names = ["base", "code-interpreter", "mcp-gateway"];
        let template = |(n, name): (usize, &&str)| Template {
            id: format!("tpl-{:024}", n + 1),
            image: format!("registry.local/{name}:1"),
            job: format!("job-{}", chance.hex(8)),
            aliases: vec![(*name).to_owned()],
            created: now,
        };
        let templates = names.iter().enumerate().map(template).collect();
        Self { templates, snapshots: Vec::new(), volumes: BTreeMap::new() }
    }

    /// The id of the template or snapshot that a create names.
    pub(super) fn resolve(&self, name: &str, profile: Profile) -> Option<String> {
        let by_alias =
            |one: &&Template| profile.has_volumes_and_aliases() && one.aliases.iter().any(|a| a == name);
        let template = self.templates.iter().find(|one| one.id == name || by_alias(one)).map(|one| &one.id);
        let snapshot = self.snapshots.iter().find(|one| one.id == name).map(|one| &one.id);
        template.or(snapshot).cloned()
    }

    pub(super) fn has_volume(&self, id: &str) -> bool {
        self.volumes.contains_key(id)
    }
}

impl Cube {
    pub(super) fn carry_out_in_catalog(&mut self, ask: &Ask, now: UnixMillis, chance: &Chance) -> Answer {
        match ask {
            Ask::Snapshot(id, name) => self.snapshot(id, name.as_deref(), now, chance),
            Ask::Rollback(id, snapshot) => self.rollback(id, snapshot, chance),
            Ask::Snapshots(query) => self.snapshots(query),
            Ask::Templates => self.templates(),
            Ask::Template(id) => self.template(id, Kind::Template),
            Ask::NewTemplate(new) => self.new_template(new, now, chance),
            Ask::RebuildTemplate(id) => self.rebuild_template(id),
            Ask::PatchTemplate => Answer::error(
                501,
                "template metadata update is not supported; use POST /templates/{id} to rebuild",
            ),
            Ask::DeleteTemplate(id) => self.delete_template(id, chance),
            Ask::FindAlias(alias) => self.find_alias(alias),
            Ask::SetAlias(id, alias) => self.set_alias(id, alias.as_deref()),
            Ask::Volume(id) => self.volume(id),
            Ask::NewVolume(name) => self.new_volume(name.as_deref(), chance),
            Ask::DeleteVolume(id) => self.delete_volume(id),
            _ => self.volumes(),
        }
    }

    fn templates(&self) -> Answer {
        let views: Vec<_> = self.catalog.templates.iter().map(|one| self.entry(one)).collect();
        Answer::json(200, &views)
    }

    fn template(&self, id: &str, kind: Kind) -> Answer {
        let Some(template) = self.catalog.templates.iter().find(|one| one.id == id) else {
            return Answer::backend(self.profile, kind, 130_404, NO_TEMPLATE);
        };
        let newer = self.profile.has_volumes_and_aliases();
        let detail = TemplateDetail {
            replicas: json!([{ "node_id": "node-0", "status": "READY" }]),
            create_request: json!({ "cube_network_config": { "allowInternetAccess": true }, "network_type": "tap" }),
            network_type: "tap",
            allow_internet_access: true,
        };
        let view = TemplateView {
            image_info: None,
            created_at: newer.then(|| template.created.to_string()),
            detail: Some(detail),
            ..self.entry(template)
        };
        Answer::json(200, &view)
    }

    fn entry<'a>(&self, template: &'a Template) -> TemplateView<'a> {
        let newer = self.profile.has_volumes_and_aliases();
        TemplateView {
            id: &template.id,
            public: newer.then_some(false),
            instance_type: "cubebox",
            version: "v2",
            status: "READY",
            created_at: Some(template.created.to_string()),
            image_info: Some(&template.image),
            detail: None,
            job: &template.job,
            aliases: newer.then_some(&template.aliases),
        }
    }

    fn new_template(&mut self, new: &NewTemplate, now: UnixMillis, chance: &Chance) -> Answer {
        let template = Template {
            id: format!("tpl-{}", chance.hex(12)),
            image: new.image.clone(),
            job: format!("job-{}", chance.hex(8)),
            aliases: new.alias.iter().cloned().collect(),
            created: now,
        };
        let answer = job_answer(&template);
        self.catalog.templates.push(template);
        answer
    }

    fn rebuild_template(&self, id: &str) -> Answer {
        match self.catalog.templates.iter().find(|one| one.id == id) {
            Some(template) => job_answer(template),
            None => Answer::backend(self.profile, Kind::Template, 130_404, NO_TEMPLATE),
        }
    }

    fn delete_template(&mut self, id: &str, chance: &Chance) -> Answer {
        let snapshots = self.catalog.snapshots.len();
        self.catalog.snapshots.retain(|one| one.id != id);
        if self.catalog.snapshots.len() < snapshots {
            return Answer::done().with_header("x-operation-id", operation(chance));
        }
        let templates = self.catalog.templates.len();
        self.catalog.templates.retain(|one| one.id != id);
        if self.catalog.templates.len() < templates {
            return Answer::done();
        }
        Answer::backend(self.profile, Kind::DeleteTemplate, 130_404, NO_TEMPLATE)
    }

    fn find_alias(&self, alias: &str) -> Answer {
        #[derive(Serialize)]
        struct Found<'a> {
            #[serde(rename = "templateID")]
            id: &'a str,
            public: bool,
        }
        let found = self.catalog.templates.iter().find(|one| one.aliases.iter().any(|held| held == alias));
        match found {
            Some(template) => Answer::json(200, &Found { id: &template.id, public: false }),
            None => Answer::backend(self.profile, Kind::Alias, 130_404, NO_TEMPLATE),
        }
    }

    fn set_alias(&mut self, id: &str, alias: Option<&str>) -> Answer {
        let taken =
            |one: &Template| one.id != id && one.aliases.iter().any(|held| Some(held.as_str()) == alias);
        if self.catalog.templates.iter().any(taken) {
            return Answer::error(409, &format!("alias {} is in use", alias.unwrap_or_default()));
        }
        if let Some(template) = self.catalog.templates.iter_mut().find(|one| one.id == id) {
            template.aliases = alias.map(str::to_owned).into_iter().collect();
        }
        self.template(id, Kind::Alias)
    }
}

fn job_answer(template: &Template) -> Answer {
    let job = TemplateJob {
        job: &template.job,
        template: &template.id,
        status: "READY",
        phase: "done",
        progress: 100,
    };
    Answer::json(202, &job)
}

pub(super) fn operation(chance: &Chance) -> String {
    format!("op-{}", chance.hex(8))
}
