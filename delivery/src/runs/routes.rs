//! Routes of people for runs.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    delivery::{CancelMode, CreateRun, Run, RunKind},
    resources::List,
};
use fairlead_registry::{allow_in, listed};
use fairlead_rollout::StopReason;
use fairlead_routes::{
    ApiRoutes, Query, QueryParameter, RouteSpec, next_page,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::View;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::json;
use tracing::info;

use super::{
    Runs,
    commands::Command,
    diff, no_such_run,
    read::{RunQuery, parameters},
    record::StoredRun,
    refusal::has_ended,
    stream,
};
use crate::rights::{DELIVER, READ_LOGS, TAG};

/// Routes of people, without those for comparisons.
pub(crate) fn routes() -> ApiRoutes<Arc<Runs>> {
    const ALL: &str = "/v1/runs";
    const ONE: &str = "/v1/runs/{runId}";
    let run_id = || json!({ "type": "string", "pattern": "^run-[0-7][0-9A-HJKMNP-TV-Z]{25}$" });
    let example = json!({ "cluster": "c-of-a", "bundle": "b-a", "kind": "sync" });
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listRuns", "List the visible runs, newest first")
                .query(parameters())
                .gives_list::<Run>(200, "Runs"),
            list,
        )
        .route(
            RouteSpec::post(
                TAG,
                ALL,
                "createRun",
                "Create a run, as a command to an agent",
            )
            .needs(&[DELIVER])
            .takes::<CreateRun>()
            .example(example)
            .gives::<Run>(201),
            create,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getRun", "Get a run")
                .path_parameter("runId", run_id())
                .gives::<Run>(200),
            show,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/runs/{runId}/cancel",
                "cancelRun",
                "Cancel a run after its step, or at once",
            )
            .needs(&[DELIVER])
            .path_parameter("runId", run_id())
            .query([QueryParameter::flag(
                "hard",
                "true: end its programs at once",
            )])
            .gives::<Run>(200),
            cancel,
        )
        .route(
            RouteSpec::get(TAG, "/v1/runs/{runId}/log", "getRunLog", stream::SUMMARY)
                .needs(&[READ_LOGS])
                .path_parameter("runId", run_id())
                .gives_text(200, "text/plain")
                .fails(416, "The log is shorter than the requested range"),
            stream::log,
        )
        .merge(deployment_routes())
        .merge(diff::routes())
}

fn deployment_routes() -> ApiRoutes<Arc<Runs>> {
    ApiRoutes::new()
        .route(
            RouteSpec::post(
                TAG,
                "/v1/clusters/{clusterId}/deployments/{bundleId}/sync",
                "syncDeployment",
                "Apply a bundle in a cluster again",
            )
            .needs(&[DELIVER])
            .gives::<Run>(201),
            sync,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/clusters/{clusterId}/deployments/{bundleId}/confirm",
                "confirmDeployment",
                "Confirm the blocked step of a bundle in a cluster",
            )
            .needs(&[DELIVER])
            .gives::<Run>(201),
            confirm,
        )
}

async fn list(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = RunQuery::of(&uri)?;
    let view = runs.parts.store.view();
    let (items, next) = runs.page((&view, &caller), query).await?;
    let link = next.map(|next| next_page(&uri, next.as_str()));
    let link = link.transpose()?.unwrap_or_default();
    Ok(listed(&headers, &view, &List { items }, link)?)
}

/// The visible run, or the failure of a missing one.
pub(super) async fn find(runs: &Runs, by: (&View, &Caller), id: &str) -> Answer<StoredRun> {
    let found = runs.visible(by, id).await?;
    Ok(found.ok_or_else(|| no_such_run(id))?)
}

async fn show(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<Run>> {
    let view = runs.parts.store.view();
    let run = find(&runs, (&view, &caller), &id).await?;
    let mut shown = runs.shown(&run).await?;
    // Differences have values of objects, as logs do.
    let cluster = view.cluster(&run.cluster);
    if cluster.is_some_and(|it| allow_in(&view, &caller, &it.value, READ_LOGS).is_ok()) {
        shown.diff = runs.diff_of(&run).await?;
    }
    Ok(Json(shown))
}

fn created(run: Run) -> Response {
    let location = HeaderValue::try_from(format!("/v1/runs/{}", run.id));
    let location = location.ok().map(|it| (header::LOCATION, it));
    let headers = HeaderMap::from_iter(location);
    (StatusCode::CREATED, headers, Json(run)).into_response()
}

async fn create(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    JsonBody(sent): JsonBody<CreateRun>,
) -> Answer<Response> {
    let command = Command {
        cluster: sent.cluster.as_str(),
        bundle: sent.bundle.as_str(),
        kind: sent.kind,
        confirm: false,
    };
    Ok(created(runs.command(&caller, command).await?))
}

async fn sync(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path((cluster, bundle)): Path<(String, String)>,
) -> Answer<Response> {
    sync_or_confirm(&runs, &caller, (&cluster, &bundle), false).await
}

async fn confirm(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path((cluster, bundle)): Path<(String, String)>,
) -> Answer<Response> {
    sync_or_confirm(&runs, &caller, (&cluster, &bundle), true).await
}

async fn sync_or_confirm(
    runs: &Runs,
    caller: &Caller,
    (cluster, bundle): (&str, &str),
    confirm: bool,
) -> Answer<Response> {
    let command = Command {
        cluster,
        bundle,
        kind: RunKind::Sync,
        confirm,
    };
    Ok(created(runs.command(caller, command).await?))
}

async fn cancel(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Json<Run>> {
    let hard = Query::of(&uri)?.boolean("hard")?;
    let mode = if hard {
        CancelMode::Hard
    } else {
        CancelMode::Soft
    };
    let view = runs.parts.store.view();
    let run = find(&runs, (&view, &caller), &id).await?;
    let cluster = view.cluster(&run.cluster);
    let cluster = cluster.ok_or_else(|| no_such_run(&id))?;
    let caller = allow_in(&view, &caller, &cluster.value, DELIVER)?;
    match runs.cancel(&run, mode).await? {
        Ok(run) => {
            info!(run = %run.id(), ?mode, caller = caller.name, "run cancelled");
            Ok(Json(runs.shown(&run).await?))
        }
        Err(StopReason::Ended(state)) => Err(has_ended(run.id(), state).into()),
        Err(_) => Err(no_such_run(&id).into()),
    }
}
