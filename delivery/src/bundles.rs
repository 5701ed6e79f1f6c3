//! `/v1/bundles`: content, options and targets.

mod delete;
mod document;
mod plan;
mod proposal;
mod put;
mod rollback;
mod shown;
mod suspend;

use axum::{extract::State, response::Response};
use fairlead_api::{
    BundleId, Code, Failure,
    delivery::{BundleStatus, Plan, PutBundle, Rollback},
    resources::List,
};
use fairlead_registry::{Listing, confirm_parameter, listed, sees_tenant, tagged};
use fairlead_routes::{
    ApiRoutes, InvalidValue, QueryParameter, RouteSpec, dry_run_parameter, invalid,
    reply::{Answer, Authenticated, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Record, View, model::BundleRecord};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};

use crate::{
    parts::DeliveryParts,
    rights::{DELIVER, TAG},
};

const ALL: &str = "/v1/bundles";
const ONE: &str = "/v1/bundles/{bundleId}";

pub(crate) fn routes() -> ApiRoutes<DeliveryParts> {
    documents().merge(actions())
}

fn example() -> Value {
    let artifact = format!("sha256:{}", "0".repeat(64));
    json!({ "tenant": "t-a", "artifact": artifact, "targets": [{ "selector": "site=edge" }] })
}

fn documents() -> ApiRoutes<DeliveryParts> {
    ApiRoutes::new()
        .route(
            RouteSpec::get(TAG, ALL, "listBundles", "List the visible bundles")
                .query(Listing::parameters_with_text("Part of id or tenant"))
                .gives_list::<BundleStatus>(200, "Bundles"),
            list,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getBundle", "Get a bundle with its kept generations")
                .gives::<BundleStatus>(200),
            show,
        )
        .route(
            RouteSpec::put(TAG, ONE, "putBundle", "Create or replace a bundle")
                .needs(&[DELIVER])
                .takes::<PutBundle>()
                .example(example())
                .query([dry_run_parameter(), confirm_parameter()])
                .honours_if_match()
                .gives::<BundleStatus>(200)
                .gives::<BundleStatus>(201),
            put::put,
        )
        .route(
            RouteSpec::delete(TAG, ONE, "deleteBundle", "Delete a bundle")
                .needs(&[DELIVER])
                .query([
                    QueryParameter::new(
                        "mode",
                        "keep: its objects stay. remove: they are deleted in all clusters, and then the bundle",
                        json!({ "type": "string", "enum": ["keep", "remove"], "default": "keep" }),
                    ),
                    confirm_parameter(),
                ])
                .honours_if_match()
                .gives::<BundleStatus>(202)
                .gives_nothing(204),
            delete::delete,
        )
}

fn actions() -> ApiRoutes<DeliveryParts> {
    ApiRoutes::new()
        .route(
            RouteSpec::post(
                TAG,
                "/v1/bundles/{bundleId}/plan",
                "planBundle",
                "Show the effect of a new state of a bundle on clusters, or its targets without a body",
            )
            .needs(&[DELIVER])
            .takes::<PutBundle>()
            .example(example())
            .gives::<Plan>(200),
            plan::plan,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/bundles/{bundleId}/rollback",
                "rollBackBundle",
                "Make a new generation with the content and options of an older one",
            )
            .needs(&[DELIVER])
            .takes::<Rollback>()
            .example(json!({ "to": 1 }))
            .query([dry_run_parameter(), confirm_parameter()])
            .honours_if_match()
            .gives::<BundleStatus>(200),
            rollback::roll_back,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/bundles/{bundleId}/suspend",
                "suspendBundle",
                "Suspend a bundle: nothing is released, corrected or retried",
            )
            .needs(&[DELIVER])
            .honours_if_match()
            .gives::<BundleStatus>(200),
            suspend::suspend,
        )
        .route(
            RouteSpec::post(
                TAG,
                "/v1/bundles/{bundleId}/resume",
                "resumeBundle",
                "Resume a suspended bundle",
            )
            .needs(&[DELIVER])
            .honours_if_match()
            .gives::<BundleStatus>(200),
            suspend::resume,
        )
}

fn no_such_bundle(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no bundle {id:?} is visible"))
        .next("List the visible bundles with `GET /v1/bundles`.")
}

/// The bundle if it exists and is visible.
fn visible<'a>(view: &'a View, caller: &Caller, id: &BundleId) -> Option<&'a Record<BundleRecord>> {
    let bundle = view.bundle(id)?;
    sees_tenant(view, caller, &bundle.value.tenant).then_some(bundle)
}

/// The bundle with this id in a path.
///
/// # Errors
/// `FL-4107`, also for texts that are no ids.
fn known<'a>(
    view: &'a View,
    caller: &Caller,
    id: &str,
) -> Result<&'a Record<BundleRecord>, Failure> {
    let found = id.parse().ok().and_then(|id| visible(view, caller, &id));
    found.ok_or_else(|| no_such_bundle(id))
}

fn parsed(id: &str) -> Result<BundleId, InvalidValue> {
    id.parse()
        .map_err(|error| invalid(format_args!("bundleId: {error}")))
}

async fn list(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let listing = Listing::of(&uri)?;
    let view = parts.store.view();
    let bundles = view.bundles().map(|it| &it.value);
    let bundles = bundles.map(|it| (it.id.as_str(), &it.tenant, it));
    let (found, link) = listing.of_tenants((&view, &caller), bundles, |it| {
        [it.id.as_str(), it.tenant.as_str()]
    });
    let items = found.into_iter();
    let items = items.map(|it| BundleStatus {
        generations: Vec::new(),
        ..shown::status(&view, &caller, it)
    });
    let list = List {
        items: items.collect(),
    };
    Ok(listed(&headers, &view, &list, link)?)
}

async fn show(
    State(parts): State<DeliveryParts>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let view = parts.store.view();
    let bundle = known(&view, &caller, &id)?;
    let status = shown::status(&view, &caller, &bundle.value);
    let version = Some(bundle.version);
    Ok(tagged(&headers, StatusCode::OK, version, &status)?)
}
