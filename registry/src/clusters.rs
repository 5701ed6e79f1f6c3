//! `/clusters`, compatible with Lieutenant's API.

mod answers;
mod moves;
mod patch;
mod sources;

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::{
    ClusterId, Code, TenantId,
    resources::{Cluster as Document, CreateCluster, CreatedCluster, Role},
};
use fairlead_certs::Registration;
use fairlead_routes::{
    ApiRoutes, InvalidValue, Query, QueryParameter, Right, RouteSpec, Tag, dry_run_parameter,
    invalid,
    reply::{Answer, DocumentBody, Path, Rejected, Requester},
};
use fairlead_seam::Caller;
use fairlead_store::{
    Draft, Record, View, millis,
    model::{Binding, Bootstrap, Cluster, FactSource},
    whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use tracing::info;

use crate::{
    document::{
        cluster::{ClusterSpec, OWN_FIELDS},
        fields::Fields,
        repo::Repo,
        repo_variables,
    },
    error::RegistryError,
    etag::Precondition,
    listing::clusters::ClusterListing,
    names::generated,
    registry::{Registry, by},
    retired::retire_of_cluster,
    rights::{allow_in, allow_in_tenant, sees_cluster, sees_tenant, visible},
    template::{Effective, template_of, unprotected},
    untarget::{UntargetGuard, confirm_parameter},
};
use answers::{answer, created, dry_run_result};
use patch::Patch;
use sources::LastReport;

pub(super) use answers::invited;
pub(super) use moves::{log_move, move_to};

/// Maximum number of generated ids that may collide.
const MAX_ID_ATTEMPTS: usize = 5;

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    const TAG: Tag = Tag::CLUSTER;
    const ALL: &str = "/clusters";
    const ONE: &str = "/clusters/{clusterId}";
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listClusters", "List the visible clusters")
                .query(ClusterListing::parameters())
                .gives_array::<Document>(200),
            list,
        )
        .route(
            RouteSpec::post(TAG, ALL, "createCluster", "Register a cluster")
                .needs(&[Right::WRITE_CLUSTER])
                .takes::<CreateCluster>()
                .query([QueryParameter::flag(
                    "uniqueName",
                    "true: reject with 409 if another cluster of the tenant has the display name, or has it as its id",
                )])
                .gives::<CreatedCluster>(201),
            create,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getCluster", "Get a cluster").gives::<Document>(200),
            show,
        )
        .route(
            RouteSpec::put(TAG, ONE, "putCluster", "Register or replace a cluster")
                .needs(&[Right::WRITE_CLUSTER])
                .takes::<CreateCluster>()
                .query([
                    dry_run_parameter(),
                    confirm_parameter(),
                    QueryParameter::flag(
                        "withoutBootstrapToken",
                        "true: create no bootstrap token, for a cluster with an enrolled agent",
                    ),
                ])
                .honours_if_match()
                .gives::<Document>(200)
                .gives::<CreatedCluster>(201),
            put,
        )
        .route(
            RouteSpec::patch(TAG, ONE, "updateCluster", "Change a cluster (RFC 7396)")
                .needs(&[Right::WRITE_CLUSTER, Right::REPORT])
                .merges::<Document>()
                .query([dry_run_parameter(), confirm_parameter()])
                .honours_if_match()
                .gives::<Document>(200),
            patch,
        )
        .route(
            RouteSpec::delete(TAG, ONE, "deleteCluster", "Delete a cluster")
                .needs(&[Right::WRITE_CLUSTER])
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
    let asked = ClusterListing::of(&uri)?;
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let found = asked.found(&registry, &view, &caller);
    answers::list(&registry, &view, &caller, found, &headers)
}

async fn show(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let record = visible(&view, &caller, &id)?;
    answer(&registry, &view, &caller, &record, &headers)
}

/// Adds the prefix to a requested id.
fn requested(id: &str) -> Result<ClusterId, InvalidValue> {
    ClusterId::from_name(id).map_err(|error| invalid(format_args!("id: {error}")))
}

