//! `/tenants`, compatible with Lieutenant's API.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{Code, TenantId, resources::Tenant as Document};
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, QueryParameter, Right, RouteSpec, Tag, dry_run_parameter,
    invalid,
    reply::{Answer, DocumentBody, Path, Rejected, Requester},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, Record, StoreError, model::Tenant, whole_millis};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use tracing::info;

use crate::{
    document::{
        fields::Fields,
        merge::tenant as merge_tenant,
        repo_variables,
        shown::ShownTenant,
        tenant::{OwnFields, TenantSpec},
    },
    error::RegistryError,
    etag::{self, Precondition},
    listing::tenants::TenantListing,
    names::generated,
    registry::{Registry, by},
    retired::{retire_of_cluster, retire_of_tenant},
    rights::{allow, allow_in_tenant, sees_tenant, visible_tenant},
    template::unprotected,
    untarget::{UntargetGuard, clusters_below, confirm_parameter},
};

/// Default tenant of clusters registered on the command line. Exists from the start.
pub(crate) const DEFAULT: &str = "t-default";
/// Maximum number of generated ids that may collide.
const MAX_ID_ATTEMPTS: usize = 5;
/// Maximum number of ancestors of a tenant.
const MAX_ANCESTORS: usize = 16;

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const TAG: Tag = Tag::TENANT;
    const ALL: &str = "/tenants";
    const ONE: &str = "/tenants/{tenantId}";
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listTenants", "List the visible tenants")
                .query(TenantListing::parameters())
                .gives_array::<Document>(200),
            list,
        )
        .route(
            RouteSpec::post(TAG, ALL, "createTenant", "Create a tenant")
                .needs(&[Right::MANAGE_TENANTS])
                .takes::<Document>()
                .gives::<Document>(201),
            create,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getTenant", "Get a tenant").gives::<Document>(200),
            show,
        )
        .route(
            RouteSpec::put(TAG, ONE, "putTenant", "Create or replace a tenant")
                .needs(&[Right::WRITE_TENANT, Right::MANAGE_TENANTS])
                .takes::<Document>()
                .query([dry_run_parameter(), confirm_parameter()])
                .honours_if_match()
                .gives::<Document>(200)
                .gives::<Document>(201),
            put,
        )
        .route(
            RouteSpec::patch(TAG, ONE, "updateTenant", "Change a tenant (RFC 7396)")
                .needs(&[Right::WRITE_TENANT, Right::MANAGE_TENANTS])
                .merges::<Document>()
                .query([dry_run_parameter(), confirm_parameter()])
                .honours_if_match()
                .gives::<Document>(200),
            patch,
        )
        .route(
            RouteSpec::delete(TAG, ONE, "deleteTenant", "Delete a tenant")
                .needs(&[Right::MANAGE_TENANTS])
                .query([QueryParameter::flag(
                    "cascade",
                    "true: delete its clusters, sources, bundles, groups and descendants, too",
                )])
                .honours_if_match()
                .gives_nothing(204),
            delete,
        )
}

async fn list(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let asked = TenantListing::of(&uri)?;
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let (found, link) = asked.found(&view, &caller);
    let shown: Vec<_> = found
        .into_iter()
        .map(|it| ShownTenant(it, registry.services.repositories.as_ref()))
        .collect();
    Ok(etag::listed(&headers, &view, &shown, link)?)
}

async fn show(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let caller = requester.caller().await?;
    let record = visible_tenant(&registry.store.view(), &caller, &id)?;
    answer(&registry, &record, StatusCode::OK, &headers)
}

