//! `/v1/clusters/{id}/bootstrap-token`: show, renew or revoke the invitation of an agent; and a
//! list of all with their state and creator.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    Code, Failure,
    resources::{BootstrapState, BootstrapToken, JoinInfo, List},
};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, Path},
};
use fairlead_store::{
    Draft,
    model::{Bootstrap, Cluster},
    whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use time::OffsetDateTime;
use tracing::info;

use crate::{
    clusters::invited,
    error::RegistryError,
    etag,
    listing::Listing,
    registry::{Registry, by},
    rights::{allow_in, allow_somewhere, visible},
};

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const TAG: Tag = Tag::BOOTSTRAPPING;
    const ONE: &str = "/v1/clusters/{clusterId}/bootstrap-token";
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                "/v1/bootstrap-tokens",
                "listBootstrapTokens",
                "List bootstrap tokens with state and author",
            )
            .needs(&[Right::INVITE])
            .query(Listing::parameters())
            .gives_list::<BootstrapToken>(200, "BootstrapTokens"),
            list,
        )
        .route(
            RouteSpec::get(
                TAG,
                ONE,
                "getBootstrapToken",
                "Get the valid bootstrap token",
            )
            .needs(&[Right::INVITE])
            .gives::<JoinInfo>(200),
            show,
        )
        .route(
            RouteSpec::post(
                TAG,
                ONE,
                "renewBootstrapToken",
                "Create a bootstrap token; it replaces the previous one",
            )
            .needs(&[Right::INVITE])
            .gives::<JoinInfo>(201),
            renew,
        )
        .route(
            RouteSpec::delete(
                TAG,
                ONE,
                "revokeBootstrapToken",
                "Revoke the bootstrap token",
            )
            .needs(&[Right::INVITE])
            .gives_nothing(204),
            revoke,
        )
}

fn state(bootstrap: &Bootstrap, now: OffsetDateTime) -> BootstrapState {
    if bootstrap.revoked {
        BootstrapState::Revoked
    } else if bootstrap.spent_by.is_some() {
        BootstrapState::Used
    } else if now >= bootstrap.expires {
        BootstrapState::Expired
    } else {
        BootstrapState::Valid
    }
}

fn about(cluster: &Cluster, now: OffsetDateTime) -> BootstrapToken {
    let bootstrap = &cluster.binding.bootstrap;
    BootstrapToken {
        cluster: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        generation: bootstrap.generation,
        state: state(bootstrap, now),
        expires: bootstrap.expires,
        created_by: bootstrap.created_by.clone(),
    }
}

async fn list(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let asked = Listing::of(&uri)?;
    let caller = allow_somewhere(&caller, Right::INVITE)?;
    let view = registry.store.view();
    let (found, link) = asked.clusters(&view, &caller);
    let now = registry.now();
    let items = found.into_iter().map(|it| about(&it.value, now)).collect();
    Ok(etag::listed(&headers, &view, &List { items }, link)?)
}

/// The current token, while it can still be spent.
async fn show(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let view = registry.store.view();
    let cluster = visible(&view, &caller, &id)?;
    allow_in(&view, &caller, &cluster.value, Right::INVITE)?;
    let bootstrap = &cluster.value.binding.bootstrap;
    let why = match state(bootstrap, registry.now()) {
        BootstrapState::Valid => return invited(&registry, &cluster.value),
        BootstrapState::Used => "has been used",
        BootstrapState::Revoked => "was revoked",
        BootstrapState::Expired => "has expired",
    };
    let id = &cluster.value.id;
    let cause = format!("the bootstrap token of {id} {why}");
    let next = format!("Make a new one with `fairlead cluster token renew {id}`.");
    Err(Failure::with_cause(Code::NotFound, cause).next(next).into())
}

async fn renew(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let view = registry.store.view();
    let current = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &current.value, Right::INVITE)?;
    let current = current.value.binding.bootstrap.generation;
    let expires = registry.bootstrap_expiry(whole_millis(registry.now()));
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let mut cluster = visible(draft, &who, &id)?.value.clone();
        if cluster.binding.bootstrap.generation != current {
            return Err(RegistryError::Conflict);
        }
        let next = current.saturating_add(1);
        let by = Some(who.name.clone());
        cluster.binding.bootstrap = Bootstrap::new(next, expires, by);
        draft.put_cluster(cluster.clone())?;
        Ok(cluster)
    };
    let cluster = registry.store.change(by(&caller), decide).await?.value;
    let generation = cluster.binding.bootstrap.generation;
    info!(cluster = %cluster.id, caller = caller.name, generation, "bootstrap token renewed");
    let mut answer = invited(&registry, &cluster)?;
    *answer.status_mut() = StatusCode::CREATED;
    Ok(answer)
}

/// Does not affect an agent that has already enrolled.
async fn revoke(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Response> {
    let view = registry.store.view();
    let current = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &current.value, Right::INVITE)?;
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let mut cluster = visible(draft, &who, &id)?.value.clone();
        cluster.binding.bootstrap.revoked = true;
        let id = cluster.id.clone();
        draft.put_cluster(cluster)?;
        Ok::<_, RegistryError>(id)
    };
    let id = registry.store.change(by(&caller), decide).await?.value;
    info!(cluster = %id, caller = caller.name, "bootstrap token revoked");
    Ok(StatusCode::NO_CONTENT.into_response())
}
