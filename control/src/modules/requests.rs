//! `/v1/requests`: running requests at all hubs of the store, and their end.
//!
//! Hubs have no traffic between them. For a list, each hub writes its part into the database. An order to end requests is a
//! document of the store that each hub reads; it is in the change log, and each hub follows it for a minute.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use axum::{Json, extract::State};
use fairlead_api::{
    ClusterId, Code, Failure, TenantId,
    resources::{EndedRequests, RequestKind, Role, RunningRequest, RunningRequestList},
};
use fairlead_registry::{
    LOCK, MAX_REASON_CHARS, RegistryError, allow_somewhere, by, checked_reason, order_failure,
    order_filter, sees_cluster, sees_tenant,
};
use fairlead_routes::{
    ApiModule, ApiRoutes, InvalidValue, ListPosition, Page, Query, QueryParameter, RouteSpec, Tag,
    invalid,
    reply::{Answer, Authenticated, Path, Requester},
};
use fairlead_runtime::Process;
use fairlead_seam::{Caller, Module, RunningRequests};
use fairlead_store::{
    Clock, Draft, HubPart, Store, View,
    model::{AccessLock, LockTarget, SelectedRequests, hex},
    random, whole_millis,
};
use http::{HeaderMap, Uri};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::Duration;
use tracing::info;

/// Time for which all hubs follow an order: longer than a hub can be behind the database.
const ORDER_LIFETIME: Duration = Duration::minutes(1);
/// Maximum number of requests in the part of one hub, about 5 MB.
const MAX_PART_REQUESTS: usize = 10_000;
/// Reason of an order without one.
const NO_REASON: &str = "no reason given";

/// Needs of the module.
struct RequestsParts {
    store: Store,
    clock: Clock,
    /// Set by the gateway when it starts.
    running: OnceLock<Arc<dyn RunningRequests>>,
}

/// Lists and ends running requests.
pub(crate) struct RequestsModule(Arc<RequestsParts>);

impl RequestsModule {
    pub(crate) fn new(store: Store, clock: Clock) -> Self {
        RequestsModule(Arc::new(RequestsParts {
            store,
            clock,
            running: OnceLock::new(),
        }))
    }
}

#[async_trait]
impl Module for RequestsModule {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn attach_requests(&self, requests: &Arc<dyn RunningRequests>) {
        let _ = self.0.running.set(Arc::clone(requests));
    }

    async fn run(&self, process: Process) {
        offer_part(&self.0);
        process.draining().await;
    }
}

impl ApiModule for RequestsModule {
    fn api_routes(&self) -> ApiRoutes {
        routes().with_state(Arc::clone(&self.0))
    }
}

impl RequestsParts {
    /// Running requests at this hub, in no order.
    fn here(&self) -> Vec<RunningRequest> {
        let running = self.running.get();
        running.map_or_else(Vec::new, |it| it.list())
    }
}

fn routes() -> ApiRoutes<Arc<RequestsParts>> {
    const TAG: Tag = Tag::SYSTEM;
    const ALL: &str = "/v1/requests";
    let reason = || {
        let description = "Reason, shown to the clients";
        QueryParameter::line("reason", description, MAX_REASON_CHARS)
    };
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                ALL,
                "listRequests",
                "List running requests at all hubs: all that admins and tenants may see, else your own",
            )
            .query(filters())
            .query(Page::parameters())
            .gives::<RunningRequestList>(200),
            list,
        )
        .route(
            RouteSpec::delete(
                TAG,
                ALL,
                "endRequests",
                "End running requests that match all filters, at all hubs; at least one filter is needed",
            )
            .needs(&[LOCK])
            .query(filters())
            .query([reason()])
            .gives::<EndedRequests>(200),
            end_matching,
        )
        .route(
            RouteSpec::delete(
                TAG,
                "/v1/requests/{requestId}",
                "endRequest",
                "End one running request, at any hub",
            )
            .needs(&[LOCK])
            .path_parameter(
                "requestId",
                json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
            )
            .query([reason()])
            .gives::<EndedRequests>(200),
            end_one,
        )
}

fn filters() -> [QueryParameter; 5] {
    [
        QueryParameter::text("caller", "Filter: requests of this caller"),
        QueryParameter::text("token", "Filter: requests with this API token"),
        QueryParameter::tenant("Filter: requests of this tenant and its descendants"),
        QueryParameter::cluster("Filter: requests to this cluster"),
        QueryParameter::choice(
            "kind",
            "Filter: requests of this kind",
            &RequestKind::ALL.map(RequestKind::as_str),
        ),
    ]
}

