//! Snapshots and volumes: own only, in every verb. Templates: read by all, written in open mode or by an admin tenant.

use bytes::Bytes;
use http::{Response, StatusCode};

use super::answers;
use super::classify::{Act, Call, Prefix, Verb};
use super::context::{Ask, Governor, unavailable};
use super::create_sandbox::unreachable;
use super::pages::{Collected, SnapshotQuery, set_next, unreadable};
use super::seam::Reply;
use super::touch::Touch;
use super::wish::malformed;
use crate::cube::api::{ListedObject, RollbackBody, SnapshotBody, SnapshotMade, snapshot_id, text_member};
use crate::cube::client::Pace;
use crate::cube::outcome::Asked;
use crate::cube::transport::TransportError;
use crate::ids::{Bucket, ObjectKind, SandboxRef};
use crate::rules::delete::Reach;
use crate::rules::entry::Effect;
use crate::rules::lanes::Lane;
use crate::verdict::{Reason, Refusal};

/// POST {id}/snapshots: the snapshot is its sandbox's bucket's.
pub(super) async fn make_snapshot(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    SnapshotBody::read(&ask.body).map_err(|error| malformed(&error))?;
    let call = Call::Sandbox { act: Act::Snapshot, prefix, sandbox: sandbox.clone() };
    let owned = governor.owned(&ask, &sandbox).await?;
    let bucket = owned.entry().map(|entry| entry.bucket.clone());
    let body = ask.body.clone();
    let touch = Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Snapshot, reach: Reach::Joins };
    let answer = governor.touch_owned(touch, owned, Effect::None).await?;
    if answer.status() == StatusCode::CREATED
        && let (Some(bucket), Ok(made)) = (bucket, SnapshotMade::read(answer.body()))
    {
        let id = snapshot_id(&made.id).unwrap_or(&made.id);
        governor.record_object(ObjectKind::Snapshot, id, &bucket).await;
    }
    Ok(Reply::Answer(answer))
}

/// POST {id}/rollback: to an own snapshot.
pub(super) async fn rollback(
    governor: &Governor,
    ask: Ask,
    prefix: Prefix,
    sandbox: SandboxRef,
) -> Result<Reply, Refusal> {
    let read = RollbackBody::read(&ask.body).map_err(|error| malformed(&error))?;
    let call = Call::Sandbox { act: Act::Rollback, prefix, sandbox: sandbox.clone() };
    let owned = governor.owned(&ask, &sandbox).await?;
    if let Some(snapshot) = read.snapshot_id.as_deref() {
        let id = snapshot_id(snapshot).unwrap_or(snapshot);
        if !governor.owns_object(&ask, ObjectKind::Snapshot, id).await? {
            return Err(answers::no_such_object("snapshot", snapshot));
        }
    }
    let body = ask.body.clone();
    let touch =
        Touch { ask: &ask, call, sandbox: &sandbox, body, pace: Pace::Snapshot, reach: Reach::Interrupts };
    governor.touch_owned(touch, owned, Effect::Rewound).await.map(Reply::Answer)
}

/// GET /snapshots.
pub(super) async fn list_snapshots(governor: &Governor, mut ask: Ask) -> Result<Reply, Refusal> {
    bare_sandbox_filter(&mut ask);
    governor.list_objects(ask, ObjectKind::Snapshot, "snapshotID").await
}

/// The filter `sandboxID` goes up with the bare id.
fn bare_sandbox_filter(ask: &mut Ask) {
    let Some(query) = ask.head.uri.query() else { return };
    let mut bare = form_urlencoded::Serializer::new(String::new());
    let mut qualified = false;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match SandboxRef::parse(&value) {
            Some(sandbox) if name == "sandboxID" => {
                qualified |= value != sandbox.id.as_str();
                bare.append_pair(&name, sandbox.id.as_str());
            }
            _ => drop(bare.append_pair(&name, &value)),
        }
    }
    if qualified && let Ok(uri) = format!("{}?{}", ask.head.uri.path(), bare.finish()).parse() {
        ask.head.uri = uri;
    }
}

/// GET /volumes.
pub(super) async fn list_volumes(governor: &Governor, ask: Ask) -> Result<Reply, Refusal> {
    governor.list_objects(ask, ObjectKind::Volume, "volumeID").await
}

/// One snapshot; its DELETE is the delete of a template.
pub(super) async fn snapshot(governor: &Governor, ask: Ask, verb: Verb, id: &str) -> Result<Reply, Refusal> {
    let bare = snapshot_id(id).unwrap_or(id);
    governor.object(ask, ObjectKind::Snapshot, verb, bare).await
}

/// One volume.
pub(super) async fn volume(governor: &Governor, ask: Ask, verb: Verb, id: &str) -> Result<Reply, Refusal> {
    governor.object(ask, ObjectKind::Volume, verb, id).await
}

