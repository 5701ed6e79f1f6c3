//! The hub's description, the caller's identity, and details of a cluster beside its document.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    impersonation,
    resources::{
        AgentSessionList, CallerGrant, CallerGrantKind, ClusterStatus, JoinInfo, MoveCluster,
        WhoAmI,
    },
    site::OperatorNamespace,
};
use fairlead_certs::Registration;
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::{GrantKind, ScopedGrant};
use fairlead_store::{
    Draft,
    model::{Binding, Bootstrap},
    whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    clusters::{invited, log_move, move_to},
    error::RegistryError,
    etag::{self, Precondition},
    registry::{Registry, by},
    rights::{allow, visible},
    template::{Effective, ExplainedCluster, template_of},
    untarget::{UntargetGuard, confirm_parameter},
};

/// Version of Lieutenant's API that this hub implements.
const API_VERSION: &str = "v0.5.0";

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const CLUSTER: Tag = Tag::CLUSTER;
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                Tag::SYSTEM,
                "/",
                "discovery",
                "Version of this API and login settings",
            )
            .open()
            .gives::<Metadata>(200),
            root,
        )
        .route(
            RouteSpec::get(Tag::SYSTEM, "/healthz", "healthz", "Liveness of the hub")
                .open()
                .gives_text(200, "text/plain"),
            async || "ok",
        )
        .route(
            RouteSpec::get(
                Tag::SYSTEM,
                "/v1/whoami",
                "whoAmI",
                "Name and role of the caller, on the hub and in clusters",
            )
            .gives::<WhoAmI>(200),
            who_am_i,
        )
        .route(
            RouteSpec::get(
                CLUSTER,
                "/v1/clusters/{clusterId}/status",
                "getClusterStatus",
                "Get the status of a cluster as of the last probe",
            )
            .gives::<ClusterStatus>(200),
            status,
        )
        .route(
            RouteSpec::get(
                CLUSTER,
                "/v1/clusters/{clusterId}/sessions",
                "getClusterSessions",
                "List the sessions of a cluster's agents at all hubs",
            )
            .gives::<AgentSessionList>(200),
            sessions,
        )
        .route(
            RouteSpec::get(
                CLUSTER,
                "/v1/clusters/{clusterId}/effective",
                "getClusterEffective",
                "Get the effective values of a cluster with their sources",
            )
            .gives::<ExplainedCluster>(200),
            effective,
        )
        .route(
            RouteSpec::post(
                CLUSTER,
                "/v1/clusters/{clusterId}/tenant",
                "moveCluster",
                "Move a cluster to another tenant; its agent has to enrol again",
            )
            .needs(&[Right::MANAGE_TENANTS])
            .takes::<MoveCluster>()
            .query([confirm_parameter()])
            .honours_if_match()
            .gives::<JoinInfo>(200),
            to_tenant,
        )
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
    let has_clusters = caller.role.in_clusters().is_some()
        || caller
            .grants
            .iter()
            .any(|it| it.kind != GrantKind::BreakGlass && it.role.in_clusters().is_some());
    let group = caller
        .role
        .in_clusters()
        .filter(|_| caller.namespaces.is_empty());
    Json(WhoAmI {
        user: has_clusters.then(|| impersonation::user(&caller.name)),
        group: group.map(impersonation::group),
        name: caller.name,
        token: caller.token,
        role: caller.role,
        tenant: caller.tenant,
        cluster: caller.clusters.id().cloned(),
        selector: caller.clusters.selector().cloned(),
        namespaces: names(&caller.namespaces),
        grants: caller.grants.iter().map(shown_grant).collect(),
    })
}

fn names(namespaces: &[OperatorNamespace]) -> Vec<String> {
    let names = namespaces.iter();
    names.map(|it| it.as_str().to_owned()).collect()
}

fn shown_grant(grant: &ScopedGrant) -> CallerGrant {
    let (kind, request) = match &grant.kind {
        GrantKind::Standing => (CallerGrantKind::Standing, None),
        GrantKind::Temporary(id) => (CallerGrantKind::Temporary, Some(id.to_string())),
        GrantKind::BreakGlass => (CallerGrantKind::BreakGlass, None),
    };
    CallerGrant {
        role: grant.role,
        kind,
        tenant: grant.scope.tenant.clone(),
        cluster: grant.scope.clusters.id().cloned(),
        selector: grant.scope.clusters.selector().cloned(),
        namespaces: names(&grant.scope.namespaces),
        request,
    }
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
) -> Answer<Json<AgentSessionList>> {
    let record = visible(&registry.store.view(), &caller, &id)?;
    Ok(Json(match registry.presence.get() {
        Some(presence) => presence.sessions_of_all_hubs(&record.value.id).await,
        None => AgentSessionList::default(),
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
    uri: Uri,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<MoveCluster>,
) -> Answer<Response> {
    let guard = UntargetGuard::of(&registry, &Query::of(&uri)?)?;
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
        guard.guard(
            draft,
            &who,
            |_| vec![cluster.id.clone()],
            |draft| Ok(draft.put_cluster(cluster.clone())?),
        )?;
        Ok(cluster)
    };
    let cluster = registry.store.change(by(&caller), decide).await?.value;
    log_move(&caller, &cluster);
    Ok(invited(&registry, &cluster)?.into_response())
}
