//! `/api/v1/tenants`

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    response::IntoResponse,
    routing::get,
};
use fairlead_api::{
    Code, Failure, TenantId,
    resources::{CreateTenant, List, Tenant},
};
use http::StatusCode;
use tracing::info;

use super::{
    names::{display_name, made_up},
    rights::{admin_of_all, scope},
};
use crate::{
    hub::Hub,
    reply::{Answer, Refused, Sent, Who, or_missing},
    store::{StoreError, whole_millis},
};

/// The tenant of clusters that name none. It is there from the start.
pub(crate) const DEFAULT: &str = "t-default";

pub(crate) fn routes() -> Router<Arc<Hub>> {
    Router::new()
        .route("/api/v1/tenants", get(list).post(create))
        .route("/api/v1/tenants/{id}", get(show).delete(delete))
}

pub(crate) fn parse(id: &str) -> Result<TenantId, Failure> {
    TenantId::from_name(id)
        .map_err(|error| Failure::because(Code::Invalid, format_args!("tenant: {error}")))
}

async fn list(State(hub): State<Arc<Hub>>, Who(caller): Who) -> Answer<Json<List<Tenant>>> {
    let items = hub.store.tenants(scope(&caller)).await?;
    Ok(Json(List { items }))
}

async fn show(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<Json<Tenant>> {
    let id = id.parse().map_err(|_| Code::NotFound)?;
    let tenant = hub.store.tenant(&id, scope(&caller)).await?;
    Ok(Json(tenant.ok_or(Code::NotFound)?))
}

async fn create(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Sent(asked): Sent<CreateTenant>,
) -> Answer<impl IntoResponse> {
    admin_of_all(&caller)?;
    let id = match &asked.id {
        Some(id) => parse(id)?,
        None => parse(&made_up()?)?,
    };
    let tenant = Tenant {
        display_name: display_name(asked.display_name, id.as_str())?,
        id,
        created: whole_millis(hub.now()),
        version: 1,
    };
    hub.store.create_tenant(tenant.clone()).await?;
    info!(tenant = %tenant.id, caller = caller.name, "tenant created");
    Ok((StatusCode::CREATED, Json(tenant)))
}

async fn delete(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    admin_of_all(&caller)?;
    let id: TenantId = id.parse().map_err(|_| Code::NotFound)?;
    if id.as_str() == DEFAULT {
        let detail = "clusters that name no tenant belong to it";
        return Err(Refused::because(Code::InUse, detail));
    }
    let done = hub.store.delete_tenant(id.clone()).await;
    done.map_err(|error| match error {
        StoreError::InUse => Refused::because(Code::InUse, "the tenant has clusters"),
        other => or_missing(Code::NotFound)(other),
    })?;
    info!(tenant = %id, caller = caller.name, "tenant deleted");
    Ok(StatusCode::NO_CONTENT)
}
