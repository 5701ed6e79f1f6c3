//! Routes of agents: desired state, specs, artifacts and reports, each of the agent's own cluster. Those of others look absent.

use std::{ops::Range, sync::Arc};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use fairlead_api::{
    ClusterId, Code, Failure,
    delivery::{
        ARTIFACTS_PATH, ArtifactId, DELIVERY_PATH, DeploymentReceipt, DeploymentReports,
        MAX_REPORTS_BYTES, REPORTS_PATH, RunState, SPECS_PATH, SpecId,
    },
};
use fairlead_delivery_store::{ContentStore, RunFilter};
use fairlead_registry::{RegistryError, admit};
use fairlead_routes::reply::{Answer, JsonBody, Path, Peer, finish};
use fairlead_seam::AgentPeer;
use fairlead_store::StoreError;
use futures_util::{Stream, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

use crate::{
    byte_range,
    fleet::{TakenReports, etag_of},
    parts::DeliveryParts,
};

/// Number of artifacts in transfer at once; further requests wait for their turn.
const MAX_TRANSFERS: usize = 64;
/// Size of a piece of an artifact in transfer, in bytes: a part of the store.
const PIECE_BYTES: u64 = 256 * 1024;
/// Limit of live runs of a cluster that may name specs.
const MAX_LIVE_RUNS: u32 = 200;

#[derive(Clone)]
struct AgentState {
    parts: DeliveryParts,
    transfers: Arc<Semaphore>,
}

pub(crate) fn routes(parts: DeliveryParts) -> Router {
    let state = AgentState {
        parts,
        transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)),
    };
    let router = Router::new()
        .route(DELIVERY_PATH, get(desired))
        .route(&format!("{SPECS_PATH}{{id}}"), get(spec))
        .route(&format!("{ARTIFACTS_PATH}{{id}}"), get(artifact))
        .route(REPORTS_PATH, post(report));
    finish(router.with_state(state))
}

/// The cluster of an admitted agent.
fn cluster_of(parts: &DeliveryParts, peer: AgentPeer) -> Answer<ClusterId> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    admit(&parts.store, &identity)?;
    Ok(identity.cluster.clone())
}

fn etag_header(etag: &str) -> Result<HeaderMap, RegistryError> {
    let value = HeaderValue::try_from(format!("\"{etag}\"")).map_err(RegistryError::internal)?;
    Ok(HeaderMap::from_iter([(header::ETAG, value)]))
}

/// `GET /agent/v1/delivery`
async fn desired(
    State(state): State<AgentState>,
    Peer(peer): Peer,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = cluster_of(&state.parts, peer)?;
    let fleet = &state.parts.fleet;
    let mut found = fleet.read(|it| it.desired(&cluster)).await?;
    if found.is_none() {
        // A new cluster: its document may be newer than the fleet.
        fleet.pass().await?;
        found = fleet.read(|it| it.desired(&cluster)).await?;
    }
    let found = found.ok_or(RegistryError::NoSuchCluster)?;
    let etag = etag_of(&found);
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|it| it.to_str().ok());
    if known.is_some_and(|it| it.trim_matches('"') == &*etag) {
        return Ok((StatusCode::NOT_MODIFIED, etag_header(&etag)?).into_response());
    }
    Ok((etag_header(&etag)?, Json(found)).into_response())
}

fn absent(what: &str) -> Failure {
    let cause = format!("the desired state of this cluster names no such {what}");
    Failure::with_cause(Code::NotFound, cause)
}

/// `GET /agent/v1/specs/{id}`
async fn spec(
    State(state): State<AgentState>,
    Peer(peer): Peer,
    Path(id): Path<String>,
) -> Answer<Response> {
    let cluster = cluster_of(&state.parts, peer)?;
    let id: SpecId = id.parse().map_err(|_| absent("spec"))?;
    let found = state.parts.fleet.read(|it| it.spec(&cluster, &id)).await?;
    let json = match found {
        Some(spec) => Bytes::copy_from_slice(&spec.json),
        None => {
            let contents = contents_of_runs(&state.parts, &cluster).await?;
            let is_named = contents.iter().any(|(spec, _)| *spec == id);
            let named = is_named.then_some(&id).ok_or_else(|| absent("spec"))?;
            let stored = stored_spec(&state.parts.contents, named).await?;
            stored.ok_or_else(|| absent("spec"))?
        }
    };
    let kind = HeaderValue::from_static("application/json");
    let headers = [(header::CONTENT_TYPE, kind)];
    Ok((etag_header(id.as_str())?, headers, json).into_response())
}

