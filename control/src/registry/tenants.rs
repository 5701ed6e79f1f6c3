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
    resources::{self, CreateTenant, List},
};
use http::StatusCode;
use tracing::info;

use super::{
    names::{display_name, made_up},
    rights::{admin_of_all, scope},
};
use crate::{
    hub::{Hub, by},
    model::Tenant,
    reply::{Answer, Refused, Sent, Who},
    store::{Draft, Record, StoreError, whole_millis},
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

async fn list(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
) -> Answer<Json<List<resources::Tenant>>> {
    let own = scope(&caller);
    let view = hub.store.view();
    let visible = view
        .tenants()
        .filter(|it| own.is_none_or(|own| *own == it.value.id));
    let items = visible.map(|it| shown(it)).collect();
    Ok(Json(List { items }))
}

async fn show(
    State(hub): State<Arc<Hub>>,
    Who(caller): Who,
    Path(id): Path<String>,
) -> Answer<Json<resources::Tenant>> {
    let id: TenantId = id.parse().map_err(|_| Code::NotFound)?;
    let view = hub.store.view();
    let visible = view
        .tenant(&id)
        .filter(|_| scope(&caller).is_none_or(|own| *own == id));
    Ok(Json(shown(visible.ok_or(Code::NotFound)?)))
}

fn shown(record: &Record<Tenant>) -> resources::Tenant {
    let tenant = &record.value;
    resources::Tenant {
        id: tenant.id.clone(),
        display_name: tenant.shown_name().to_owned(),
        created: tenant.created,
        version: i64::try_from(record.version).unwrap_or(i64::MAX),
    }
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
        display_name: Some(display_name(asked.display_name, id.as_str())?),
        ..Tenant::new(id.clone(), whole_millis(hub.now()))
    };
    let decide = move |draft: &mut Draft| {
        if draft.tenant(&tenant.id).is_some() {
            return Err(StoreError::Conflict);
        }
        draft.put_tenant(tenant.clone())?;
        Ok(draft.tenant(&tenant.id).map(|it| shown(it)))
    };
    let created = hub.store.change(by(&caller), decide).await?.value;
    info!(tenant = %id, caller = caller.name, "tenant created");
    Ok((StatusCode::CREATED, Json(created)))
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
    let doomed = id.clone();
    let decide = move |draft: &mut Draft| draft.delete_tenant(&doomed);
    let done = hub.store.change(by(&caller), decide).await;
    done.map_err(|error| match error {
        StoreError::InUse => Refused::because(Code::InUse, "the tenant has clusters"),
        other => other.into(),
    })?;
    info!(tenant = %id, caller = caller.name, "tenant deleted");
    Ok(StatusCode::NO_CONTENT)
}
