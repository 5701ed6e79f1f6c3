//! `/api/v1/clusters`

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    response::IntoResponse,
    routing::{get, post},
};
use fairlead_api::{
    ClusterId, Code, Failure,
    resources::{Cluster, CreateCluster, JoinInfo, List, Role},
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
    hub::Hub,
    reply::{Answer, Refused, Secret, Sent, Who, or_missing},
    store::{ClusterRow, NewCluster, StoreError, whole_millis},
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

/// The cluster, if there is one and this caller may know of it: both take one and the same query.
///
/// # Errors
/// `FL-1301`
pub(crate) async fn visible(hub: &Hub, caller: &Caller, id: &str) -> Answer<ClusterRow> {
    let id: ClusterId = id.parse().map_err(|_| Code::NoSuchCluster)?;
    let row = hub.store.cluster(&id, scope(caller)).await?;
    Ok(row.ok_or(Code::NoSuchCluster)?)
}

async fn list(State(hub): State<Arc<Hub>>, Who(caller): Who) -> Answer<impl IntoResponse> {
    let rows = hub.store.clusters(scope(&caller)).await?;
    let items = rows.into_iter().map(|row| shown(&hub, &caller, row));
    let items: Vec<Cluster> = items.collect::<Result<_, _>>()?;
    Ok(Secret(List { items }))
}

async fn show(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    let row = visible(&hub, &caller, &id).await?;
    Ok(Secret(shown(&hub, &caller, row)?))
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
    let id = given.clone();
    for _ in 0..TRIES {
        let id = match &id {
            Some(id) => id.clone(),
            None => ClusterId::from_name(&made_up()?)
                .map_err(|error| Failure::because(Code::Internal, error))?,
        };
        let now = whole_millis(hub.now());
        let new = NewCluster {
            display_name: display_name(asked.display_name.clone(), id.as_str())?,
            id: id.clone(),
            tenant: tenant.clone(),
            registration: Registration::random()?,
            created: now,
            bootstrap_expires: hub.bootstrap_expiry(now),
        };
        match hub.store.create_cluster(new).await {
            Err(StoreError::Conflict) if given.is_none() => {}
            Err(StoreError::Missing) => return Err(no_such_tenant()),
            Err(other) => return Err(other.into()),
            Ok(()) => {
                info!(cluster = %id, %tenant, caller = caller.name, "cluster created");
                let row = visible(&hub, &caller, id.as_str()).await?;
                return Ok((StatusCode::CREATED, Secret(invitation(&hub, &row)?)));
            }
        }
    }
    Err(Refused::because(Code::Conflict, "no free name was found"))
}

fn no_such_tenant() -> Refused {
    Refused::because(Code::NotFound, "no such tenant")
}

async fn delete(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    let row = visible(&hub, &caller, &id).await?;
    at_least(&caller, Role::Admin)?;
    let own = scope(&caller).cloned();
    let done = hub.store.delete_cluster(row.id.clone(), own).await;
    done.map_err(or_missing(Code::NoSuchCluster))?;
    // Nobody listening is fine: then there is no session to end.
    let _ = hub.deleted.send(row.id.clone());
    info!(cluster = %row.id, caller = caller.name, "cluster deleted");
    Ok(StatusCode::NO_CONTENT)
}

async fn new_join_token(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    let mut row = visible(&hub, &caller, &id).await?;
    at_least(&caller, Role::Admin)?;
    let expires = hub.bootstrap_expiry(whole_millis(hub.now()));
    let current = row.bootstrap.generation;
    let renewed = hub.store.renew_bootstrap(row.id.clone(), current, expires);
    row.bootstrap = renewed.await?;
    info!(cluster = %row.id, caller = caller.name, generation = row.bootstrap.generation, "bootstrap token renewed");
    Ok((StatusCode::CREATED, Secret(invitation(&hub, &row)?)))
}

/// The current token again, as long as it is good for something.
async fn join_token(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<Secret<JoinInfo>> {
    let row = visible(&hub, &caller, &id).await?;
    at_least(&caller, Role::Admin)?;
    if !row.bootstrap.open(hub.now()) {
        let detail = "the bootstrap token has been used or has expired";
        return Err(Refused::because(Code::NotFound, detail));
    }
    Ok(Secret(invitation(&hub, &row)?))
}

fn shown(hub: &Hub, caller: &Caller, row: ClusterRow) -> Result<Cluster, Failure> {
    let install_url = if may_invite(caller) && row.bootstrap.open(hub.now()) {
        let url = invitation(hub, &row)?.install_url;
        Some(url.expose_secret().to_owned())
    } else {
        None
    };
    Ok(Cluster {
        id: row.id,
        tenant: row.tenant,
        display_name: row.display_name,
        created: row.created,
        version: row.version,
        status: row.status,
        uid: row.uid,
        clone: row.clone,
        install_url,
    })
}
