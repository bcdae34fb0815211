//! The axum skin: routes as each version has them, `CubeAPI`'s layers round them, bodies read by axum's own extractors.
//!
//! Order of the layers, outer to inner: 408 (in `server`), compression, CORS, authentication, rate limit.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, FromRequest, Path, Query, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use tower_http::compression::CompressionLayer;

use super::answer::Answer;
use super::ask::{
    Ask, Asker, ListQuery, LogsForm, LogsQuery, MaybeTimeout, Mounts, Named, NewAlias, NewSandbox,
    NewTemplate, NewTimeout, OldListQuery, Refresh, RollbackTo, SnapshotsQuery,
};
use super::create_body::{narrow, wide};
use super::layers::{
    allow_all_origins, authenticate, buffered, ignore_any_encoding, limit_rate, with_old_column, without_path,
};
use super::profile::Profile;
use super::server::{Shared, response};
use super::wire::Tape;

type Id = Path<String>;

/// Everything one version answers.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let profile = shared.profile;
    let api = sandboxes(shared).merge(templates(profile)).merge(volumes(profile));
    let mut all = api.clone();
    if profile.mirrors_old_prefix() {
        let old = api.merge(unmodelled("/cluster/overview")).merge(unmodelled("/nodes"));
        all = all.nest("/cubeapi/v1", old.route("/health", get(health)));
    }
    let locked = all.fallback(nothing).layer(from_fn_with_state(Arc::clone(shared), authenticate));
    locked
        .route("/health", get(health))
        .layer(from_fn(allow_all_origins))
        .layer(CompressionLayer::new())
        .layer(from_fn(ignore_any_encoding))
        .with_state(Arc::clone(shared))
}

fn sandboxes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let mut routes = Router::new()
        .route("/sandboxes", get(list_v1).post(create))
        .route("/v2/sandboxes", get(list_v2))
        .route("/sandboxes/{id}", get(detail).delete(kill))
        .route("/sandboxes/{id}/pause", post(pause))
        .route("/sandboxes/{id}/resume", post(resume))
        .route("/sandboxes/{id}/connect", post(connect))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/refreshes", post(refresh))
        .route("/sandboxes/{id}/logs", get(logs_v1))
        .route("/v2/sandboxes/{id}/logs", get(logs_v2))
        .route("/sandboxes/{id}/snapshots", post(snapshot))
        .route("/sandboxes/{id}/rollback", post(rollback))
        .route("/snapshots", get(snapshots));
    if shared.profile.has_network_updates() {
        routes = routes.route("/sandboxes/{id}/network", put(network));
    }
    routes.route_layer(from_fn_with_state(Arc::clone(shared), limit_rate))
}

fn templates(profile: Profile) -> Router<Arc<Shared>> {
    let template = get(template).post(rebuild_template).patch(patch_template).delete(delete_template);
    let routes = Router::new()
        .route("/templates", get(list_templates).post(new_template))
        .route("/templates/{id}", template)
        .merge(unmodelled("/templates/{id}/builds/{build}"))
        .merge(unmodelled("/templates/{id}/builds/{build}/status"))
        .merge(unmodelled("/templates/{id}/builds/{build}/logs"));
    if !profile.has_volumes_and_aliases() {
        return routes;
    }
    routes.route("/templates/aliases/{alias}", get(find_alias)).route("/templates/{id}/alias", put(set_alias))
}

fn volumes(profile: Profile) -> Router<Arc<Shared>> {
    if !profile.has_volumes_and_aliases() {
        return Router::new();
    }
    Router::new()
        .route("/volumes", get(list_volumes).post(new_volume))
        .route("/volumes/{id}", get(volume).merge(delete(delete_volume)))
}

/// What Cube has and this has not.
fn unmodelled(path: &'static str) -> Router<Arc<Shared>> {
    let answer =
        move || async move { response(Answer::error(501, &format!("cube-sim does not model {path}"))) };
    Router::new().route(path, axum::routing::any(answer))
}

async fn nothing() -> StatusCode {
    StatusCode::NOT_FOUND
}

/// Everything about a call besides what it asks.
#[derive(Clone)]
struct Caller {
    shared: Arc<Shared>,
    tape: Tape,
    asker: Asker,
}

impl Caller {
    async fn ask(self, ask: Ask) -> Response {
        self.shared.carry(ask, self.asker, self.tape).await
    }

    /// Asks with the JSON body of the request, or gives the extractor's own refusal.
    async fn ask_json<T: DeserializeOwned>(self, request: Request, make: impl FnOnce(T) -> Ask) -> Response {
        let (request, bytes) = buffered(request).await;
        match Json::<T>::from_request(request, &()).await {
            Ok(Json(body)) => self.ask(make(body)).await,
            Err(rejection) => with_old_column(&rejection, &bytes),
        }
    }

