//! Roles for a time: requests, decisions of a second person, and emergencies.
//!
//! The registry grants an active role at each request. This module only writes the requests.

mod decide;
mod emergency;
mod metrics;
mod parts;
mod requested;
mod second_person;
mod shown;

use std::sync::Arc;

use async_trait::async_trait;
use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::{
    Code, Failure,
    resources::{AccessRequest, AccessState, CreateAccessRequest, List},
};
use fairlead_registry::{RegistryError, allow, by, visible};
use fairlead_routes::{
    ApiModule, ApiRoutes, ListPosition, Page, QueryParameter, RouteSpec, Tag, invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_runtime::Process;
use fairlead_seam::Module;
use fairlead_store::{Clock, Draft, Store};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use tracing::info;

use metrics::EmergencyMetrics;
use parts::{REQUEST, find, id_schema, sees};
use requested::{RequestedRole, put};

pub(crate) use parts::AccessParts;
pub use parts::{ACCESS_MAX, AccessSettings, EMERGENCY_MAX};

/// Undecided requests of one holder.
const MAX_PENDING_PER_HOLDER: usize = 20;

pub(crate) struct AccessModule(Arc<AccessParts>);

impl AccessModule {
    /// Builds the module.
    ///
    /// # Errors
    /// `FL-5101` for an invalid name of a metric.
    pub(crate) fn shared(
        store: &Store,
        clock: &Clock,
        settings: &AccessSettings,
    ) -> Result<Arc<dyn ApiModule>, Failure> {
        let metrics = EmergencyMetrics::new();
        let metrics = metrics.map_err(|error| Failure::because(Code::Internal, error))?;
        let parts = AccessParts {
            store: store.clone(),
            clock: clock.clone(),
            settings: settings.clone(),
            metrics,
        };
        Ok(Arc::new(AccessModule(Arc::new(parts))))
    }
}

#[async_trait]
impl Module for AccessModule {
    fn name(&self) -> &'static str {
        "access"
    }

    async fn run(&self, process: Process) {
        tokio::select! {
            () = self.0.upkeep(&process) => {}
            () = process.draining() => {}
        }
    }
}

impl ApiModule for AccessModule {
    fn api_routes(&self) -> ApiRoutes {
        const ALL: &str = "/v1/access-requests";
        let states = AccessState::ALL.map(AccessState::as_str);
        ApiRoutes::new()
            .route(
                RouteSpec::get(
                    Tag::TOKEN,
                    ALL,
                    "listAccessRequests",
                    "List requests for roles: your own, and those that you may decide on",
                )
                .query([QueryParameter::choice(
                    "state",
                    "Filter: requests in this state",
                    &states,
                )])
                .query(Page::parameters())
                .gives_list::<AccessRequest>(200, "AccessRequests"),
                list,
            )
            .route(
                RouteSpec::post(
                    Tag::TOKEN,
                    ALL,
                    "createAccessRequest",
                    "Request a role in a cluster for a time; a second person approves it",
                )
                .needs(&[REQUEST])
                .takes::<CreateAccessRequest>()
                .example(json!({
                    "cluster": "c-of-a", "role": "operator", "durationSeconds": 7200, "reason": "ticket 17",
                }))
                .gives::<AccessRequest>(201),
                create,
            )
            .route(
                RouteSpec::get(
                    Tag::TOKEN,
                    "/v1/access-requests/{accessRequestId}",
                    "getAccessRequest",
                    "Get a request for a role",
                )
                .path_parameter("accessRequestId", id_schema())
                .gives::<AccessRequest>(200),
                show,
            )
            .merge(decide::routes())
            .merge(emergency::routes())
            .with_state(Arc::clone(&self.0))
    }
}

async fn list(
    State(parts): State<Arc<AccessParts>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<List<AccessRequest>>)> {
    let page = Page::of(&uri)?;
    let state = page.query().one("state")?.map(str::parse::<AccessState>);
    let state = state.transpose();
    let state = state.map_err(|cause| invalid(format_args!("state: {cause}")))?;
    let (view, now) = (parts.store.view(), parts.now());
    let found = view.access_requests().map(|it| &it.value);
    let found = found.filter(|it| state.is_none_or(|state| it.state(now) == state));
    let found = found.filter(|it| sees(&view, &caller, it));
    let found = found.map(|it| (ListPosition::of(&it.id), shown::shown(it, now)));
    let (items, link) = page.cut(found.collect());
    Ok((link, Json(List { items })))
}

async fn show(
    State(parts): State<Arc<AccessParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<AccessRequest>> {
    let access = find(&parts.store.view(), &caller, &id)?;
    Ok(Json(shown::shown(&access, parts.now())))
}

async fn create(
    State(parts): State<Arc<AccessParts>>,
    Authenticated(caller): Authenticated,
    JsonBody(asked): JsonBody<CreateAccessRequest>,
) -> Answer<impl IntoResponse> {
    let view = parts.store.view();
    visible(&view, &caller, asked.cluster.as_str())?;
    allow(&caller, REQUEST)?;
    let role = asked
        .role
        .ok_or_else(|| invalid("property \"role\" is missing"))?;
    let requested = RequestedRole::of(&asked, role, parts.settings.max)?;
    let access = requested.request(&parts, &caller, &asked)?;
    let (who, kept) = (caller.clone(), access.clone());
    let decide = move |draft: &mut Draft| {
        let key = kept.holder.key();
        let pending = draft
            .access_requests()
            .map(|it| &it.value)
            .filter(|it| it.holder.key() == key && it.state(kept.created) == AccessState::Pending);
        if pending.count() >= MAX_PENDING_PER_HOLDER {
            let cause = format!("{MAX_PENDING_PER_HOLDER} requests wait for a decision already");
            return Err(RegistryError::Decided(cause));
        }
        put(draft, &who, kept.clone())
    };
    let access = parts.store.change(by(&caller), decide).await?.value;
    info!(
        access = access.id,
        caller = caller.name,
        cluster = %access.cluster,
        role = %access.role,
        reason = access.reason,
        "access requested"
    );
    Ok((
        StatusCode::CREATED,
        Json(shown::shown(&access, parts.now())),
    ))
}