/// POST /volumes: it is the caller's first bucket's. A name that is taken is Cube's 409, which shows that somebody has
/// it: one global namespace is Cube's, and the name is all that shows.
pub(super) async fn make_volume(governor: &Governor, ask: Ask) -> Result<Reply, Refusal> {
    let answer = governor.carry_object(&ask, Pace::Call).await?;
    let id = text_member(answer.body(), "volumeID");
    if answer.status().is_success()
        && !id.is_empty()
        && let Some(bucket) = ask.who.buckets.first()
    {
        governor.record_object(ObjectKind::Volume, &id, bucket).await;
    }
    Ok(Reply::Answer(answers::mended(governor, &ask, answer)))
}

/// Writes of templates.
pub(super) fn write_template(ask: &Ask) -> Result<Reply, Refusal> {
    if ask.who.admin {
        return Ok(Reply::Forward(ask.head.clone(), ask.body.clone()));
    }
    let message = "templates are shared: only a tenant with admin = true may change them; ask your operator";
    Err(Refusal::new(Reason::UngovernedRoute, message))
}

impl Governor {
    async fn carry_object(&self, ask: &Ask, pace: Pace) -> Result<Response<Bytes>, Refusal> {
        let mut granted = self.place(ask, Lane::Connect).await?;
        let (head, body) = (ask.head.clone(), ask.body.clone());
        let answer = self.cube.write(&mut granted, Asked::Write, head, body, pace).await;
        answer.map_err(|error| match error {
            TransportError::NotSent(_) => unreachable(&error),
            TransportError::Lost(_) => super::read_sandbox::unanswered(&error),
        })
    }

    async fn object(&self, ask: Ask, kind: ObjectKind, verb: Verb, id: &str) -> Result<Reply, Refusal> {
        if !self.owns_object(&ask, kind, id).await? {
            let word = if kind == ObjectKind::Snapshot { "snapshot" } else { "volume" };
            return Err(answers::no_such_object(word, id));
        }
        if verb == Verb::Read {
            return Ok(Reply::Forward(ask.head, ask.body));
        }
        let pace = if kind == ObjectKind::Snapshot { Pace::Snapshot } else { Pace::Call };
        let answer = self.carry_object(&ask, pace).await?;
        let gone = answer.status().is_success() || answer.status() == StatusCode::NOT_FOUND;
        let own = |bucket: &Bucket| ask.who.may_use(bucket);
        if verb == Verb::Delete
            && gone
            && let Err(error) = self.ledger.forget_object(kind, id, own).await
        {
            // It is gone all the same, and a repeated DELETE forgets it.
            tracing::warn!(
                id,
                error = &error as &dyn std::error::Error,
                "a deleted object is still on record"
            );
        }
        Ok(Reply::Answer(answers::mended(self, &ask, answer)))
    }

    /// A list of objects, of which a tenant sees its own, in pages of its own: Cube's would count everybody's.
    async fn list_objects(&self, ask: Ask, kind: ObjectKind, id_field: &str) -> Result<Reply, Refusal> {
        if ask.who.tenant.is_none() {
            return Ok(Reply::Forward(ask.head, ask.body));
        }
        let query = ask.head.uri.query().unwrap_or_default();
        let asked = (kind == ObjectKind::Snapshot).then(|| SnapshotQuery::parse(query)).transpose()?;
        let upstream = asked.as_ref().map_or(query, |asked| &asked.rest);
        let (mut head, pages) = match self.collect(&ask, ask.head.uri.path(), upstream).await? {
            Collected::Whole(head, pages) => (head, pages),
            Collected::Other(answer) => return Ok(Reply::Answer(answers::mended(self, &ask, answer))),
        };
        let items: Result<Vec<_>, _> =
            pages.iter().map(|page| ListedObject::read_all(page, id_field)).collect();
        let items: Vec<ListedObject> =
            items.map_err(|error| unreadable(&error))?.into_iter().flatten().collect();
        let mut own = self.own_objects(&ask, kind, items).await?;
        if let Some(asked) = asked {
            let ids: Vec<&str> = own.iter().map(|item| item.id.as_str()).collect();
            let (range, next) = asked.page(&ids);
            set_next(&mut head, next);
            own = own.drain(range).collect();
        }
        let own: Vec<&str> = own.iter().map(|item| item.raw.as_str()).collect();
        Ok(Reply::Answer(Response::from_parts(head, Bytes::from(format!("[{}]", own.join(","))))))
    }

    async fn own_objects(
        &self,
        ask: &Ask,
        kind: ObjectKind,
        items: Vec<ListedObject>,
    ) -> Result<Vec<ListedObject>, Refusal> {
        let ids: Vec<String> =
            items.iter().map(|item| snapshot_id(&item.id).unwrap_or(&item.id).to_owned()).collect();
        let buckets = self.ledger.object_buckets(kind, &ids).await.map_err(|error| unavailable(&error))?;
        let own = items
            .into_iter()
            .zip(buckets)
            .filter(|(_, bucket)| bucket.as_ref().is_some_and(|bucket| ask.who.may_use(bucket)));
        Ok(own.map(|(item, _)| item).collect())
    }
}
