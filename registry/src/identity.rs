//! Identity of a cluster's agent, revoked by hand.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{Code, Failure, resources::Role};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, Path},
};
use fairlead_store::Draft;
use http::StatusCode;
use tracing::info;

use crate::{
    error::RegistryError,
    registry::{Registry, by},
    rights::{allow_in, visible},
};

const REVOKE_IDENTITY: Right =
    Right::new("revoking an agent's identity", &[Role::Admin, Role::Tenant]);

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    ApiRoutes::new().route(
        RouteSpec::delete(
            Tag::CLUSTER,
            "/v1/clusters/{clusterId}/identity",
            "revokeIdentity",
            "Revoke the identity of a cluster's agent; its sessions end, and it has to enrol again",
        )
        .needs(&[REVOKE_IDENTITY])
        .gives_nothing(204),
        revoke,
    )
}

/// The store announces the revocation, and the gateways end the sessions.
async fn revoke(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let view = registry.store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, REVOKE_IDENTITY)?;
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let cluster = visible(draft, &who, &id)?;
        let id = cluster.value.id.clone();
        let was_enrolled = cluster.value.binding.agent_key.is_some();
        if was_enrolled {
            draft.amend_cluster(&id, |it| it.binding.agent_key = None)?;
        }
        Ok::<_, RegistryError>((id, was_enrolled))
    };
    let (id, was_enrolled) = registry.store.change(by(&caller), decide).await?.value;
    if !was_enrolled {
        let cause = format!("no agent of {id} is enrolled");
        let next = format!("Install one with `fairlead cluster token renew {id}`.");
        return Err(Failure::with_cause(Code::NotFound, cause).next(next).into());
    }
    info!(cluster = %id, caller = caller.name, "agent identity revoked");
    Ok(StatusCode::NO_CONTENT.into_response())
}