fn tenant_in(given: &mut Fields) -> Result<TenantId, RegistryError> {
    let tenant = given.text("tenant")?;
    let tenant = tenant.ok_or_else(|| invalid("property \"tenant\" is missing"))?;
    // Other texts are invalid ids, so no such tenant exists.
    TenantId::from_name(&tenant).map_err(|_| RegistryError::UnknownTenant)
}

/// A deploy key requires a repository.
fn check_key(view: &View, cluster: &Cluster, spec: &ClusterSpec) -> Result<(), InvalidValue> {
    let only_a_key = spec.git_repo.as_ref().is_some_and(Repo::is_only_a_key);
    let known = Effective::of(cluster, template_of(view, &cluster.tenant)).has_repo();
    if only_a_key && !known {
        return Err(invalid("Cannot set deploy key for unmanaged git repo"));
    }
    Ok(())
}

async fn create(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    uri: Uri,
    headers: HeaderMap,
    DocumentBody(mut body): DocumentBody,
) -> Answer<Response> {
    repo_variables::seal(&mut body, registry.services.sealer.as_ref())?;
    let unique = Query::of(&uri)?.boolean("uniqueName")?;
    let mut given = Fields::of(body)?;
    let requested = given.text("id")?.as_deref().map(requested).transpose()?;
    let tenant = tenant_in(&mut given)?;
    let spec = ClusterSpec::read(&mut given)?;
    spec.reject_credentials()?;
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let caller = allow_in_tenant(&view, &caller, &tenant, Right::WRITE_CLUSTER)?;
    for _ in 0..MAX_ID_ATTEMPTS {
        let id = match &requested {
            Some(id) => id.clone(),
            None => ClusterId::from_name(&generated()?).map_err(RegistryError::internal)?,
        };
        let new = new_cluster(&registry, &caller, id.clone(), tenant.clone())?;
        let (principal, spec, now) = (caller.clone(), spec.clone(), millis(new.created));
        let decide = move |draft: &mut Draft| {
            let made = make(draft, &principal, new.clone(), spec.clone(), now)?;
            if unique {
                refuse_used_name(draft, &made.value)?;
            }
            Ok::<_, RegistryError>(made)
        };
        let is_taken = || registry.store.view().cluster(&id).is_some();
        match registry.store.change(by(&caller), decide).await {
            Err(error) if error.is_taken() && requested.is_none() && is_taken() => {}
            Err(error) => return Err(error.into()),
            Ok(done) => return created(&registry, &caller, &done.value, &headers),
        }
    }
    Err(Rejected::because(Code::Conflict, "no free name was found"))
}

/// Builds the cluster with its first bootstrap token, generation 1.
fn new_cluster(
    registry: &Registry,
    caller: &Caller,
    id: ClusterId,
    tenant: TenantId,
) -> Result<Cluster, RegistryError> {
    let created = whole_millis(registry.now());
    let expires = registry.bootstrap_expiry(created);
    let bootstrap = Bootstrap::new(1, expires, Some(caller.name.clone()));
    let binding = Binding::open(Registration::random()?, bootstrap);
    Ok(Cluster::new(id, tenant, binding, created))
}

fn make(
    draft: &mut Draft,
    principal: &Caller,
    mut new: Cluster,
    spec: ClusterSpec,
    now: i64,
) -> Result<Arc<Record<Cluster>>, RegistryError> {
    let known = draft.tenant(&new.tenant).is_some();
    if !known || !sees_tenant(draft, principal, &new.tenant) {
        return Err(RegistryError::UnknownTenant);
    }
    if draft.cluster(&new.id).is_some() {
        return Err(RegistryError::Conflict);
    }
    check_key(draft, &new, &spec)?;
    spec.write(&mut new, FactSource::People, now);
    let id = new.id.clone();
    draft.put_cluster(new)?;
    kept(draft, &id)
}

