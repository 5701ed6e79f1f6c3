//! Purge of a cluster before its deletion: the agent removes all delivered objects. The order is stored, so that it
//! outlives a restart of hub and agent.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{ClusterId, Code, Failure, delivery::Deployment, resources::List};
use fairlead_registry::{RegistryError, allow_in, by, sees_cluster, tagged, unprotected, visible};
use fairlead_routes::{
    ApiRoutes, RouteSpec,
    reply::{Answer, Authenticated, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, model::PurgeOrder, whole_millis};
use http::{HeaderMap, StatusCode};
use tracing::info;

use crate::{
    parts::DeliveryParts,
    rights::{DELIVER, TAG},
};

const PATH: &str = "/v1/clusters/{clusterId}/purge";

pub(crate) fn routes() -> ApiRoutes<DeliveryParts> {
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                PATH,
                "getPurge",
                "List the deployments of a cluster that a purge removes",
            )
            .gives_list::<Deployment>(200, "Deployments with objects in the cluster"),
            show,
        )
        .route(
            RouteSpec::post(
                TAG,
                PATH,
                "startPurge",
                "Let the agent remove all delivered objects of a cluster",
            )
            .needs(&[DELIVER])
            .fails(409, "No agent of the cluster is connected")
            .gives_list::<Deployment>(202, "Deployments with objects in the cluster"),
            start,
        )
        .route(
            RouteSpec::delete(
                TAG,
                PATH,
                "cancelPurge",
                "End a purge; the bundles are delivered again",
            )
            .needs(&[DELIVER])
            .gives_nothing(204),
            cancel,
        )
}

async fn show(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = visible(&parts.store.view(), &caller, &id)?.value.id.clone();
    let items = purgeable(&parts, &cluster).await?;
    Ok(tagged(&headers, StatusCode::OK, None, &List { items })?)
}

async fn start(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let (caller, cluster) = may_order(&parts, &caller, &id)?;
    check_agent(&parts, &cluster).await?;
    let order = PurgeOrder {
        at: whole_millis(parts.clock.now()),
        by: caller.name.clone(),
    };
    set_order(&parts, &caller, &cluster, Some(order)).await?;
    info!(%cluster, caller = caller.name, "purge of cluster started");
    let items = purgeable(&parts, &cluster).await?;
    let headers = HeaderMap::new();
    Ok(tagged(
        &headers,
        StatusCode::ACCEPTED,
        None,
        &List { items },
    )?)
}

async fn cancel(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let (caller, cluster) = may_order(&parts, &caller, &id)?;
    set_order(&parts, &caller, &cluster, None).await?;
    info!(%cluster, caller = caller.name, "purge of cluster cancelled");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The cluster, and the caller with the one role that may order its purge.
fn may_order(parts: &DeliveryParts, caller: &Caller, id: &str) -> Answer<(Caller, ClusterId)> {
    let view = parts.store.view();
    let known = visible(&view, caller, id)?;
    let caller = allow_in(&view, caller, &known.value, DELIVER)?;
    Ok((caller, known.value.id.clone()))
}

async fn purgeable(parts: &DeliveryParts, cluster: &ClusterId) -> Answer<Vec<Deployment>> {
    Ok(parts.fleet.read(|it| it.purgeable(cluster)).await?)
}

/// Refuses an order that nobody would carry out, so that no purge is half done.
async fn check_agent(parts: &DeliveryParts, cluster: &ClusterId) -> Answer<()> {
    let read = parts.fleet.read(|it| {
        let count = it.purgeable(cluster).len();
        (it.awaits_confirmation(), it.is_connected(cluster), count)
    });
    match read.await? {
        (true, _, _) => Err(Failure::new(Code::ReleasesStopped).into()),
        (false, false, count) if count > 0 => {
            let cause = format!(
                "no agent of {cluster} is connected, and {count} deployments have objects in it"
            );
            Err(Failure::with_cause(Code::PurgeNeedsAgent, cause).into())
        }
        _ => Ok(()),
    }
}

/// Writes the order, unless there is one already, or its end.
async fn set_order(
    parts: &DeliveryParts,
    caller: &Caller,
    cluster: &ClusterId,
    order: Option<PurgeOrder>,
) -> Answer<()> {
    let (principal, id) = (caller.clone(), cluster.clone());
    let decide = move |draft: &mut Draft| {
        let record = draft.cluster(&id).ok_or(RegistryError::NoSuchCluster)?;
        if !sees_cluster(draft, &principal, &record.value) {
            return Err(RegistryError::NoSuchCluster);
        }
        let mut changed = record.value.clone();
        if order.is_some() {
            unprotected(draft, &changed)?;
        }
        changed.purge = order.clone().map(|order| changed.purge.unwrap_or(order));
        if changed.purge != record.value.purge {
            draft.put_cluster(changed)?;
        }
        Ok::<_, RegistryError>(())
    };
    parts.store.change(by(caller), decide).await?;
    parts.fleet.pass().await?;
    Ok(())
}
