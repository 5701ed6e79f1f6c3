//! Open merge requests in the repositories of a tenant and its clusters: listed, and merged one by one.
//! The hub keeps nothing of them.

use std::{collections::BTreeSet, sync::Arc};

use axum::{Json, extract::State};
use fairlead_api::{
    Code, Failure, TenantId,
    resources::{
        CiState, MergeOrder, MergeRequestDocument, MergeRequestList, MergeState, RepositoryFailure,
        Role,
    },
};
use fairlead_registry::{RegistryError, allow_in_tenant, sees_tenant, template_of};
use fairlead_repositories::{
    CiResult, DesiredRepo, GitServerError, MergeCheck, MergeRequestFilter, OpenMergeRequest,
};
use fairlead_routes::{
    ApiRoutes, Query, QueryParameter, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path, Rejected},
};
use fairlead_seam::Caller;
use fairlead_store::View;
use futures_util::{StreamExt, stream};
use http::{StatusCode, Uri};
use serde_json::json;
use tracing::info;

use super::{
    Repositories,
    desired::{desired_of_cluster, desired_of_tenant},
    opened::secrets_of,
    reconciler::with_deadline,
};

/// Repositories that are read at the same time.
const MAX_CONCURRENT_LISTS: usize = 4;
/// Longest filter, in characters.
const MAX_FILTER_CHARS: usize = 100;

const MERGE: Right = Right::new(
    "merging a merge request",
    &[Role::Admin, Role::Operator, Role::Tenant],
);

pub(super) fn routes(repositories: &Arc<Repositories>) -> ApiRoutes {
    const ALL: &str = "/v1/tenants/{tenantId}/merge-requests";
    const ONE: &str = "/v1/tenants/{tenantId}/merge-requests/{requestId}/merge";
    let filter = |name, text| QueryParameter::line(name, text, MAX_FILTER_CHARS);
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                Tag::TENANT,
                ALL,
                "listMergeRequests",
                "List open merge requests in the repositories of the tenant and its clusters; without a filter those of Renovate",
            )
            .needs(&[Right::READ])
            .query([
                filter("label", "A label of the merge requests"),
                filter("author", "Login of the author"),
            ])
            .gives::<MergeRequestList>(200),
            list,
        )
        .route(
            RouteSpec::post(
                Tag::TENANT,
                ONE,
                "mergeMergeRequest",
                "Merge one merge request whose CI has not failed and has ended, without conflicts",
            )
            .needs(&[MERGE])
            .path_parameter(
                "requestId",
                json!({ "type": "string", "pattern": "^[ct]-[a-z0-9-]+![0-9]+$" }),
            )
            .takes::<MergeOrder>()
            .example(json!({ "head": "5e1c309dae7f45e0f39b1bf3ac3cd9db12e7d689" }))
            .fails(409, "it is not ready, or has new commits")
            .gives_nothing(204),
            merge,
        )
        .with_state(Arc::clone(repositories))
}

async fn list(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path(tenant): Path<String>,
    uri: Uri,
) -> Answer<Json<MergeRequestList>> {
    let query = Query::of(&uri)?;
    let filter = MergeRequestFilter {
        label: query.one("label")?.map(str::to_owned),
        author: query.one("author")?.map(str::to_owned),
    };
    let view = repositories.store.view();
    let tenant = visible_tenant(&view, &caller, &tenant)?;
    allow_in_tenant(&view, &caller, &tenant, Right::READ)?;
    let wanted = repositories_of(&repositories, &view, &tenant);
    let lists = wanted.into_iter().map(|desired| {
        let (repositories, filter) = (Arc::clone(&repositories), filter.clone());
        async move {
            let found = list_of(&repositories, &desired, &filter).await;
            (desired, found)
        }
    });
    let lists: Vec<_> = stream::iter(lists)
        .buffered(MAX_CONCURRENT_LISTS)
        .collect()
        .await;
    let mut answer = MergeRequestList {
        items: Vec::new(),
        failures: Vec::new(),
    };
    for (desired, found) in lists {
        let owner = desired.owner.to_string();
        match found {
            Ok(found) => {
                let repository = url_of(&repositories, &desired).unwrap_or_default();
                let items = found.into_iter();
                answer
                    .items
                    .extend(items.map(|it| document(&owner, &repository, it)));
            }
            Err(error) => {
                let reason = error.to_string();
                answer.failures.push(RepositoryFailure { owner, reason });
            }
        }
    }
    Ok(Json(answer))
}