/// Refuses a name by which clients could not find exactly this cluster within its tenant.
///
/// # Errors
/// `FL-4108`
fn refuse_used_name(view: &View, new: &Cluster) -> Result<(), RegistryError> {
    let (name, id) = (new.shown_name(), new.id.as_str());
    let uses =
        |it: &Cluster| it.shown_name() == name || it.shown_name() == id || it.id.as_str() == name;
    let mut others = view.clusters_of(&new.tenant).map(|it| &it.value);
    let Some(other) = others.find(|it| it.id != new.id && uses(it)) else {
        return Ok(());
    };
    let cause = if other.shown_name() == name {
        let (tenant, other) = (&new.tenant, &other.id);
        format!("the tenant {tenant} has the cluster {other} with the name {name:?} already")
    } else if other.id.as_str() == name {
        format!("{name:?} is the id of another cluster")
    } else {
        let other = &other.id;
        format!("the id {id} is the name of the cluster {other}")
    };
    Err(RegistryError::NameUsed(cause))
}

fn kept(draft: &Draft, id: &ClusterId) -> Result<Arc<Record<Cluster>>, RegistryError> {
    let kept = draft.cluster(id).cloned();
    kept.ok_or(RegistryError::NoSuchCluster)
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
    let (dry_run, without_token) = (
        query.boolean("dryRun")?,
        query.boolean("withoutBootstrapToken")?,
    );
    let guard = UntargetGuard::of(&registry, &query)?;
    let mut given = Fields::of(body)?;
    let tenant = tenant_in(&mut given)?;
    let named: Vec<&str> = OWN_FIELDS
        .into_iter()
        .filter(|name| given.mentions(name))
        .collect();
    let spec = ClusterSpec::read(&mut given)?;
    spec.reject_credentials()?;
    let precondition = Precondition::of(&headers);
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let caller = allow_in_tenant(&view, &caller, &tenant, Right::WRITE_CLUSTER)?;
    let new = new_cluster(&registry, &caller, id.clone(), tenant.clone())?;
    let (principal, now) = (caller.clone(), millis(new.created));
    let decide = move |draft: &mut Draft| {
        // A caller that cannot see the tenant must learn nothing of the cluster either.
        if draft.tenant(&tenant).is_none() || !sees_tenant(draft, &principal, &tenant) {
            return Err(RegistryError::UnknownTenant);
        }
        let seen = draft.cluster(&id).cloned();
        let seen = seen.filter(|it| sees_cluster(draft, &principal, &it.value));
        // A hidden cluster has no version for preconditions. That its id is taken surfaces only on
        // creation.
        precondition.check(seen.as_ref().map(|it| it.version))?;
        let Some(before) = seen else {
            let mut new = new.clone();
            // Revoked in the same transaction: the client may end before a second request.
            new.binding.bootstrap.revoked = without_token;
            let made = make(draft, &principal, new, spec.clone(), now)?;
            return Ok((made, Put::Made));
        };
        let mut cluster = before.value.clone();
        let moves = cluster.tenant != tenant;
        if moves {
            move_to(
                draft,
                &principal,
                &mut cluster,
                tenant.clone(),
                new.binding.clone(),
            )?;
        }
        let spec = spec.clone().over(&cluster, &named);
        check_key(draft, &cluster, &spec)?;
        spec.write(&mut cluster, FactSource::People, now);
        guarded(&guard, draft, &principal, cluster)?;
        let outcome = if moves { Put::Moved } else { Put::Replaced };
        Ok((kept(draft, &id)?, outcome))
    };
    let (record, outcome) = registry.change_or_try(&caller, dry_run, decide).await?;
    if dry_run {
        let status = match outcome {
            Put::Made => StatusCode::CREATED,
            Put::Moved | Put::Replaced => StatusCode::OK,
        };
        return dry_run_result(&registry, &record, status);
    }
    match outcome {
        Put::Made => return created(&registry, &caller, &record, &headers),
        Put::Moved => log_move(&caller, &record.value),
        Put::Replaced => {}
    }
    answer(
        &registry,
        &registry.store.view(),
        &caller,
        &record,
        &HeaderMap::new(),
    )
}