/// The part of a run that names its content.
#[derive(Deserialize)]
struct RunContent {
    #[serde(default)]
    content: Option<(SpecId, ArtifactId)>,
}

/// Specs and files of the live runs of a cluster, like comparisons with content that is not released.
async fn contents_of_runs(
    parts: &DeliveryParts,
    cluster: &ClusterId,
) -> Result<Vec<(SpecId, ArtifactId)>, StoreError> {
    let filter = RunFilter {
        cluster: Some(cluster.clone()),
        states: vec![RunState::Queued, RunState::Leased, RunState::Running],
        ..RunFilter::default()
    };
    let runs = parts.runs.list(&filter, MAX_LIVE_RUNS).await?;
    let contents = runs.iter().filter_map(|run| {
        let run: RunContent = serde_json::from_str(&run.body).ok()?;
        run.content
    });
    Ok(contents.collect())
}

/// A spec that is stored as content: both are named by the SHA-256 of their bytes.
async fn stored_spec(contents: &ContentStore, id: &SpecId) -> Result<Option<Bytes>, StoreError> {
    match id.as_str().parse::<ArtifactId>() {
        Ok(content) => contents.get(&content).await,
        Err(_) => Ok(None),
    }
}

/// `GET /agent/v1/artifacts/{id}`
async fn artifact(
    State(state): State<AgentState>,
    Peer(peer): Peer,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = cluster_of(&state.parts, peer)?;
    let parts = &state.parts;
    let id: ArtifactId = id.parse().map_err(|_| absent("artifact"))?;
    let mut may_read = parts
        .fleet
        .read(|it| it.names_artifact(&cluster, &id))
        .await?;
    if !may_read {
        let contents = contents_of_runs(parts, &cluster).await?;
        may_read = contents.iter().any(|(_, artifact)| *artifact == id);
    }
    let size = match may_read {
        true => parts.contents.size(&id).await?,
        false => None,
    };
    let size = size.ok_or_else(|| absent("artifact"))?;
    let wanted = byte_range::wanted(&headers, size);
    let (status, sent) = match wanted {
        None => (StatusCode::OK, 0..size),
        Some(Some(part)) => (StatusCode::PARTIAL_CONTENT, part),
        Some(None) => {
            let range = byte_range::content_range(None, size);
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, range).into_response());
        }
    };
    // The session ends a request that waits too long; the agent asks again.
    let permit = Arc::clone(&state.transfers).acquire_owned().await;
    let permit = permit.map_err(RegistryError::internal)?;
    let transfer = Transfer {
        contents: parts.contents.clone(),
        id: id.clone(),
        rest: sent.clone(),
        _permit: permit,
    };
    let mut head = etag_header(id.as_str())?;
    head.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    head.insert(
        header::CONTENT_LENGTH,
        HeaderValue::from(sent.end - sent.start),
    );
    if status == StatusCode::PARTIAL_CONTENT {
        head.extend(byte_range::content_range(Some(&sent), size));
    }
    Ok((status, head, Body::from_stream(pieces(transfer))).into_response())
}

/// An artifact in transfer.
struct Transfer {
    contents: ContentStore,
    id: ArtifactId,
    rest: Range<u64>,
    _permit: OwnedSemaphorePermit,
}

fn pieces(transfer: Transfer) -> impl Stream<Item = Result<Bytes, StoreError>> {
    stream::try_unfold(transfer, async |mut transfer| {
        if transfer.rest.is_empty() {
            return Ok(None);
        }
        // Pieces end where parts of the store end.
        let Range { start, end } = transfer.rest;
        let length = (PIECE_BYTES - start % PIECE_BYTES).min(end - start);
        let range = transfer.contents.range(&transfer.id, start, length);
        let piece = range.await.inspect_err(|error| {
            warn!(artifact = %transfer.id, %error, "artifact not read");
        })?;
        transfer.rest.start += piece.len() as u64;
        if piece.is_empty() {
            return Err(StoreError::Missing);
        }
        Ok(Some((piece, transfer)))
    })
}

/// `POST /agent/v1/deployments`
async fn report(
    State(state): State<AgentState>,
    Peer(peer): Peer,
    JsonBody(reports): JsonBody<DeploymentReports, MAX_REPORTS_BYTES>,
) -> Answer<Json<DeploymentReceipt>> {
    let cluster = cluster_of(&state.parts, peer)?;
    let etag = match state.parts.fleet.report(&cluster, reports).await? {
        TakenReports::Taken(etag) => Some(etag),
        TakenReports::OtherBase => None,
        TakenReports::NoCluster => return Err(RegistryError::NoSuchCluster.into()),
    };
    Ok(Json(DeploymentReceipt { etag }))
}