    /// Asks with the query of the request, or gives the extractor's own refusal.
    async fn ask_query<T: DeserializeOwned>(
        self,
        query: Result<Query<T>, QueryRejection>,
        make: impl FnOnce(T) -> Ask,
    ) -> Response {
        match query {
            Ok(Query(query)) => self.ask(make(query)).await,
            Err(rejection) => without_path(&rejection),
        }
    }
}

impl axum::extract::FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut http::request::Parts,
        shared: &Arc<Shared>,
    ) -> Result<Self, Self::Rejection> {
        let tape = Extension::<Tape>::from_request_parts(parts, shared).await;
        let tape = tape.map_or_else(|_missing| Tape::default(), |Extension(tape)| tape);
        Ok(Self { shared: Arc::clone(shared), tape, asker: asker(&parts.headers) })
    }
}

fn asker(headers: &HeaderMap) -> Asker {
    let agent = headers.get("user-agent").and_then(|agent| agent.to_str().ok());
    Asker::of(agent.unwrap_or_default())
}

async fn health(caller: Caller) -> Response {
    caller.ask(Ask::Health).await
}

async fn create(caller: Caller, request: Request) -> Response {
    let profile = caller.shared.profile;
    if profile.reads_wide_create() {
        return caller.ask_json(request, |body: wide::NewSandbox| Ask::Create(body.into())).await;
    }
    let (request, bytes) = buffered(request).await;
    let found = serde_json::from_slice::<Mounts>(&bytes).ok().filter(|_| profile.has_volumes_and_aliases());
    let volume_mounts = found.unwrap_or_default().volume_mounts;
    let narrow = |body: narrow::NewSandbox| Ask::Create(NewSandbox { volume_mounts, ..body.into() });
    caller.ask_json(request, narrow).await
}

async fn list_v1(caller: Caller, query: Result<Query<OldListQuery>, QueryRejection>) -> Response {
    let bare =
        |query: OldListQuery| Ask::List(ListQuery { metadata: query.metadata, ..ListQuery::default() });
    caller.ask_query(query, bare).await
}

async fn list_v2(caller: Caller, query: Result<Query<ListQuery>, QueryRejection>) -> Response {
    caller.ask_query(query, Ask::List).await
}

async fn detail(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::Get(id)).await
}

async fn kill(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::Delete(id)).await
}

async fn pause(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::Pause(id)).await
}

async fn resume(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: MaybeTimeout| Ask::Resume(id, body.timeout)).await
}

async fn connect(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: MaybeTimeout| Ask::Connect(id, body.timeout)).await
}

async fn timeout(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: NewTimeout| Ask::Timeout(id, body.timeout)).await
}

async fn refresh(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: Refresh| Ask::Refreshes(id, body.duration)).await
}

async fn logs_v1(caller: Caller, Path(id): Id, query: Result<Query<LogsQuery>, QueryRejection>) -> Response {
    caller.ask_query(query, |query| Ask::Logs(id, query, LogsForm::V1)).await
}

async fn logs_v2(caller: Caller, Path(id): Id, query: Result<Query<LogsQuery>, QueryRejection>) -> Response {
    caller.ask_query(query, |query| Ask::Logs(id, query, LogsForm::V2)).await
}

async fn network(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |_policy: serde_json::Map<_, _>| Ask::Network(id)).await
}

async fn snapshot(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: Named| Ask::Snapshot(id, body.name)).await
}

async fn rollback(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: RollbackTo| Ask::Rollback(id, body.snapshot_id)).await
}

async fn snapshots(caller: Caller, query: Result<Query<SnapshotsQuery>, QueryRejection>) -> Response {
    caller.ask_query(query, Ask::Snapshots).await
}

async fn list_templates(caller: Caller) -> Response {
    caller.ask(Ask::Templates).await
}

async fn template(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::Template(id)).await
}

async fn new_template(caller: Caller, request: Request) -> Response {
    caller.ask_json(request, |body: NewTemplate| Ask::NewTemplate(body)).await
}

async fn rebuild_template(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::RebuildTemplate(id)).await
}

async fn patch_template(caller: Caller, Path(_id): Id) -> Response {
    caller.ask(Ask::PatchTemplate).await
}

async fn delete_template(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::DeleteTemplate(id)).await
}

async fn find_alias(caller: Caller, Path(alias): Id) -> Response {
    caller.ask(Ask::FindAlias(alias)).await
}

async fn set_alias(caller: Caller, Path(id): Id, request: Request) -> Response {
    caller.ask_json(request, |body: NewAlias| Ask::SetAlias(id, body.alias)).await
}

async fn list_volumes(caller: Caller) -> Response {
    caller.ask(Ask::Volumes).await
}

async fn volume(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::Volume(id)).await
}

async fn new_volume(caller: Caller, request: Request) -> Response {
    caller.ask_json(request, |body: Named| Ask::NewVolume(body.name)).await
}

async fn delete_volume(caller: Caller, Path(id): Id) -> Response {
    caller.ask(Ask::DeleteVolume(id)).await
}
