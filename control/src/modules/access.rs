//! Roles for a time: requests, decisions of a second person, and emergencies.
//!
//! The registry grants an active role at each request. This module only writes the requests.

mod decide;
mod emergency;
mod second_person;
mod shown;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::{
    Code, Failure,
    resources::{AccessComment, AccessRequest, AccessState, CreateAccessRequest, List, Role},
    site::OperatorNamespace,
};
use fairlead_registry::{
    RegistryError, allow, by, checked_reason, holder_of, sees_tenant, visible,
};
use fairlead_routes::{
    ApiModule, ApiRoutes, InvalidValue, ListPosition, Page, QueryParameter, Right, RouteSpec, Tag,
    invalid,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_runtime::Process;
use fairlead_seam::{Caller, Module};
use fairlead_store::{
    Clock, Draft, Store, View,
    model::{AccessGrant, hex},
    random, whole_millis,
};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use time::OffsetDateTime;
use tracing::info;

use emergency::EmergencyMetrics;

/// Request a role for a time, and take one in an emergency.
const REQUEST: Right = Right::new(
    "requesting a role for a time",
    &[Role::Admin, Role::Operator, Role::Viewer, Role::Tenant],
);
/// Approve, deny, revoke and review.
const DECIDE: Right = Right::new("deciding on roles for a time", &[Role::Admin]);
/// Shortest time of a role.
const MIN_SECONDS: u64 = 60;
/// Each namespace is a header of each request.
const MAX_NAMESPACES: usize = 16;
/// Undecided requests of one holder.
const MAX_PENDING_PER_HOLDER: usize = 20;

/// Limits of roles for a time.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// Longest time of an approved role, and the default.
    pub max: Duration,
    /// Longest time of a role that was taken in an emergency, and the default.
    pub emergency_max: Duration,
}

/// Default of [`AccessSettings::max`].
pub const ACCESS_MAX: Duration = Duration::from_secs(8 * 3600);
/// Default of [`AccessSettings::emergency_max`].
pub const EMERGENCY_MAX: Duration = Duration::from_secs(3600);

impl Default for AccessSettings {
    fn default() -> Self {
        AccessSettings {
            max: ACCESS_MAX,
            emergency_max: EMERGENCY_MAX,
        }
    }
}

/// Needs of the module.
pub(crate) struct AccessParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) settings: AccessSettings,
    pub(crate) metrics: EmergencyMetrics,
}

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

fn id_schema() -> serde_json::Value {
    json!({ "type": "string", "pattern": "^ar-[0-9a-f]{16}$" })
}

impl AccessParts {
    fn now(&self) -> OffsetDateTime {
        whole_millis(self.clock.now())
    }
}

/// True for the holder, and for people who may decide on the request.
fn sees(view: &View, caller: &Caller, access: &AccessGrant) -> bool {
    access.holder.key() == holder_of(caller).key() || may_decide(view, caller, access)
}

/// True for an admin of the tenant, or of a tenant above it. A role for one cluster sees no tenant.
fn may_decide(view: &View, caller: &Caller, access: &AccessGrant) -> bool {
    let mut roles = caller.each_role();
    roles.any(|it| DECIDE.allows(&it) && sees_tenant(view, &it, &access.tenant))
}

/// The request if the caller may know of it.
fn find(view: &View, caller: &Caller, id: &str) -> Result<AccessGrant, RegistryError> {
    let found = view.access_request(id).map(|it| &it.value);
    let found = found.filter(|it| sees(view, caller, it));
    found
        .cloned()
        .ok_or_else(|| RegistryError::NoSuchAccess(id.to_owned()))
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
    let wanted = Wanted::of(&asked, role, parts.settings.max)?;
    let access = wanted.request(&parts, &caller, &asked)?;
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

/// Stores a new request, bound to the cluster as it is now.
fn put(
    draft: &mut Draft,
    caller: &Caller,
    mut access: AccessGrant,
) -> Result<AccessGrant, RegistryError> {
    let cluster = visible(draft, caller, access.cluster.as_str())?;
    access.tenant = cluster.value.tenant.clone();
    access.registration = cluster.value.binding.registration;
    draft.put_access(access.clone());
    Ok(access)
}

/// Checked wishes of a request.
struct Wanted {
    role: Role,
    namespaces: Vec<OperatorNamespace>,
    seconds: u64,
    reason: String,
}

impl Wanted {
    fn of(asked: &CreateAccessRequest, role: Role, max: Duration) -> Result<Self, InvalidValue> {
        if role.in_clusters() != Some(role) {
            return Err(invalid("role: expected admin, operator or viewer"));
        }
        if asked.namespaces.len() > MAX_NAMESPACES {
            return Err(invalid(format_args!(
                "namespaces: {MAX_NAMESPACES} at most"
            )));
        }
        if role == Role::Admin && !asked.namespaces.is_empty() {
            return Err(invalid(
                "namespaces: for the roles operator and viewer only",
            ));
        }
        let names = asked.namespaces.iter().map(|it| it.parse());
        let namespaces = names.collect::<Result<Vec<_>, _>>();
        let namespaces =
            namespaces.map_err(|error| invalid(format_args!("namespaces: {error}")))?;
        let max = max.as_secs();
        let seconds = asked.duration_seconds.unwrap_or(max);
        if !(MIN_SECONDS.min(max)..=max).contains(&seconds) {
            let cause = format_args!("durationSeconds: expected {MIN_SECONDS} to {max}");
            return Err(invalid(cause));
        }
        Ok(Wanted {
            role,
            namespaces,
            seconds,
            reason: checked_reason(&asked.reason)?.to_owned(),
        })
    }

    fn request(
        self,
        parts: &AccessParts,
        caller: &Caller,
        asked: &CreateAccessRequest,
    ) -> Result<AccessGrant, RegistryError> {
        let view = parts.store.view();
        let cluster = visible(&view, caller, asked.cluster.as_str())?;
        let suffix: [u8; 8] = random::bytes()?;
        Ok(AccessGrant {
            id: format!("ar-{}", hex::encode(&suffix)),
            holder: holder_of(caller),
            cluster: cluster.value.id.clone(),
            tenant: cluster.value.tenant.clone(),
            registration: cluster.value.binding.registration,
            role: self.role,
            namespaces: self.namespaces,
            seconds: self.seconds,
            reason: self.reason,
            is_emergency: false,
            created: parts.now(),
            approved: None,
            denied: None,
            revoked: None,
            reviewed: None,
        })
    }
}

/// A comment as one line of text.
fn comment_of(given: AccessComment) -> Result<Option<String>, InvalidValue> {
    let comment = given.comment.filter(|it| !it.trim().is_empty());
    let comment = comment.map(|it| checked_reason(&it).map(str::to_owned));
    comment.transpose()
}

fn not_in_force(cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::NotAllowed, cause)
}
