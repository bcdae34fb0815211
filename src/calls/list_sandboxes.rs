//! GET /sandboxes and /v2/sandboxes: the caller's own, completed from the ledger, filtered and paged by the warden.
//!
//! Must stay true: Cube is asked without filters (it decodes them once and pages by nodes); what is condemned or dead is
//! not shown; absence from Cube's list is no proof of anything.

use std::collections::HashSet;

use bytes::Bytes;
use http::Response;

use super::answers;
use super::classify::{Call, Prefix};
use super::context::{Ask, Governor};
use super::enrich;
use super::filter::ListQuery;
use super::mends;
use super::pages::{Collected, set_next, unreadable};
use super::seam::Reply;
use crate::cube::api::{LabelNames, Labels, Listed, with_sandbox_id};
use crate::ids::{SandboxId, SandboxRef};
use crate::ledger::LedgerError;
use crate::rules::entry::{Entry, State};
use crate::rules::policy::IdForm;
use crate::verdict::Refusal;

pub(super) async fn run(governor: &Governor, ask: Ask, prefix: Prefix) -> Result<Reply, Refusal> {
    let query = ListQuery::parse(prefix, ask.head.uri.query().unwrap_or(""))?;
    let path = Call::List(prefix).upstream_path().unwrap_or_default();
    let (mut head, pages) = match governor.collect(&ask, &path, "").await? {
        Collected::Whole(head, pages) => (head, pages),
        Collected::Other(answer) => return Ok(Reply::Answer(answers::mended(governor, &ask, answer))),
    };
    let listed: Result<Vec<_>, _> = pages.iter().map(|page| Listed::read_all(page)).collect();
    let listed = match (listed, pages.as_slice()) {
        (Ok(listed), _) => listed.concat(),
        // In open mode a list that we cannot read is the client's to read; nobody else's things are in it.
        (Err(_), [page]) if ask.who.tenant.is_none() => {
            return Ok(Reply::Answer(Response::from_parts(head, page.clone())));
        }
        (Err(error), _) => return Err(unreadable(&error)),
    };
    let own = match governor.own(&ask, listed.clone()).await {
        Ok(own) => own,
        Err(error) => governor.own_by_hearsay(&ask, listed, &error),
    };
    let page = query.page(own);
    set_next(&mut head, page.next);
    let items: Vec<&str> = page.items.iter().map(|item| item.raw.as_str()).collect();
    let text = format!("[{}]", items.join(","));
    let mended = mends::list(&ask.settings.compat, ask.user_agent(), &text);
    mended.made.iter().for_each(|mend| governor.metrics.mended(mend.name()));
    Ok(Reply::Answer(Response::from_parts(head, Bytes::from(mended.text))))
}

impl Governor {
    /// What of a list the caller may see, and what the list left out.
    async fn own(&self, ask: &Ask, listed: Vec<Listed>) -> Result<Vec<Listed>, LedgerError> {
        let ids: Vec<SandboxId> = listed.iter().map(|item| item.id.clone()).collect();
        let entries = self.ledger.find_all(&ids).await?;
        let seen: HashSet<SandboxId> = ids.into_iter().collect();
        let mut own = Vec::with_capacity(listed.len());
        for (item, entry) in listed.into_iter().zip(entries) {
            match entry {
                Some(entry) if ask.who.may_use(&entry.bucket) && entry.usable() => {
                    own.extend(self.shown(ask, &entry, &item.raw));
                }
                None if ask.who.tenant.is_none() => own.push(item),
                _ => {}
            }
        }
        own.extend(self.left_out(ask, &seen).await?);
        Ok(own)
    }

    /// Paused sandboxes of the caller that the list does not show, though a single GET would.
    async fn left_out(&self, ask: &Ask, seen: &HashSet<SandboxId>) -> Result<Vec<Listed>, LedgerError> {
        let paused = self.ledger.paused(ask.who.tenant.as_ref().map(|_| ask.who.buckets.as_slice())).await?;
        let missing = paused.into_iter().filter(|entry| {
            entry.sandbox.as_ref().is_some_and(|id| !seen.contains(id))
                && matches!(entry.state, State::Live(_))
        });
        Ok(missing
            .filter_map(|entry| {
                let item = enrich::absent_item(self, ask, &entry)?;
                self.shown(ask, &entry, &item)
            })
            .collect())
    }

    /// An item as it is handed out: completed from the ledger, its id qualified where the bucket does so.
    fn shown(&self, ask: &Ask, entry: &Entry, item: &str) -> Option<Listed> {
        let text = enrich::item(self, ask, entry, item);
        let mut shown = Listed::read(&text).ok()?;
        if ask.settings.policies.of(&entry.bucket).ids == IdForm::Qualified {
            let name = SandboxRef { id: shown.id.clone(), generation: Some(entry.generation) };
            shown.raw = with_sandbox_id(&shown.raw, &name)?;
        }
        Some(shown)
    }

    /// The ledger cannot be asked: what this process remembers or Cube's own labels attribute; the rest is left out.
    fn own_by_hearsay(&self, ask: &Ask, listed: Vec<Listed>, error: &LedgerError) -> Vec<Listed> {
        tracing::warn!(error = error as &dyn std::error::Error, "a list is answered without the ledger");
        if ask.who.tenant.is_none() {
            return listed;
        }
        let names = LabelNames::new(&ask.settings.identity.metadata_prefix);
        let bucket = |item: &Listed| match self.ledger.known(&item.id) {
            Some(known) => Some(known.bucket),
            None => Labels::read(&item.metadata, &names)
                .filter(|labels| labels.ledger == self.ledger.id())
                .map(|labels| labels.bucket),
        };
        listed
            .into_iter()
            .filter(|item| bucket(item).is_some_and(|bucket| ask.who.may_use(&bucket)))
            .collect()
    }
}
