//! `/api/v1/clusters`

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    response::IntoResponse,
    routing::{get, post},
};
use fairlead_api::{
    ClusterId, Code, Failure, TenantId,
    resources::{self, CloneSeen, CreateCluster, JoinInfo, List, Role},
};
use fairlead_certs::Registration;
use fairlead_gateway::Caller;
use http::StatusCode;
use secrecy::ExposeSecret;
use tracing::info;

use super::{
    names::{display_name, made_up},
    rights::{at_least, may_invite, scope},
    tenants,
};
use crate::{
    enroll::invitation,
    hub::{Hub, by},
    model::{Binding, Bootstrap, Cluster},
    reply::{Answer, Refused, Secret, Sent, Who},
    store::{Draft, Record, StoreError, View, whole_millis},
};

/// How often a made-up id may turn out to be taken.
const TRIES: usize = 5;

pub(crate) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/api/v1/clusters", get(list).post(create))
        .route("/api/v1/clusters/{id}", get(show).delete(delete))
        .route(
            "/api/v1/clusters/{id}/join-token",
            post(new_join_token).get(join_token),
        )
}

/// The cluster, if there is one and this caller may know of it: both take one and the same look-up.
///
/// # Errors
/// `FL-1301`
pub(crate) fn visible(
    view: &View,
    caller: &Caller,
    id: &str,
) -> Result<Arc<Record<Cluster>>, Failure> {
    let id: ClusterId = id.parse().map_err(|_| Code::NoSuchCluster)?;
    let cluster = view.cluster(&id).filter(|it| {
        let own = scope(caller);
        own.is_none_or(|own| *own == it.value.tenant)
    });
    Ok(cluster.cloned().ok_or(Code::NoSuchCluster)?)
}

async fn list(State(hub): State<Arc<Hub>>, Who(caller): Who) -> Answer<impl IntoResponse> {
    let view = hub.store.view();
    let show = |record| shown(&hub, &caller, record);
    let items: Result<Vec<resources::Cluster>, Failure> = match scope(&caller) {
        None => view.clusters().map(show).collect(),
        Some(own) => view.clusters_of(own).map(show).collect(),
    };
    Ok(Secret(List { items: items? }))
}

async fn show(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    let cluster = visible(&hub.store.view(), &caller, &id)?;
    Ok(Secret(shown(&hub, &caller, &cluster)?))
}

async fn create(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Sent(asked): Sent<CreateCluster>,
) -> Answer<impl IntoResponse> {
    at_least(&caller, Role::Admin)?;
    let tenant = match (&asked.tenant, scope(&caller)) {
        (Some(tenant), _) => tenants::parse(tenant)?,
        (None, Some(own)) => own.clone(),
        (None, None) => tenants::parse(tenants::DEFAULT)?,
    };
    if scope(&caller).is_some_and(|own| *own != tenant) {
        return Err(no_such_tenant());
    }
    let given = match &asked.id {
        Some(id) => Some(
            ClusterId::from_name(id)
                .map_err(|error| Failure::because(Code::Invalid, format_args!("id: {error}")))?,
        ),
        None => None,
    };
    for _ in 0..TRIES {
        let id = match &given {
            Some(id) => id.clone(),
            None => ClusterId::from_name(&made_up()?)
                .map_err(|error| Failure::because(Code::Internal, error))?,
        };
        let cluster = new_cluster(
            &hub,
            &caller,
            id,
            tenant.clone(),
            asked.display_name.clone(),
        )?;
        match register(&hub, &caller, cluster).await {
            Err(StoreError::Conflict) if given.is_none() => {}
            Err(StoreError::Missing) => return Err(no_such_tenant()),
            Err(other) => return Err(other.into()),
            Ok(cluster) => {
                info!(cluster = %cluster.id, %tenant, caller = caller.name, "cluster created");
                return Ok((StatusCode::CREATED, Secret(invitation(&hub, &cluster)?)));
            }
        }
    }
    Err(Refused::because(Code::Conflict, "no free name was found"))
}

