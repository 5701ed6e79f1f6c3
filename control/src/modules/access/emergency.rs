//! Emergencies: a role without approval, for people whom the hub's configuration permits. Each one alerts, and waits for a
//! review.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use fairlead_api::resources::{AccessRequest, AccessState, CreateAccessRequest, Role};
use fairlead_registry::{allow, by, covers_cluster, visible};
use fairlead_routes::{
    ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody},
};
use fairlead_runtime::Process;
use fairlead_seam::{Caller, EmergencyNote, GrantKind, ScopedGrant};
use fairlead_store::{
    Actor, Draft, StoreError, View,
    model::{AccessAct, AccessGrant, Cluster},
};
use http::StatusCode;
use serde_json::json;
use time::OffsetDateTime;
use tracing::warn;

use super::{
    metrics::EmergencyMetrics,
    parts::{AccessParts, REQUEST, not_in_force},
    requested::{RequestedRole, put},
    shown,
};

/// Interval of the gauges: a role ends without a change of the store.
const GAUGE_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which settled requests stay in lists. The change log keeps them longer.
const RETENTION: time::Duration = time::Duration::days(30);

/// Take a role in an emergency: a rule of the issuer permits it, no role does.
const EMERGENCY: Right = Right::new("taking a role in an emergency", &[]);

pub(super) fn routes() -> ApiRoutes<Arc<AccessParts>> {
    ApiRoutes::new().route(
        RouteSpec::post(
            Tag::TOKEN,
            "/v1/break-glass",
            "breakGlass",
            "Take a role in an emergency, at once and without approval; alerts, and needs a review",
        )
        .needs(&[EMERGENCY])
        .takes::<CreateAccessRequest>()
        .example(json!({ "cluster": "c-of-a", "reason": "all pods are down" }))
        .gives::<AccessRequest>(201),
        take,
    )
}

async fn take(
    State(parts): State<Arc<AccessParts>>,
    Authenticated(caller): Authenticated,
    JsonBody(asked): JsonBody<CreateAccessRequest>,
) -> Answer<Response> {
    let view = parts.store.view();
    let cluster = visible(&view, &caller, asked.cluster.as_str())?;
    allow(&caller, REQUEST)?;
    let permitted = permitted(&view, &caller, &cluster.value);
    let Some(strongest) = permitted.iter().map(|it| it.role).reduce(stronger) else {
        let cause = format_args!("{:?} may take no role in an emergency", caller.name);
        let next = "The hub's issuers file permits it with `break_glass`; request the role with `fairlead access request`.";
        return Err(not_in_force(cause).next(next).into());
    };
    let role = asked.role.unwrap_or(strongest);
    let requested = RequestedRole::of(&asked, role, parts.settings.emergency_max)?;
    if !permitted.iter().any(|it| includes(it, &requested)) {
        let cause = format_args!("{:?} may not take this role in an emergency", caller.name);
        let next = "`fairlead whoami` shows the roles that you may take.";
        return Err(not_in_force(cause).next(next).into());
    }
    let mut access = requested.request(&parts, &caller, &asked)?;
    access.is_emergency = true;
    access.approved = Some(AccessAct {
        by: caller.name.clone(),
        at: access.created,
        comment: None,
    });
    let who = caller.clone();
    let decide = move |draft: &mut Draft| put(draft, &who, access.clone());
    let access = parts.store.change(by(&caller), decide).await?.value;
    parts.metrics.taken.inc();
    parts.count();
    warn!(
        access = access.id,
        caller = caller.name,
        cluster = %access.cluster,
        role = %access.role,
        reason = access.reason,
        "role taken in an emergency"
    );
    let body = Json(shown::shown(&access, parts.now()));
    let mut response = (StatusCode::CREATED, body).into_response();
    response.extensions_mut().insert(EmergencyNote {
        access: access.id.as_str().into(),
        cluster: access.cluster,
        tenant: access.tenant,
    });
    Ok(response)
}

/// Roles that the caller may take in a cluster.
fn permitted<'a>(view: &View, caller: &'a Caller, cluster: &Cluster) -> Vec<&'a ScopedGrant> {
    let grants = caller.grants.iter();
    let emergency = grants.filter(|it| it.kind == GrantKind::BreakGlass);
    emergency
        .filter(|it| covers_cluster(view, &it.scope, cluster))
        .collect()
}

fn includes(grant: &ScopedGrant, requested: &RequestedRole) -> bool {
    let own = &grant.scope.namespaces;
    let is_within = own.is_empty()
        || !requested.namespaces.is_empty()
            && requested.namespaces.iter().all(|it| own.contains(it));
    grant.role.includes(requested.role) && is_within
}

fn stronger(one: Role, other: Role) -> Role {
    if one.includes(other) { one } else { other }
}

impl AccessParts {
    /// Registers and follows the metrics, and forgets settled requests.
    pub(super) async fn upkeep(&self, process: &Process) {
        let EmergencyMetrics {
            taken,
            active,
            unreviewed,
        } = &self.metrics;
        let registry = process.registry();
        let registered = registry
            .register(Box::new(taken.clone()))
            .and_then(|()| registry.register(Box::new(active.clone())))
            .and_then(|()| registry.register(Box::new(unreviewed.clone())));
        if let Err(error) = registered {
            warn!(%error, "metrics of emergencies not registered");
        }
        let mut changes = self.store.watch();
        loop {
            self.count();
            if let Err(error) = self.forget(self.now() - RETENTION).await {
                warn!(%error, "settled access requests not deleted");
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(GAUGE_INTERVAL) => {}
            }
        }
    }

    fn count(&self) {
        let (view, now) = (self.store.view(), self.now());
        let emergencies = view.access_requests().map(|it| &it.value);
        let emergencies: Vec<&AccessGrant> = emergencies.filter(|it| it.is_emergency).collect();
        let count = |which: &dyn Fn(&AccessGrant) -> bool| {
            let found = emergencies.iter().filter(|it| which(it)).count();
            i64::try_from(found).unwrap_or(i64::MAX)
        };
        let active = count(&|it| it.state(now) == AccessState::Active);
        self.metrics.active.set(active);
        let unreviewed = count(&|it| it.reviewed.is_none());
        self.metrics.unreviewed.set(unreviewed);
    }

    /// Deletes requests that were settled before a time.
    async fn forget(&self, before: OffsetDateTime) -> Result<(), StoreError> {
        let is_old = move |it: &AccessGrant| it.settled().is_some_and(|at| at < before);
        if !self
            .store
            .view()
            .access_requests()
            .any(|it| is_old(&it.value))
        {
            return Ok(());
        }
        let decide = move |draft: &mut Draft| {
            let old = draft.access_requests().map(|it| &it.value);
            let old = old.filter(|it| is_old(it));
            let old: Vec<String> = old.map(|it| it.id.clone()).collect();
            for id in &old {
                draft.delete_access(id)?;
            }
            Ok::<_, StoreError>(())
        };
        self.store.change(Actor::Hub, decide).await.map(|_| ())
    }
}
