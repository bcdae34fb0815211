//! GET /sandboxes and /v2/sandboxes: the caller's own, completed from the ledger, filtered and paged by the warden.
//!
//! Must stay true: Cube is asked without filters (it decodes them once and pages by nodes); what is condemned or dead is
//! not shown; absence from Cube's list is no proof of anything.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};

use super::answers;
use super::classify::{Call, Prefix};
use super::context::{Ask, Governor};
use super::enrich;
use super::filter::ListQuery;
use super::mends;
use super::read_sandbox::unanswered;
use super::seam::Reply;
use crate::cube::api::{LabelNames, Labels, Listed, with_sandbox_id};
use crate::cube::client::Pace;
use crate::ids::{SandboxId, SandboxRef};
use crate::ledger::LedgerError;
use crate::rules::entry::{Entry, State};
use crate::rules::policy::IdForm;
use crate::verdict::Refusal;

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

pub(super) async fn run(governor: &Governor, ask: Ask, prefix: Prefix) -> Result<Reply, Refusal> {
    let query = ListQuery::parse(prefix, ask.head.uri.query().unwrap_or(""))?;
    let answer = governor.send_list(&ask, prefix).await?;
    if answer.status() != StatusCode::OK {
        return Ok(Reply::Answer(answers::mended(governor, &ask, answer)));
    }
    let (mut head, body) = answer.into_parts();
    let listed = match Listed::read_all(&body) {
        Ok(listed) => listed,
        // In open mode a list that we cannot read is the client's to read; nobody else's things are in it.
        Err(_) if ask.who.tenant.is_none() => return Ok(Reply::Answer(Response::from_parts(head, body))),
        Err(error) => return Err(unreadable(&error)),
    };
    let own = match governor.own(&ask, listed.clone()).await {
        Ok(own) => own,
        Err(error) => governor.own_by_hearsay(&ask, listed, &error),
    };
    let page = query.page(own);
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        head.headers.remove(name);
    }
    if let Some(next) = page.next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        head.headers.insert(NEXT_TOKEN, next);
    }
    let items: Vec<&str> = page.items.iter().map(|item| item.raw.as_str()).collect();
    let text = format!("[{}]", items.join(","));
    let mended = mends::list(&ask.settings.compat, ask.user_agent(), &text);
    mended.made.iter().for_each(|mend| governor.metrics.mended(mend.name()));
    Ok(Reply::Answer(Response::from_parts(head, Bytes::from(mended.text))))
}

/// A list that does not say what it must: nothing can be attributed.
pub(super) fn unreadable(error: &crate::cube::api::BadAnswer) -> Refusal {
    tracing::error!(%error, "Cube's list cannot be read");
    let message = "the list of the Cube API cannot be read; try again, or ask your operator";
    Refusal::new(crate::verdict::Reason::UpstreamTimeout, message)
}

impl Governor {
    /// Cube's whole list. HEAD is asked as GET: its answer's head depends on what is the caller's.
    async fn send_list(&self, ask: &Ask, prefix: Prefix) -> Result<Response<Bytes>, Refusal> {
        let mut head = ask.head.clone();
        head.method = Method::GET;
        let path = Call::List(prefix).upstream_path().unwrap_or_default();
        if let Ok(uri) = path.parse() {
            head.uri = uri;
        }
        self.cube.carry(head, Bytes::new(), Pace::Call).await.map_err(|error| unanswered(&error))
    }

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
                .filter(|labels| labels.ledger == *self.ledger.id())
                .map(|labels| labels.bucket),
        };
        listed
            .into_iter()
            .filter(|item| bucket(item).is_some_and(|bucket| ask.who.may_use(&bucket)))
            .collect()
    }
}