/// With its first bootstrap token, generation 1.
fn new_cluster(
    hub: &Hub,
    caller: &Caller,
    id: ClusterId,
    tenant: TenantId,
    name: Option<String>,
) -> Result<Cluster, Failure> {
    let created = whole_millis(hub.now());
    let expires = hub.bootstrap_expiry(created);
    let bootstrap = Bootstrap::new(1, expires, Some(caller.name.clone()));
    let binding = Binding::open(Registration::random()?, bootstrap);
    Ok(Cluster {
        display_name: Some(display_name(name, id.as_str())?),
        ..Cluster::new(id, tenant, binding, created)
    })
}

async fn register(hub: &Hub, caller: &Caller, cluster: Cluster) -> Result<Cluster, StoreError> {
    let decide = move |draft: &mut Draft| {
        if draft.cluster(&cluster.id).is_some() {
            return Err(StoreError::Conflict);
        }
        draft.put_cluster(cluster.clone())?;
        Ok(cluster.clone())
    };
    Ok(hub.store.change(by(caller), decide).await?.value)
}

fn no_such_tenant() -> Refused {
    Refused::because(Code::NotFound, "no such tenant")
}

async fn delete(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    visible(&hub.store.view(), &caller, &id)?;
    at_least(&caller, Role::Admin)?;
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let id = visible(draft, &who, &id)?.value.id.clone();
        draft.delete_cluster(&id)?;
        Ok::<_, Failure>(id)
    };
    let id = hub.store.change(by(&caller), decide).await?.value;
    info!(cluster = %id, caller = caller.name, "cluster deleted");
    // Nobody listening is fine: then there is no session to end.
    let _ = hub.deleted.send(id);
    Ok(StatusCode::NO_CONTENT)
}

async fn new_join_token(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    let current = visible(&hub.store.view(), &caller, &id)?;
    at_least(&caller, Role::Admin)?;
    let current = current.value.binding.bootstrap.generation;
    let expires = hub.bootstrap_expiry(whole_millis(hub.now()));
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let mut cluster = visible(draft, &who, &id)?.value.clone();
        if cluster.binding.bootstrap.generation != current {
            return Err(Failure::from(Code::Conflict));
        }
        let next = current.saturating_add(1);
        cluster.binding.bootstrap = Bootstrap::new(next, expires, Some(who.name.clone()));
        draft.put_cluster(cluster.clone())?;
        Ok(cluster)
    };
    let cluster = hub.store.change(by(&caller), decide).await?.value;
    let generation = cluster.binding.bootstrap.generation;
    info!(cluster = %cluster.id, caller = caller.name, generation, "bootstrap token renewed");
    Ok((StatusCode::CREATED, Secret(invitation(&hub, &cluster)?)))
}

/// The current token again, as long as it is good for something.
async fn join_token(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<Secret<JoinInfo>> {
    let cluster = visible(&hub.store.view(), &caller, &id)?;
    at_least(&caller, Role::Admin)?;
    if !cluster.value.binding.bootstrap.open(hub.now()) {
        let detail = "the bootstrap token has been used or has expired";
        return Err(Refused::because(Code::NotFound, detail));
    }
    Ok(Secret(invitation(&hub, &cluster.value)?))
}

fn shown(
    hub: &Hub,
    caller: &Caller,
    record: &Arc<Record<Cluster>>,
) -> Result<resources::Cluster, Failure> {
    let cluster = &record.value;
    let binding = &cluster.binding;
    let install_url = if may_invite(caller) && binding.bootstrap.open(hub.now()) {
        let url = invitation(hub, cluster)?.install_url;
        Some(url.expose_secret().to_owned())
    } else {
        None
    };
    let clone = binding.clone.as_ref().map(|clone| CloneSeen {
        last_seen: clone.seen,
        from: clone.from,
        uid: clone.uid.clone(),
    });
    Ok(resources::Cluster {
        id: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        display_name: cluster.shown_name().to_owned(),
        created: cluster.created,
        version: i64::try_from(record.version).unwrap_or(i64::MAX),
        status: hub.store.observed_of(record).status.clone(),
        uid: binding.uid.clone(),
        clone,
        install_url,
    })
}