fn selected(query: &Query) -> Result<SelectedRequests, InvalidValue> {
    let text = |name| Ok::<_, InvalidValue>(query.one(name)?.map(str::to_owned));
    let tenant = query.one("tenant")?.map(str::parse::<TenantId>);
    let cluster = query.one("cluster")?.map(str::parse::<ClusterId>);
    let kind = query.one("kind")?.map(|text| {
        let kind = RequestKind::ALL.into_iter().find(|it| it.as_str() == text);
        kind.ok_or_else(|| invalid("kind: not a kind of requests"))
    });
    Ok(SelectedRequests {
        id: None,
        except: None,
        caller: text("caller")?,
        token: text("token")?,
        tenant: tenant
            .transpose()
            .map_err(|_| invalid("tenant: expected the id of a tenant"))?,
        within: None,
        cluster: cluster
            .transpose()
            .map_err(|_| invalid("cluster: expected the id of a cluster"))?,
        kind: kind.transpose()?,
    })
}

/// Admins and tenants see the requests in their clusters; everybody sees the own ones.
fn sees(view: &View, caller: &Caller, request: &RunningRequest) -> bool {
    let is_own = request.caller == caller.name && request.token == caller.token;
    let sees_as = |caller: Caller| {
        matches!(caller.hub_role(), Role::Admin | Role::Tenant)
            && match (&request.cluster, &request.tenant) {
                (Some(cluster), _) => view
                    .cluster(cluster)
                    .is_some_and(|it| sees_cluster(view, &caller, &it.value)),
                (None, Some(tenant)) => sees_tenant(view, &caller, tenant),
                (None, None) => caller.tenant.is_none(),
            }
    };
    is_own || caller.each_role().any(sees_as)
}

/// A hub's part of a list.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListPart {
    items: Vec<RunningRequest>,
    is_complete: bool,
}

/// Makes this hub's part of the lists of other hubs; the newest requests are left out first.
fn offer_part(parts: &Arc<RequestsParts>) {
    let parts = Arc::downgrade(parts);
    let Some(store) = parts.upgrade().map(|it| it.store.clone()) else {
        return;
    };
    store.set_part_source(move || {
        let requests = parts.upgrade();
        let mut items = requests.map_or_else(Vec::new, |it| it.here());
        let is_complete = items.len() <= MAX_PART_REQUESTS;
        items.sort_by_key(|it| it.started);
        items.truncate(MAX_PART_REQUESTS);
        serde_json::to_string(&ListPart { items, is_complete }).unwrap_or_default()
    });
}

/// Running requests of all hubs, and the hubs of which some are missing.
async fn everywhere(parts: &RequestsParts) -> Answer<RunningRequestList> {
    let mut here = parts.here();
    let own = parts.store.hub_url();
    for request in &mut here {
        request.hub = own.cloned();
    }
    let mut list = elsewhere(parts).await?;
    list.items.append(&mut here);
    Ok(list)
}

/// Running requests of all other hubs, and the hubs of which some are missing.
async fn elsewhere(parts: &RequestsParts) -> Answer<RunningRequestList> {
    let (mut items, mut incomplete_hubs) = (Vec::new(), Vec::new());
    let parts = parts.store.parts_of_others().await;
    for HubPart { hub, body } in parts.map_err(RegistryError::from)? {
        let part = body.and_then(|it| serde_json::from_str::<ListPart>(&it).ok());
        if part.as_ref().is_none_or(|it| !it.is_complete) {
            incomplete_hubs.push(hub.clone());
        }
        for mut request in part.into_iter().flat_map(|it| it.items) {
            request.hub = Some(hub.clone());
            items.push(request);
        }
    }
    Ok(RunningRequestList {
        items,
        incomplete_hubs,
    })
}

