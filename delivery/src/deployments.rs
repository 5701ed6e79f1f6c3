//! Deployments: bundles in clusters as people see them, and their suspension and removal.

use axum::{extract::State, response::Response};
use fairlead_api::{
    BundleId, ClusterId, Code, Failure,
    delivery::{Deployment, DeploymentState},
    resources::List,
};
use fairlead_registry::{
    RegistryError, allow_in, by, listed, sees_cluster, sees_tenant, tagged, visible,
};
use fairlead_routes::{
    ApiRoutes, InvalidValue, ListPosition, Page, Query, QueryParameter, RouteSpec, invalid,
    reply::{Answer, Authenticated, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, StoreError, View, model::BundleRecord};
use http::{HeaderMap, StatusCode, Uri};
use tracing::info;

use crate::{
    fleet::{Fleet, ListedDeployment},
    hub_bundles,
    parts::DeliveryParts,
    rights::{DELIVER, TAG},
};

/// Handler of a change of one deployment.
macro_rules! by_action {
    ($action:ident) => {
        |state: State<DeliveryParts>, names: Path<(String, String)>, caller: Authenticated| {
            change(state, names, caller, Action::$action)
        }
    };
}

pub(crate) fn routes() -> ApiRoutes<DeliveryParts> {
    const OF_BUNDLE: &str = "/v1/bundles/{bundleId}/deployments";
    const OF_CLUSTER: &str = "/v1/clusters/{clusterId}/deployments";
    const ONE: &str = "/v1/clusters/{clusterId}/deployments/{bundleId}";
    let parameters = || [states_parameter()].into_iter().chain(Page::parameters());
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                OF_BUNDLE,
                "listDeploymentsOfBundle",
                "List the deployments of a bundle in visible clusters",
            )
            .query(parameters())
            .gives_list::<Deployment>(200, "Deployments"),
            of_bundle,
        )
        .route(
            RouteSpec::get(
                TAG,
                OF_CLUSTER,
                "listDeploymentsOfCluster",
                "List the deployments in a cluster",
            )
            .query(parameters())
            .gives_list::<Deployment>(200, "Deployments"),
            of_cluster,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getDeployment", "Get a deployment").gives::<Deployment>(200),
            show,
        )
        .route(
            action_spec(
                "/v1/clusters/{clusterId}/deployments/{bundleId}/suspend",
                "suspendDeployment",
                "Pause drift correction, retries and new generations in one cluster",
            ),
            by_action!(Suspend),
        )
        .route(
            action_spec(
                "/v1/clusters/{clusterId}/deployments/{bundleId}/resume",
                "resumeDeployment",
                "Resume a suspended deployment",
            ),
            by_action!(Resume),
        )
        .route(
            action_spec(
                "/v1/clusters/{clusterId}/deployments/{bundleId}/remove",
                "removeDeployment",
                "Delete the objects of a bundle in a cluster that it does not target any more",
            ),
            by_action!(Remove),
        )
}

fn action_spec(path: &'static str, id: &'static str, summary: &'static str) -> RouteSpec {
    let spec = RouteSpec::post(TAG, path, id, summary);
    spec.needs(&[DELIVER]).gives::<Deployment>(200)
}

fn states_parameter() -> QueryParameter {
    let states: Vec<_> = DeploymentState::ALL.iter().map(|it| it.as_str()).collect();
    let schema = serde_json::json!({ "type": "string", "enum": states });
    QueryParameter::new(
        "state",
        "Filter: deployments in this state; repeatable",
        schema,
    )
}

fn states_of(query: &Query) -> Result<Vec<DeploymentState>, InvalidValue> {
    let states = query.all("state").map(str::parse);
    let states: Result<_, _> = states.collect();
    states.map_err(|error| invalid(format_args!("state: {error}")))
}

fn no_such_bundle(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no bundle {id:?} is visible"))
        .next("List the visible bundles with `fairlead bundle list`.")
}

fn no_such_deployment(cluster: &ClusterId, bundle: &str) -> Failure {
    let cause = format!("{cluster} has no deployment of {bundle:?}");
    Failure::with_cause(Code::NotFound, cause).next(
        "List the deployments of the cluster with `fairlead deployment list --cluster CLUSTER`.",
    )
}

/// The requested page, and the link to the next one.
fn cut<'a>(
    fleet: &Fleet,
    page: &Page,
    found: Vec<ListedDeployment<'a>>,
    key: impl Fn(&ListedDeployment<'a>) -> &'a str,
) -> (List<Deployment>, HeaderMap) {
    let placed = found.into_iter().map(|it| (ListPosition::of(key(&it)), it));
    let (items, link) = page.cut(placed.collect());
    let items = items.iter().map(|it| fleet.deployment(it));
    let items = items.collect();
    (List { items }, link)
}

