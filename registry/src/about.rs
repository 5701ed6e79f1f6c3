//! The hub's description, the caller's identity, and details of a cluster beside its document.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use fairlead_api::{
    impersonation,
    resources::{AgentSession, List, MoveCluster, WhoAmI},
};
use fairlead_certs::Registration;
use fairlead_store::{
    Draft,
    model::{Binding, Bootstrap},
    whole_millis,
};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    clusters::{invited, move_to, moved},
    error::{InvalidValue, RegistryError},
    etag::{self, Precondition},
    registry::{Registry, by},
    reply::{Answer, Authenticated, JsonBody, Path},
    rights::{Right, allow, visible},
    template::{Effective, template_of},
};

/// Version of Lieutenant's API that this hub implements.
const API_VERSION: &str = "v0.5.0";

/// Routes for people.
pub(super) fn routes() -> Router<Arc<Registry>> {
    Router::new()
        .route("/v1/whoami", get(who_am_i))
        .route("/v1/clusters/{id}/status", get(status))
        .route("/v1/clusters/{id}/sessions", get(sessions))
        .route("/v1/clusters/{id}/effective", get(effective))
        .route("/v1/clusters/{id}/tenant", post(to_tenant))
}

/// Public routes.
pub(super) fn open() -> Router<Arc<Registry>> {
    Router::new()
        .route("/", get(root))
        .route("/healthz", get(async || "ok"))
}

/// Response to `GET /`, as by Lieutenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    api_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    oidc: Option<OidcIssuer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    vault: Option<VaultServer>,
}

/// Issuer of tokens for people.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OidcIssuer {
    discovery_url: String,
    client_id: String,
}

/// Vault for a compiler such as Commodore.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct VaultServer {
    addr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    login_method: Option<String>,
}

async fn root(State(registry): State<Arc<Registry>>) -> Json<Metadata> {
    let settings = &registry.settings.discovery;
    let oidc = settings.oidc.clone().map(|(url, client)| OidcIssuer {
        discovery_url: url,
        client_id: client,
    });
    let vault = settings.vault.clone().map(|(addr, method)| VaultServer {
        addr,
        login_method: method,
    });
    Json(Metadata {
        api_version: API_VERSION.to_owned(),
        oidc,
        vault,
    })
}

async fn who_am_i(Authenticated(caller): Authenticated) -> Json<WhoAmI> {
    let group = caller.role.in_clusters();
    Json(WhoAmI {
        user: group.map(|_| impersonation::user(&caller.name)),
        group: group.map(impersonation::group),
        name: caller.name,
        token: caller.token,
        role: caller.role,
        tenant: caller.tenant,
        cluster: caller.cluster,
    })
}

async fn status(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let record = visible(&registry.store.view(), &caller, &id)?;
    let observed = registry.store.observed_of(&record);
    Ok(etag::answer(
        &headers,
        StatusCode::OK,
        None,
        &observed.status,
    )?)
}

async fn sessions(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<List<AgentSession>>> {
    let record = visible(&registry.store.view(), &caller, &id)?;
    let presence = registry.presence.get();
    let items = presence.map(|it| it.sessions(&record.value.id));
    Ok(Json(List {
        items: items.unwrap_or_default(),
    }))
}

async fn effective(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = registry.store.view();
    let record = visible(&view, &caller, &id)?;
    let template = template_of(&view, &record.value.tenant);
    let effective = Effective::of(&record.value, template).explained();
    let version = Some(record.version);
    Ok(etag::answer(&headers, StatusCode::OK, version, &effective)?)
}

/// Returns the invitation with which the cluster's agent gets its new identity.
async fn to_tenant(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<MoveCluster>,
) -> Answer<Response> {
    let precondition = Precondition::of(&headers);
    visible(&registry.store.view(), &caller, &id)?;
    allow(&caller, Right::MANAGE_TENANTS)?;
    let now = whole_millis(registry.now());
    let bootstrap = Bootstrap::new(1, registry.bootstrap_expiry(now), Some(caller.name.clone()));
    let fresh = Binding::open(Registration::random()?, bootstrap);
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let record = visible(draft, &who, &id)?;
        precondition.check(Some(record.version))?;
        let mut cluster = record.value.clone();
        if cluster.tenant == asked.tenant {
            let taken = InvalidValue::because("it is that tenant's already");
            return Err(RegistryError::from(taken));
        }
        move_to(
            draft,
            &who,
            &mut cluster,
            asked.tenant.clone(),
            fresh.clone(),
        )?;
        draft.put_cluster(cluster.clone())?;
        Ok(cluster)
    };
    let cluster = registry.store.change(by(&caller), decide).await?.value;
    moved(&registry, &caller, &cluster);
    Ok(invited(&registry, &cluster)?.into_response())
}
