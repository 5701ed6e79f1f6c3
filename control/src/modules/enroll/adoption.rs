//! Adoption by code: an agent without a join string announces its key, and a person approves it by a short code.
//!
//! The approval spends the cluster's bootstrap token for the announced key, so the agent enrols as all others do, and
//! nobody else can use that token. Until then the agent gets nothing but its own state. The store holds no code: it is
//! derived from the hub's bootstrap key.

mod announce;
mod decide;
mod limits;
mod manifest;

use std::{sync::Arc, time::Duration};

use axum::{Json, extract::State};
use fairlead_api::{
    adoption::AdoptionCode,
    resources::{Adoption, AdoptionByCode, AdoptionState, ApproveAdoption, List, Role},
};
use fairlead_registry::allow;
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated},
};
use fairlead_store::{View, model::PendingAdoption};
use serde_json::json;
use time::OffsetDateTime;

use super::Enroll;

pub(super) use announce::adopt;
pub(crate) use limits::AdoptionLimits;

/// Agents that wait or were decided on, at most: each is a row of the store until its code ends.
const MAX_ADOPTIONS: usize = 64;
/// Those of one address (for IPv6: a /64), at most. Several sites may share the address of one NAT.
const MAX_PER_NETWORK: usize = 16;
/// Interval of an agent's requests, in seconds.
const POLL_SECONDS: u32 = 5;
/// Pending agents belong to no tenant yet.
const LIST_ADOPTIONS: Right = Right::new(
    "listing agents that wait for their adoption",
    &[Role::Admin],
)
.on_all_tenants();

/// Settings of adoption.
#[derive(Debug, Clone)]
pub struct AdoptionSettings {
    /// Lifetime of a code.
    pub ttl: Duration,
}

/// Default of [`AdoptionSettings::ttl`].
pub const ADOPTION_TTL: Duration = Duration::from_secs(3600);

pub(super) fn routes() -> ApiRoutes<Arc<Enroll>> {
    const TAG: Tag = Tag::BOOTSTRAPPING;
    let code = || json!({ "code": "7KQX-M2VP" });
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                "/v1/adoptions",
                "listAdoptions",
                "List agents that wait for their adoption, without their codes",
            )
            .needs(&[LIST_ADOPTIONS])
            .gives_list::<Adoption>(200, "Adoptions"),
            list,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/adoptions/find",
                "findAdoption",
                "Find a waiting agent by its code",
            )
            .needs(&[Right::WRITE_CLUSTER])
            .takes::<AdoptionByCode>()
            .example(code())
            .gives::<Adoption>(200),
            decide::find,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/adoptions/approve",
                "approveAdoption",
                "Approve a waiting agent as the agent of a cluster",
            )
            .needs(&[Right::WRITE_CLUSTER])
            .takes::<ApproveAdoption>()
            .example(json!({ "code": "7KQX-M2VP", "cluster": "c-of-a" }))
            .gives::<Adoption>(200),
            decide::approve,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/adoptions/refuse",
                "refuseAdoption",
                "Refuse a waiting agent",
            )
            .needs(&[Right::WRITE_CLUSTER])
            .takes::<AdoptionByCode>()
            .example(code())
            .gives::<Adoption>(200),
            decide::refuse,
        )
        .route(manifest::spec(), manifest::get)
}

async fn list(
    State(enroll): State<Arc<Enroll>>,
    Authenticated(caller): Authenticated,
) -> Answer<Json<List<Adoption>>> {
    allow(&caller, LIST_ADOPTIONS)?;
    let (view, now) = (enroll.store.view(), enroll.now());
    let items = view.adoptions().map(|it| shown(&it.value, now));
    Ok(Json(List {
        items: items.collect(),
    }))
}

/// The waiting agent with this code. All codes are compared, each in constant time.
fn pending(
    enroll: &Enroll,
    view: &View,
    code: AdoptionCode,
    now: OffsetDateTime,
) -> Option<PendingAdoption> {
    let waiting = view.adoptions().map(|it| &it.value);
    let waiting = waiting.filter(|it| it.state(now) == AdoptionState::Pending);
    let mut found = None;
    for adoption in waiting {
        let own = enroll.bootstrap.adoption_code(&adoption.id, &adoption.key);
        if aws_lc_rs::constant_time::verify_slices_are_equal(own.as_bytes(), code.as_bytes())
            .is_ok()
        {
            found = Some(adoption.clone());
        }
    }
    found
}

fn shown(adoption: &PendingAdoption, now: OffsetDateTime) -> Adoption {
    Adoption {
        id: adoption.id.clone(),
        state: adoption.state(now),
        key_fingerprint: adoption.key.clone(),
        address: adoption.address.to_string(),
        cluster_uid: adoption.cluster_uid.as_ref().map(ToString::to_string),
        kubernetes_version: adoption.kubernetes_version.clone(),
        agent_version: adoption.agent_version.clone(),
        created: adoption.created,
        expires: adoption.expires,
        cluster: adoption.cluster.clone(),
        decided_by: adoption.decided_by.clone(),
    }
}
