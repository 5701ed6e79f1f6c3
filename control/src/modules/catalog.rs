//! Catalog: the desired Kubernetes objects of each cluster. Admins of the tenant write it; delivery makes a bundle of it
//! where the cluster has `deliverCatalog`.

use async_trait::async_trait;
use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::{
    ClusterId, Code,
    catalog::{Catalog, MAX_CATALOG_BYTES},
    resources::Role,
};
use fairlead_registry::{RegistryError, allow_in, by, check_tag, visible};
use fairlead_routes::{
    ApiModule, ApiRoutes, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path, Rejected},
};
use fairlead_seam::Module;
use fairlead_store::{Draft, Store, View};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use tracing::info;

/// Read the catalog of a cluster: Kubernetes objects for its agent.
const READ_CATALOG: Right = Right::new(
    "reading a catalog, which may hold Secrets,",
    &[Role::Admin, Role::Operator, Role::Tenant],
);
/// Change the catalog of a cluster.
const WRITE_CATALOG: Right = Right::new("changing a catalog", &[Role::Admin]);

pub(crate) struct CatalogModule(pub(crate) Store);

#[async_trait]
impl Module for CatalogModule {
    fn name(&self) -> &'static str {
        "catalog"
    }
}

impl ApiModule for CatalogModule {
    fn api_routes(&self) -> ApiRoutes {
        const PATH: &str = "/v1/clusters/{clusterId}/catalog";
        let show_spec = RouteSpec::get(
            Tag::CLUSTER,
            PATH,
            "getCatalog",
            "Get the desired objects of a cluster",
        );
        let put_spec = RouteSpec::put(
            Tag::CLUSTER,
            PATH,
            "putCatalog",
            "Replace the desired objects of a cluster",
        );
        ApiRoutes::new()
            .route(show_spec.needs(&[READ_CATALOG]).gives::<Catalog>(200), show)
            .route(
                put_spec
                    .needs(&[WRITE_CATALOG])
                    .takes::<Catalog>()
                    .honours_if_match()
                    .gives::<Catalog>(200),
                put,
            )
            .with_state(self.0.clone())
    }
}

/// A catalog may contain Secrets, which a viewer cannot read in the cluster either.
async fn show(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<impl IntoResponse> {
    let view = store.view();
    let cluster = visible(&view, &caller, &id)?;
    allow_in(&view, &caller, &cluster.value, READ_CATALOG)?;
    let catalog = store.catalog(&cluster.value.id).await?;
    Ok((etag(catalog.version)?, Json(catalog)))
}

async fn put(
    State(store): State<Store>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(catalog): JsonBody<Catalog, MAX_CATALOG_BYTES>,
) -> Answer<impl IntoResponse> {
    let view = store.view();
    let known = visible(&view, &caller, &id)?;
    let caller = allow_in(&view, &caller, &known.value, WRITE_CATALOG)?;
    for (at, object) in catalog.objects.iter().enumerate() {
        check_object(object).map_err(|field| {
            Rejected::because(Code::Invalid, format_args!("objects[{at}] has no {field}"))
        })?;
    }
    let mut answer = catalog.clone();
    let who = caller.clone();
    let decide = move |draft: &mut Draft| {
        let id = visible(draft, &who, &id)?.value.id.clone();
        let current = version_of(draft, &id);
        check_tag(&headers, &tag(current))?;
        if current != catalog.version {
            return Err(RegistryError::Conflict);
        }
        draft.put_catalog(&id, catalog.objects.clone())?;
        Ok((version_of(draft, &id), id))
    };
    let (version, id) = store.change(by(&caller), decide).await?.value;
    answer.version = version;
    info!(cluster = %id, caller = caller.name, version = answer.version, "catalog changed");
    Ok((etag(answer.version)?, Json(answer)))
}

/// 0 if no catalog was ever written.
fn version_of(view: &View, cluster: &ClusterId) -> i64 {
    let version = view.catalog(cluster).map_or(0, |head| head.version);
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// Checks the fields that address an object; the API server validates the rest.
fn check_object(object: &Value) -> Result<(), &'static str> {
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    if !text(object.get("apiVersion")) {
        return Err("apiVersion");
    }
    if !text(object.get("kind")) {
        return Err("kind");
    }
    match object.get("metadata") {
        Some(metadata) if text(metadata.get("name")) => Ok(()),
        _ => Err("metadata.name"),
    }
}

fn tag(version: i64) -> String {
    format!("\"{version}\"")
}

fn etag(version: i64) -> Result<HeaderMap, RegistryError> {
    let value = HeaderValue::try_from(tag(version)).map_err(RegistryError::internal)?;
    Ok(HeaderMap::from_iter([(header::ETAG, value)]))
}
