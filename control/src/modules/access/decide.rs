//! Decisions on requests: approval, denial, revocation, and the review of emergencies.

use std::sync::Arc;

use axum::{Json, extract::State};
use fairlead_api::resources::{AccessComment, AccessRequest, AccessState};
use fairlead_registry::{RegistryError, allow, by, holder_of};
use fairlead_routes::{
    ApiRoutes, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft,
    model::{AccessAct, AccessGrant},
};
use serde_json::json;
use time::OffsetDateTime;
use tracing::info;

use super::{
    parts::{AccessParts, DECIDE, comment_of, find, id_schema, may_decide},
    second_person::is_same_person,
    shown,
};

/// Act on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Approve,
    Deny,
    Revoke,
    Review,
}

pub(super) fn routes() -> ApiRoutes<Arc<AccessParts>> {
    let spec = |path, id, summary| {
        RouteSpec::post(Tag::TOKEN, path, id, summary)
            .path_parameter("accessRequestId", id_schema())
            .takes::<AccessComment>()
            .example(json!({ "comment": "seen in ticket 17" }))
            .gives::<AccessRequest>(200)
    };
    ApiRoutes::new()
        .route(
            spec(
                "/v1/access-requests/{accessRequestId}/approve",
                "approveAccessRequest",
                "Approve a request of another person; the role counts at once",
            )
            .needs(&[DECIDE]),
            async |state, caller, id, body| act(Act::Approve, state, caller, id, body).await,
        )
        .route(
            spec(
                "/v1/access-requests/{accessRequestId}/deny",
                "denyAccessRequest",
                "Deny a request",
            )
            .needs(&[DECIDE]),
            async |state, caller, id, body| act(Act::Deny, state, caller, id, body).await,
        )
        .route(
            spec(
                "/v1/access-requests/{accessRequestId}/revoke",
                "revokeAccessRequest",
                "End a role ahead of time, or withdraw the own request; running requests end within seconds",
            ),
            async |state, caller, id, body| act(Act::Revoke, state, caller, id, body).await,
        )
        .route(
            spec(
                "/v1/access-requests/{accessRequestId}/review",
                "reviewAccessRequest",
                "Confirm the review of a role that another person took in an emergency",
            )
            .needs(&[DECIDE]),
            async |state, caller, id, body| act(Act::Review, state, caller, id, body).await,
        )
}

async fn act(
    act: Act,
    State(parts): State<Arc<AccessParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    JsonBody(given): JsonBody<AccessComment>,
) -> Answer<Json<AccessRequest>> {
    let now = parts.now();
    let done = AccessAct {
        by: caller.name.clone(),
        at: now,
        comment: comment_of(given)?,
    };
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let mut access = find(draft, &who, &id)?;
        check(draft, &who, &access, act, now)?;
        let place = match act {
            Act::Approve => &mut access.approved,
            Act::Deny => &mut access.denied,
            Act::Revoke => &mut access.revoked,
            Act::Review => &mut access.reviewed,
        };
        *place = Some(done.clone());
        draft.put_access(access.clone());
        Ok::<_, RegistryError>(access)
    };
    let access = parts.store.change(by(&caller), decide).await?.value;
    info!(access = access.id, caller = caller.name, holder = access.holder.name, cluster = %access.cluster, ?act, "access decided");
    Ok(Json(shown::shown(&access, now)))
}

/// Checks right, person and state.
fn check(
    draft: &Draft,
    caller: &Caller,
    access: &AccessGrant,
    act: Act,
    now: OffsetDateTime,
) -> Result<(), RegistryError> {
    let is_own = access.holder.key() == holder_of(caller).key();
    let may_act = act == Act::Revoke && is_own || may_decide(draft, caller, access);
    if !may_act {
        allow(&caller.with_own_role(), DECIDE)?;
        // The request is the caller's own, in a tenant of others.
        return Err(RegistryError::SecondPerson);
    }
    let needs_another = matches!(act, Act::Approve | Act::Review);
    if needs_another && is_same_person(draft, caller, &access.holder) {
        return Err(RegistryError::SecondPerson);
    }
    let state = access.state(now);
    let fits = match act {
        Act::Approve | Act::Deny => state == AccessState::Pending,
        Act::Revoke => matches!(state, AccessState::Pending | AccessState::Active),
        Act::Review => access.is_emergency && access.reviewed.is_none(),
    };
    if fits {
        return Ok(());
    }
    let id = &access.id;
    let cause = match (act, access.is_emergency) {
        (Act::Review, true) => format!("{id} was reviewed already"),
        (Act::Review, false) => format!("{id} was no emergency, and needs no review"),
        _ => format!("{id} is {state} already"),
    };
    Err(RegistryError::Decided(cause))
}