/// Writes a cluster, unless bundles would lose it without confirmation.
fn guarded(
    guard: &UntargetGuard,
    draft: &mut Draft,
    principal: &Caller,
    cluster: Cluster,
) -> Result<(), RegistryError> {
    let id = cluster.id.clone();
    guard.guard(
        draft,
        principal,
        |_| vec![id],
        |draft| Ok(draft.put_cluster(cluster)?),
    )
}

enum Put {
    Made,
    Moved,
    Replaced,
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
    // Body errors are reported before authentication, as Lieutenant's clients expect.
    ClusterSpec::judge(&patch)?;
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let record = visible(&view, &caller, &id)?;
    ClusterSpec::check_patch(&patch)?;
    let patch = patch.into_rest();
    let mut caller = caller;
    let source = match caller.role {
        Role::Cluster if ClusterSpec::is_of_agent(&patch) => FactSource::Steward,
        Role::Cluster => {
            let detail = "an agent changes its facts and its deploy key, and nothing else";
            return Err(Rejected::because(Code::NotAllowed, detail));
        }
        _ => {
            caller = allow_in(&view, &caller, &record.value, Right::WRITE_CLUSTER)?;
            FactSource::People
        }
    };
    let now = millis(whole_millis(registry.now()));
    // Only an accepted patch refreshes the time of its facts.
    let taken = |of: &Record<Cluster>| {
        if source == FactSource::Steward && !dry_run {
            registry.store.facts_reported(&of.value.id, source, now);
        }
    };
    let precondition = Precondition::of(&headers);
    let good = precondition.check(Some(record.version));
    good.inspect_err(|_| registry.store.has_lost())?;
    let patch = Patch {
        fields: patch,
        source,
        agent: LastReport {
            reported: registry.store.observed_of(&record).agent_reported(),
            reporting: registry.settings.reporting,
            now,
        },
    };
    // Most patches of agents change nothing; they take no turn of the writer.
    if patch.changes_nothing(&view, &record.value)? {
        taken(&record);
        return answer(&registry, &view, &caller, &record, &HeaderMap::new());
    }
    let principal = caller.clone();
    let decide = move |draft: &mut Draft| {
        let record = visible(draft, &principal, &id)?;
        precondition.check(Some(record.version))?;
        let cluster = patch.of(draft, &record.value)?;
        match source {
            // Reports are facts of the cluster: refusing them would change nothing there.
            FactSource::Steward => draft.put_cluster(cluster)?,
            _ => guarded(&guard, draft, &principal, cluster)?,
        }
        kept(draft, &record.value.id)
    };
    let record = registry.change_or_try(&caller, dry_run, decide).await?;
    taken(&record);
    if dry_run {
        return dry_run_result(&registry, &record, StatusCode::OK);
    }
    answer(
        &registry,
        &registry.store.view(),
        &caller,
        &record,
        &HeaderMap::new(),
    )
}

async fn delete(
    State(registry): State<Arc<Registry>>,
    requester: Requester,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let precondition = Precondition::of(&headers);
    let caller = requester.caller().await?;
    let view = registry.store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, Right::WRITE_CLUSTER)?;
    let principal = caller.clone();
    let deleted = whole_millis(registry.now());
    let decide = move |draft: &mut Draft| {
        let record = visible(draft, &principal, &id)?;
        precondition.check(Some(record.version))?;
        unprotected(draft, &record.value)?;
        retire_of_cluster(draft, &record.value, deleted);
        draft.delete_cluster(&record.value.id)?;
        Ok::<_, RegistryError>(record.value.id.clone())
    };
    let id = registry.store.change(by(&caller), decide).await?.value;
    info!(cluster = %id, caller = caller.name, "cluster deleted");
    Ok(StatusCode::NO_CONTENT.into_response())
}