async fn merge(
    State(repositories): State<Arc<Repositories>>,
    Authenticated(caller): Authenticated,
    Path((tenant, id)): Path<(String, String)>,
    JsonBody(order): JsonBody<MergeOrder>,
) -> Answer<StatusCode> {
    let view = repositories.store.view();
    let tenant = visible_tenant(&view, &caller, &tenant)?;
    allow_in_tenant(&view, &caller, &tenant, MERGE)?;
    let parts = id.split_once('!');
    let parts = parts.and_then(|(owner, number)| Some((owner, number.parse::<u64>().ok()?)));
    let missing = || {
        let cause = format_args!("{tenant} has no repository for the merge request {id}");
        Rejected::because(Code::NotFound, cause)
    };
    let (owner, number) = parts.ok_or_else(missing)?;
    let mut wanted = repositories_of(&repositories, &view, &tenant).into_iter();
    let desired = wanted.find(|it| it.owner.as_str() == owner);
    let desired = desired.ok_or_else(missing)?;
    let server = repositories.git_servers.of(&desired).ok_or_else(missing)?;
    let head = order.head.as_deref();
    let called = async {
        let secrets = secrets_of(&repositories, &desired)?;
        server.merge(&desired, &secrets, number, head).await
    };
    let merged = with_deadline(server.as_ref(), called).await;
    info!(%tenant, id, head, caller = caller.name, result = ?merged, "merge requested");
    merged.map_err(failure)?;
    Ok(StatusCode::NO_CONTENT)
}

fn failure(error: GitServerError) -> Failure {
    let code = match &error {
        GitServerError::Rejected(_) | GitServerError::Denied(..) => Code::MergeRefused,
        GitServerError::Unavailable(_) => Code::GitServerAway,
        GitServerError::Throttled { .. } => Code::GitServerThrottled,
    };
    Failure::because(code, error)
}

async fn list_of(
    repositories: &Repositories,
    desired: &DesiredRepo,
    filter: &MergeRequestFilter,
) -> Result<Vec<OpenMergeRequest>, GitServerError> {
    let Some(server) = repositories.git_servers.of(desired) else {
        return Ok(Vec::new());
    };
    let called = async {
        let secrets = secrets_of(repositories, desired)?;
        server.merge_requests(desired, &secrets, filter).await
    };
    with_deadline(server.as_ref(), called).await
}

pub(super) fn visible_tenant(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<TenantId, RegistryError> {
    let tenant: Option<TenantId> = id.parse().ok();
    let known = tenant.filter(|it| view.tenant(it).is_some() && sees_tenant(view, caller, it));
    known.ok_or(RegistryError::NoSuchTenant)
}

/// Managed repositories of a tenant and its clusters that a server of this hub has, each once.
fn repositories_of(
    repositories: &Repositories,
    view: &View,
    tenant: &TenantId,
) -> Vec<DesiredRepo> {
    let own = view.tenant(tenant);
    let own = own.and_then(|it| desired_of_tenant(&it.value, [].into_iter()));
    let template = template_of(view, tenant);
    let clusters = view.clusters_of(tenant);
    let clusters = clusters.filter_map(|it| desired_of_cluster(&it.value, template));
    let mut seen = BTreeSet::new();
    let all = own.into_iter().chain(clusters);
    all.filter(|it| url_of(repositories, it).is_some_and(|url| seen.insert(url)))
        .collect()
}

fn url_of(repositories: &Repositories, desired: &DesiredRepo) -> Option<String> {
    repositories.git_servers.of(desired)?.url_of(desired)
}

fn document(owner: &str, repository: &str, it: OpenMergeRequest) -> MergeRequestDocument {
    MergeRequestDocument {
        id: format!("{owner}!{}", it.number),
        repository: repository.to_owned(),
        title: it.title,
        url: it.url,
        author: it.author,
        labels: it.labels,
        branch: it.branch,
        head: it.head,
        draft: it.is_draft,
        ci: match it.ci {
            CiResult::None => CiState::None,
            CiResult::Pending => CiState::Pending,
            CiResult::Passed => CiState::Passed,
            CiResult::Failed => CiState::Failed,
        },
        merge: match it.merge {
            MergeCheck::Clean => MergeState::Clean,
            MergeCheck::Blocked => MergeState::Blocked,
            MergeCheck::Unknown => MergeState::Unknown,
        },
    }
}
