//! Routes of agents: claims, signs of life, logs and results, each for runs of the agent's own cluster.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{post, put},
};
use fairlead_api::{
    ClusterId, Code, Failure, RunId,
    delivery::{
        ATTEMPT_HEADER, AgentRun, AgentRunReceipt, CLAIM_PATH, LOG_OFFSET_HEADER,
        MAX_LOG_PIECE_BYTES, MAX_OUTCOME_BYTES, RunHeartbeat, RunLeaseStatus, RunOrigin,
        RunOutcome,
    },
};
use fairlead_registry::admit;
use fairlead_routes::{
    invalid,
    reply::{Answer, JsonBody, Path, Peer, RawBody, finish},
};
use fairlead_seam::{AgentPeer, refuse};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tracing::info;

use super::{Runs, refusal::PieceRefusal};

/// Routes of agents, with their full paths.
pub(crate) fn agent_routes(runs: &Arc<Runs>) -> Router {
    let router = Router::new()
        .route(CLAIM_PATH, post(claim))
        .route("/agent/v1/runs/{runId}", put(register))
        .route("/agent/v1/runs/{runId}/heartbeat", post(heartbeat))
        .route("/agent/v1/runs/{runId}/log", put(append))
        .route("/agent/v1/runs/{runId}/result", put(result));
    finish(router.with_state(Arc::clone(runs)))
}

/// Cluster of the calling agent.
fn cluster_of(runs: &Runs, peer: &AgentPeer) -> Answer<ClusterId> {
    let AgentPeer::Agent(identity) = peer else {
        return Err(Code::EnrolOnly.into());
    };
    let cluster = admit(&runs.parts.store, identity)?;
    Ok(cluster.value.id.clone())
}

fn run_of(id: &str) -> Answer<RunId> {
    let id = id.parse();
    Ok(id.map_err(|error| invalid(format_args!("runId: {error}")))?)
}

async fn claim(State(runs): State<Arc<Runs>>, Peer(peer): Peer) -> Answer<Response> {
    let cluster = cluster_of(&runs, &peer)?;
    match runs.claim(&cluster).await? {
        Some(claimed) => {
            let (run, attempt) = (&claimed.run, claimed.attempt);
            info!(%cluster, %run, attempt, bundle = %claimed.bundle, "command claimed");
            Ok(Json(claimed).into_response())
        }
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

async fn register(
    State(runs): State<Arc<Runs>>,
    Peer(peer): Peer,
    Path(id): Path<String>,
    JsonBody(sent): JsonBody<AgentRun>,
) -> Answer<Json<AgentRunReceipt>> {
    let cluster = cluster_of(&runs, &peer)?;
    let id = run_of(&id)?;
    if sent.origin == RunOrigin::Command {
        return Err(invalid("origin: the hub makes commands").into());
    }
    if sent.attempt == 0 {
        return Err(invalid("attempt: the first one is 1").into());
    }
    let view = runs.parts.store.view();
    if view.bundle(&sent.bundle).is_none() && runs.parts.runs.get(&id).await?.is_none() {
        let cause = format!("the hub has no bundle {}", sent.bundle);
        return Err(Failure::with_cause(Code::RunGone, cause).into());
    }
    Ok(Json(runs.register(&cluster, &id, &sent).await?))
}

async fn heartbeat(
    State(runs): State<Arc<Runs>>,
    Peer(peer): Peer,
    Path(id): Path<String>,
    JsonBody(sent): JsonBody<RunHeartbeat>,
) -> Answer<Json<RunLeaseStatus>> {
    let cluster = cluster_of(&runs, &peer)?;
    Ok(Json(runs.heartbeat(&cluster, &run_of(&id)?, &sent).await?))
}

/// 200 with the length of the log, 416 with the offset to send from.
async fn append(
    State(runs): State<Arc<Runs>>,
    Peer(peer): Peer,
    Path(id): Path<String>,
    headers: HeaderMap,
    RawBody(piece): RawBody<MAX_LOG_PIECE_BYTES>,
) -> Answer<Response> {
    let cluster = cluster_of(&runs, &peer)?;
    let id = run_of(&id)?;
    let attempt = headers.get(ATTEMPT_HEADER).and_then(|it| it.to_str().ok());
    let attempt = attempt.and_then(|it| it.parse().ok());
    let attempt = attempt.ok_or_else(|| {
        invalid(format_args!(
            "{ATTEMPT_HEADER}: expected the number of the attempt"
        ))
    })?;
    let at = offset_of(&headers, piece.len())?;
    match runs.append(&cluster, &id, (attempt, at, &piece)).await {
        Ok(length) => Ok((StatusCode::OK, log_offset(length)).into_response()),
        Err(PieceRefusal::Gap { wanted }) => {
            let cause = format!("{id}: expected bytes from offset {wanted}, not {at}");
            let mut answer = refuse(Failure::with_cause(Code::LogGap, cause));
            answer.headers_mut().extend(log_offset(wanted));
            Ok(answer)
        }
        Err(PieceRefusal::Other(refusal)) => Err(refusal.into()),
    }
}

fn log_offset(offset: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(LOG_OFFSET_HEADER, HeaderValue::from(offset));
    headers
}

/// Offset of a piece: `bytes FIRST-LAST/*` (RFC 9110, section 14.4).
fn offset_of(headers: &HeaderMap, length: usize) -> Answer<u64> {
    let text = headers.get(header::CONTENT_RANGE);
    let text = text.and_then(|it| it.to_str().ok());
    let parsed = text.and_then(|it| parse_range(it, length));
    let error =
        || invalid("Content-Range: expected `bytes FIRST-LAST/*` with the length of the body");
    Ok(parsed.ok_or_else(error)?)
}

fn parse_range(text: &str, length: usize) -> Option<u64> {
    let (range, _) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let length = u64::try_from(length).ok()?;
    (length > 0 && last.checked_sub(first)?.checked_add(1)? == length).then_some(first)
}

async fn result(
    State(runs): State<Arc<Runs>>,
    Peer(peer): Peer,
    Path(id): Path<String>,
    JsonBody(sent): JsonBody<RunOutcome, MAX_OUTCOME_BYTES>,
) -> Answer<StatusCode> {
    let cluster = cluster_of(&runs, &peer)?;
    let id = run_of(&id)?;
    let receipt = runs.finish(&cluster, &id, &sent).await?;
    let (attempt, outcome) = (sent.attempt, sent.outcome);
    info!(%cluster, run = %id, attempt, ?outcome, ?receipt, "result of a run");
    Ok(StatusCode::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_must_have_the_length_of_its_body() {
        assert_eq!(parse_range("bytes 5-9/*", 5), Some(5));
        assert_eq!(parse_range("bytes 0-0/1", 1), Some(0));
        for (text, length) in [
            ("bytes 5-9/*", 4),
            ("bytes 9-5/*", 5),
            ("bytes 5-9", 5),
            ("bytes */9", 0),
            ("lines 5-9/*", 5),
            ("bytes 0-18446744073709551615/*", 5),
            ("bytes -1-3/*", 5),
        ] {
            assert_eq!(parse_range(text, length), None, "{text}");
        }
    }
}