async fn of_bundle(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let page = Page::of(&uri)?;
    let states = states_of(page.query())?;
    let view = parts.store.view();
    let bundle = id.parse().ok().and_then(|id: BundleId| view.bundle(&id));
    let bundle = bundle.filter(|it| sees_tenant(&view, &caller, &it.value.tenant));
    let bundle = &bundle.ok_or_else(|| no_such_bundle(&id))?.value.id;
    let sees = |view: &View, cluster: &_| sees_cluster(view, &caller, cluster);
    let read = |fleet: &Fleet| {
        let found = fleet.of_bundle(bundle, &states, sees);
        cut(fleet, &page, found, |it| it.cluster().as_str())
    };
    let (list, link) = parts.fleet.read(read).await?;
    Ok(listed(&headers, &view, &list, link)?)
}

async fn of_cluster(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let page = Page::of(&uri)?;
    let states = states_of(page.query())?;
    let view = parts.store.view();
    let cluster = visible(&view, &caller, &id)?;
    let read = |fleet: &Fleet| {
        let found = fleet.of_cluster(&cluster.value.id, &states);
        cut(fleet, &page, found, |it| it.bundle().as_str())
    };
    let (list, link) = parts.fleet.read(read).await?;
    Ok(listed(&headers, &view, &list, link)?)
}

async fn show(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path((cluster, bundle)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = visible(&parts.store.view(), &caller, &cluster)?;
    let cluster = &cluster.value.id;
    let shown = deployment(&parts, cluster, &bundle).await?;
    Ok(tagged(&headers, StatusCode::OK, None, &shown)?)
}

/// A deployment in a visible cluster.
async fn deployment(
    parts: &DeliveryParts,
    cluster: &ClusterId,
    bundle: &str,
) -> Answer<Deployment> {
    let id = hub_bundles::named(cluster, bundle);
    let read = |fleet: &Fleet| id.and_then(|id| fleet.deployment_of(cluster, &id));
    let found = parts.fleet.read(read).await?;
    Ok(found.ok_or_else(|| no_such_deployment(cluster, bundle))?)
}

/// Change of one deployment by a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Suspend,
    Resume,
    Remove,
}

async fn change(
    State(parts): State<DeliveryParts>,
    Path((cluster, bundle)): Path<(String, String)>,
    Authenticated(caller): Authenticated,
    action: Action,
) -> Answer<Response> {
    let view = parts.store.view();
    let known = visible(&view, &caller, &cluster)?;
    let cluster = known.value.id.clone();
    let caller: Caller = allow_in(&view, &caller, &known.value, DELIVER)?;
    let before = deployment(&parts, &cluster, &bundle).await?;
    let bundle = before.bundle;
    let document = view.bundle(&bundle);
    // Without its document a bundle cannot be suspended, and nothing names what to remove.
    document.ok_or_else(|| no_such_bundle(bundle.as_str()))?;
    let read = |it: &Fleet| {
        (
            it.is_targeted(&cluster, &bundle),
            it.highest_generation(&cluster, &bundle),
        )
    };
    let (is_targeted, generation) = parts.fleet.read(read).await?;
    if action == Action::Remove && is_targeted {
        let cause = format!("{bundle} targets {cluster}");
        return Err(Failure::with_cause(Code::StillTargeted, cause).into());
    }
    let (id, of) = (bundle.clone(), cluster.clone());
    let decide = move |draft: &mut Draft| {
        let record = draft.bundle(&id).ok_or(StoreError::Missing)?;
        let mut document = record.value.clone();
        apply(&mut document, action, &of, generation);
        if document != record.value {
            draft.put_bundle(document)?;
        }
        Ok::<_, RegistryError>(())
    };
    parts.store.change(by(&caller), decide).await?;
    info!(%cluster, %bundle, caller = caller.name, action = ?action, "deployment changed");
    parts.fleet.pass().await?;
    let after = deployment(&parts, &cluster, bundle.as_str()).await?;
    Ok(tagged(&HeaderMap::new(), StatusCode::OK, None, &after)?)
}

fn apply(bundle: &mut BundleRecord, action: Action, cluster: &ClusterId, generation: u64) {
    match action {
        Action::Suspend => {
            bundle.suspended_in.insert(cluster.clone());
        }
        Action::Resume => {
            bundle.suspended_in.remove(cluster);
        }
        Action::Remove => {
            let generation = generation.max(bundle.newest().map_or(0, |it| it.number));
            bundle.removals.insert(cluster.clone(), generation);
        }
    }
}