fn answer(
    registry: &Registry,
    record: &Record<Tenant>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Answer<Response> {
    let shown = ShownTenant(record, registry.services.repositories.as_ref());
    let mut answer = etag::answer(headers, status, Some(record.version), &shown)?;
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("/tenants/{}", record.value.id))
    {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    Ok(answer)
}

/// Result of a dry run; without a version, since nothing was written.
fn dry_run_result(
    registry: &Registry,
    record: &Record<Tenant>,
    status: StatusCode,
) -> Answer<Response> {
    let shown = ShownTenant(record, registry.services.repositories.as_ref());
    Ok(etag::answer(&HeaderMap::new(), status, None, &shown)?)
}

fn requested(id: &str) -> Result<TenantId, InvalidValue> {
    TenantId::from_name(id).map_err(|error| invalid(format_args!("id: {error}")))
}

async fn create(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    headers: HeaderMap,
    DocumentBody(mut body): DocumentBody,
) -> Answer<Response> {
    repo_variables::seal(&mut body, registry.services.sealer.as_ref())?;
    let mut given = Fields::of(body)?;
    let asked = given.text("id")?.as_deref().map(requested).transpose()?;
    let spec = TenantSpec::read(&mut given)?;
    spec.needs_repo()?;
    spec.reject_credentials()?;
    let caller = requester.caller().await?;
    allow(&caller, Right::MANAGE_TENANTS)?;
    for _ in 0..MAX_ID_ATTEMPTS {
        let id = match &asked {
            Some(id) => id.clone(),
            None => requested(&generated()?)?,
        };
        let (spec, created) = (spec.clone(), whole_millis(registry.now()));
        let new = Tenant::new(id.clone(), created);
        let decide = move |draft: &mut Draft| match draft.tenant(&new.id) {
            Some(_) => Err(RegistryError::Conflict),
            None => written(draft, new.clone(), spec.clone()),
        };
        match registry.store.change(by(&caller), decide).await {
            Err(error) if error.is_taken() && asked.is_none() => {}
            Err(error) => return Err(error.into()),
            Ok(done) => {
                info!(tenant = %id, caller = caller.name, "tenant created");
                return answer(&registry, &done.value, StatusCode::CREATED, &headers);
            }
        }
    }
    Err(Rejected::because(Code::Conflict, "no free name was found"))
}

fn written(
    draft: &mut Draft,
    mut tenant: Tenant,
    spec: TenantSpec,
) -> Result<Arc<Record<Tenant>>, RegistryError> {
    spec.write(&mut tenant);
    let id = tenant.id.clone();
    if let Some(parent) = &tenant.parent {
        if draft.tenant(parent).is_none() {
            return Err(invalid("tenantRef: there is no such tenant").into());
        }
        if draft.within(parent, &id) {
            return Err(invalid("tenantRef: a tenant would be above itself").into());
        }
        if draft.lineage(parent).count() >= MAX_ANCESTORS {
            let detail = format_args!("tenantRef: at most {MAX_ANCESTORS} ancestors");
            return Err(invalid(detail).into());
        }
    }
    draft.put_tenant(tenant)?;
    let kept = draft.tenant(&id).cloned();
    kept.ok_or(RegistryError::NoSuchTenant)
}

/// Writes a known tenant. Its template and its ancestors decide about labels and bundles of the clusters below.
fn guarded(
    guard: &UntargetGuard,
    draft: &mut Draft,
    principal: &Caller,
    before: &Tenant,
    spec: TenantSpec,
) -> Result<Arc<Record<Tenant>>, RegistryError> {
    guard.guard(
        draft,
        principal,
        |view| clusters_below(view, &before.id),
        |draft| written(draft, before.clone(), spec),
    )
}

/// Only an admin of all tenants may change a parent or a quota.
fn may_write(caller: &Caller, before: &Tenant, spec: &TenantSpec) -> Result<(), RegistryError> {
    if spec.parent == before.parent && spec.quotas == before.quotas {
        allow(caller, Right::WRITE_TENANT)
    } else {
        allow(caller, Right::MANAGE_TENANTS)
    }
}

async fn put(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    DocumentBody(mut body): DocumentBody,
) -> Answer<Response> {
    repo_variables::seal(&mut body, registry.services.sealer.as_ref())?;
    let id = requested(&id)?;
    let query = Query::of(&uri)?;
    let dry_run = query.boolean("dryRun")?;
    let guard = UntargetGuard::of(&registry, &query)?;
    let mut given = Fields::of(body)?;
    let ours = OwnFields {
        parent: given.mentions("tenantRef"),
        template: given.mentions("clusterTemplate"),
        quotas: given.mentions("quotas"),
        pipeline: given.mentions("compilePipeline"),
    };
    let spec = TenantSpec::read(&mut given)?;
    let has_repo = spec.needs_repo();
    spec.reject_credentials()?;
    let precondition = Precondition::of(&headers);
    let caller = match (requester.caller().await, has_repo) {
        (Ok(caller), Ok(())) => caller,
        // A tenant that never had a repository, like the default one, may be replaced without one.
        (Ok(caller), Err(lacking)) => {
            let known = visible_tenant(&registry.store.view(), &caller, id.as_str());
            known
                .ok()
                .filter(|it| it.value.git_repo.is_none())
                .ok_or(lacking)?;
            caller
        }
        (Err(refused), Ok(())) => return Err(refused),
        (Err(_), Err(lacking)) => return Err(lacking.into()),
    };
    let view = registry.store.view();
    let caller = allow_in_tenant(&view, &caller, &id, Right::WRITE_TENANT)?;
    let (principal, created) = (caller.clone(), whole_millis(registry.now()));
    let decide = move |draft: &mut Draft| {
        let there = draft.tenant(&id).cloned();
        let seen = there
            .clone()
            .filter(|_| sees_tenant(draft, &principal, &id));
        let Some(before) = seen else {
            // A hidden tenant is answered like a missing one, whatever the precondition.
            allow(&principal, Right::MANAGE_TENANTS)?;
            precondition.check(None)?;
            if there.is_some() {
                return Err(RegistryError::Conflict);
            }
            let new = Tenant::new(id.clone(), created);
            return Ok((written(draft, new, spec.clone())?, StatusCode::CREATED));
        };
        precondition.check(Some(before.version))?;
        let spec = spec.clone().over(&before.value, &ours);
        may_write(&principal, &before.value, &spec)?;
        let record = guarded(&guard, draft, &principal, &before.value, spec)?;
        Ok::<_, RegistryError>((record, StatusCode::OK))
    };
    let (record, status) = registry.change_or_try(&caller, dry_run, decide).await?;
    if dry_run {
        return dry_run_result(&registry, &record, status);
    }
    info!(tenant = %record.value.id, caller = caller.name, "tenant replaced");
    answer(&registry, &record, status, &HeaderMap::new())
}

async fn patch(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
    DocumentBody(mut body): DocumentBody,
) -> Answer<Response> {
    repo_variables::seal(&mut body, registry.services.sealer.as_ref())?;
    let query = Query::of(&uri)?;
    let dry_run = query.boolean("dryRun")?;
    let guard = UntargetGuard::of(&registry, &query)?;
    let patch = Fields::of(body)?;
    let mut alone = Map::new();
    merge_tenant(&mut alone, patch.clone().into_rest());
    TenantSpec::read(&mut Fields::of(Value::Object(alone))?)?.reject_credentials()?;
    let precondition = Precondition::of(&headers);
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let known = visible_tenant(&view, &caller, &id)?;
    let caller = allow_in_tenant(&view, &caller, &known.value.id, Right::WRITE_TENANT)?;
    TenantSpec::check_patch(&patch)?;
    let patch = patch.into_rest();
    let principal = caller.clone();
    let decide = move |draft: &mut Draft| {
        let record = visible_tenant(draft, &principal, &id)?;
        precondition.check(Some(record.version))?;
        let mut document = TenantSpec::document(&record.value);
        merge_tenant(&mut document, patch.clone());
        let spec = TenantSpec::read(&mut Fields::of(Value::Object(document))?)?;
        may_write(&principal, &record.value, &spec)?;
        guarded(&guard, draft, &principal, &record.value, spec)
    };
    let record = registry.change_or_try(&caller, dry_run, decide).await?;
    if dry_run {
        return dry_run_result(&registry, &record, StatusCode::OK);
    }
    answer(&registry, &record, StatusCode::OK, &HeaderMap::new())
}

async fn delete(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let query = Query::of(&uri)?;
    let cascade = query.boolean("cascade")?;
    let precondition = Precondition::of(&headers);
    let caller = requester.caller().await?;
    let record = visible_tenant(&registry.store.view(), &caller, &id)?;
    allow(&caller, Right::MANAGE_TENANTS)?;
    let id = record.value.id.clone();
    if id.as_str() == DEFAULT {
        let detail = "the command line registers clusters with this tenant";
        return Err(Rejected::because(Code::InUse, detail));
    }
    let doomed = id.clone();
    let deleted = whole_millis(registry.now());
    let decide = move |draft: &mut Draft| {
        let record = draft.tenant(&doomed);
        let record = record.ok_or(RegistryError::NoSuchTenant)?;
        precondition.check(Some(record.version))?;
        let mut gone = Vec::new();
        if cascade {
            delete_below(draft, &doomed, deleted, &mut gone)?;
        }
        retire_of_tenant(draft, &doomed, deleted);
        match draft.delete_tenant(&doomed) {
            Err(StoreError::InUse) => {
                let detail = "the tenant has clusters, child tenants, sources, bundles or groups";
                Err(RegistryError::InUse(detail))
            }
            done => Ok(done.map(|()| gone)?),
        }
    };
    let gone = registry.store.change(by(&caller), decide).await?.value;
    info!(tenant = %id, caller = caller.name, clusters = gone.len(), "tenant deleted");
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes clusters, sources, bundles and groups of a tenant, and all descendants with theirs.
fn delete_below(
    draft: &mut Draft,
    tenant: &TenantId,
    deleted: OffsetDateTime,
    gone: &mut Vec<fairlead_api::ClusterId>,
) -> Result<(), RegistryError> {
    let below: Vec<TenantId> = draft
        .children_of(tenant)
        .map(|it| it.value.id.clone())
        .collect();
    for child in below {
        delete_below(draft, &child, deleted, gone)?;
        retire_of_tenant(draft, &child, deleted);
        draft.delete_tenant(&child)?;
    }
    let clusters: Vec<_> = draft.clusters_of(tenant).cloned().collect();
    for cluster in clusters {
        unprotected(draft, &cluster.value)?;
        retire_of_cluster(draft, &cluster.value, deleted);
        draft.delete_cluster(&cluster.value.id)?;
        gone.push(cluster.value.id.clone());
    }
    draft.delete_delivery_of(tenant);
    Ok(())
}