async fn list(
    State(parts): State<Arc<RequestsParts>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<RunningRequestList>)> {
    let page = Page::of(&uri)?;
    let view = parts.store.view();
    let filter = order_filter(&view, &selected(page.query())?);
    let RunningRequestList {
        items: mut found,
        mut incomplete_hubs,
    } = everywhere(&parts).await?;
    if !matches!(caller.role, Role::Admin | Role::Tenant) {
        // Addresses of hubs are for those who see the requests of others.
        incomplete_hubs.clear();
    }
    found.retain(|it| filter.matches(it) && sees(&view, &caller, it));
    found.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
    let keys: Vec<String> = found.iter().map(|it| it.id.clone()).collect();
    // Pages are in the order of ids: unlike a start, an id does not change while the clock is set.
    let mut placed: Vec<_> = keys
        .iter()
        .map(|id| ListPosition::of(id))
        .zip(found)
        .collect();
    placed.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (mut items, link) = page.cut(placed);
    items.sort_by_key(|it: &RunningRequest| it.started);
    let list = RunningRequestList {
        items,
        incomplete_hubs,
    };
    Ok((link, Json(list)))
}

async fn end_matching(
    State(parts): State<Arc<RequestsParts>>,
    Authenticated(caller): Authenticated,
    requester: Requester,
    uri: Uri,
) -> Answer<Json<EndedRequests>> {
    let query = Query::of(&uri)?;
    let mut selected = selected(&query)?;
    if selected == SelectedRequests::default() {
        return Err(invalid("a filter is needed: caller, token, tenant, cluster or kind").into());
    }
    selected.except = requester.principal().map(|it| it.request_id().to_owned());
    Ok(Json(order(&parts, &caller, selected, &query).await?))
}

async fn end_one(
    State(parts): State<Arc<RequestsParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Json<EndedRequests>> {
    let query = Query::of(&uri)?;
    let caller = allow_somewhere(&caller, LOCK)?;
    let view = parts.store.view();
    let is_it = |it: &RunningRequest| it.id == id && sees(&view, &caller, it);
    if !parts.here().iter().any(is_it) && !may_be_elsewhere(&parts, &id, is_it).await? {
        let cause = format!("no running request has the id {id:?}");
        let failure = Failure::with_cause(Code::NotFound, cause);
        return Err(failure
            .next("List the running requests with `fairlead sessions list`.")
            .into());
    }
    let selected = SelectedRequests {
        id: Some(id),
        ..SelectedRequests::default()
    };
    Ok(Json(order(&parts, &caller, selected, &query).await?))
}

/// True if a request runs at another hub, or if a hub with such an id has not answered.
async fn may_be_elsewhere(
    parts: &RequestsParts,
    id: &str,
    is_it: impl Fn(&RunningRequest) -> bool,
) -> Answer<bool> {
    if !is_request_id(id) {
        return Ok(false);
    }
    let others = elsewhere(parts).await?;
    Ok(!others.incomplete_hubs.is_empty() || others.items.iter().any(is_it))
}

/// True for sixteen hexadecimal digits: an id as each hub makes them.
fn is_request_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Stores the order for all hubs, and follows it here at once. Returns the numbers of requests.
async fn order(
    parts: &RequestsParts,
    caller: &Caller,
    mut selected: SelectedRequests,
    query: &Query,
) -> Answer<EndedRequests> {
    let reason = query.one("reason")?.unwrap_or(NO_REASON);
    let reason = checked_reason(reason)?.to_owned();
    let caller = &allow_somewhere(caller, LOCK)?;
    selected.within.clone_from(&caller.tenant);
    let now = whole_millis(parts.clock.now());
    let suffix: [u8; 8] = random::bytes().map_err(RegistryError::from)?;
    let order = AccessLock {
        id: format!("requests/{}", hex::encode(&suffix)),
        target: LockTarget::Requests(selected.clone()),
        reason,
        created_by: caller.name.clone(),
        created: now,
        until: Some(now + ORDER_LIFETIME),
    };
    let filter = order_filter(&parts.store.view(), &selected);
    // Counted before the order is stored: the gateways may follow it first.
    let others = elsewhere(parts).await?;
    let selected_elsewhere = others.items.iter().filter(|it| filter.matches(it)).count();
    let selected_here = parts.here().iter().filter(|it| filter.matches(it)).count();
    let kept = order.clone();
    let decide = move |draft: &mut Draft| {
        draft.put_lock(kept.clone());
        Ok::<_, RegistryError>(())
    };
    parts.store.change(by(caller), decide).await?;
    let running = parts.running.get();
    let ended = running.map_or(0, |it| it.end(&filter, &order_failure(&order)));
    let ended = ended.max(selected_here);
    info!(
        order = order.id,
        caller = caller.name,
        ended,
        elsewhere = selected_elsewhere,
        "running requests ended by an admin"
    );
    Ok(EndedRequests {
        ended,
        elsewhere: selected_elsewhere,
        incomplete_hubs: others.incomplete_hubs,
    })
}
