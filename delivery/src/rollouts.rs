//! `/v1/rollouts`: releases of generations, and the verbs of people on them.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use fairlead_api::{
    Code, Failure, RolloutId,
    delivery::{Rollout, RolloutState},
    resources::List,
};
use fairlead_delivery_store::{RolloutFilter, RolloutRow};
use fairlead_registry::{allow_in_tenant, listed, sees_tenant, tagged};
use fairlead_rollout::RolloutVerb;
use fairlead_routes::{
    ApiRoutes, InvalidValue, ListPosition, Page, Query, QueryParameter, RouteSpec, invalid,
    reply::{Answer, Authenticated, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{View, model::BundleRecord};
use http::{HeaderMap, StatusCode, Uri};

use crate::{
    commands, fleet,
    parts::DeliveryParts,
    rights::{DELIVER, TAG},
    runs::Runs,
};

/// Limit of rollouts in a list. A bundle keeps 20.
const MAX_ROLLOUTS: u32 = 20_000;

/// Handler of a verb.
macro_rules! by_verb {
    ($verb:ident) => {
        |state: State<Arc<Runs>>, id: Path<String>, caller: Authenticated| {
            apply(state, id, caller, RolloutVerb::$verb)
        }
    };
}

pub(crate) fn routes() -> ApiRoutes<Arc<Runs>> {
    const ALL: &str = "/v1/rollouts";
    const ONE: &str = "/v1/rollouts/{rolloutId}";
    let filters = [
        QueryParameter::bundle("Filter: rollouts of this bundle"),
        states_parameter(),
    ];
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                ALL,
                "listRollouts",
                "List the rollouts of visible bundles, newest generation first",
            )
            .query(filters.into_iter().chain(Page::parameters()))
            .gives_list::<Rollout>(200, "Rollouts"),
            list,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getRollout", "Get a rollout").gives::<Rollout>(200),
            show,
        )
        .route(
            verb_spec(
                "/v1/rollouts/{rolloutId}/pause",
                "pauseRollout",
                "Release nothing more until a resume",
            ),
            by_verb!(Pause),
        )
        .route(
            verb_spec(
                "/v1/rollouts/{rolloutId}/resume",
                "resumeRollout",
                "Go on after a pause or a halt",
            ),
            by_verb!(Resume),
        )
        .route(
            verb_spec(
                "/v1/rollouts/{rolloutId}/abort",
                "abortRollout",
                "End a rollout; each cluster keeps its generation",
            ),
            by_verb!(Abort),
        )
        .route(
            verb_spec(
                "/v1/rollouts/{rolloutId}/promote",
                "promoteRollout",
                "Lift limits and soak time of the current wave",
            ),
            by_verb!(Promote),
        )
        .route(
            verb_spec(
                "/v1/rollouts/{rolloutId}/retry",
                "retryRollout",
                "Let failed clusters try again",
            ),
            by_verb!(Retry),
        )
}

fn verb_spec(path: &'static str, id: &'static str, summary: &'static str) -> RouteSpec {
    let spec = RouteSpec::post(TAG, path, id, summary);
    spec.needs(&[DELIVER]).gives::<Rollout>(200)
}

fn states_parameter() -> QueryParameter {
    let states: Vec<_> = RolloutState::ALL.iter().map(|it| it.as_str()).collect();
    let schema = serde_json::json!({ "type": "string", "enum": states });
    QueryParameter::new(
        "state",
        "Filter: rollouts in this state; repeatable",
        schema,
    )
}

/// The bundle of a rollout, if it exists and is visible.
fn visible<'a>(view: &'a View, caller: &Caller, row: &RolloutRow) -> Option<&'a BundleRecord> {
    let bundle = &view.bundle(&row.bundle)?.value;
    sees_tenant(view, caller, &bundle.tenant).then_some(bundle)
}

fn no_such_rollout(id: &str) -> Failure {
    Failure::with_cause(Code::NotFound, format!("no rollout {id:?} is visible"))
        .next("List the visible rollouts with `fairlead rollout list`.")
}

fn states_of(query: &Query) -> Result<Vec<RolloutState>, InvalidValue> {
    let states = query.all("state").map(str::parse);
    let states: Result<_, _> = states.collect();
    states.map_err(|error| invalid(format_args!("state: {error}")))
}

async fn list(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let parts = &runs.parts;
    let page = Page::of(&uri)?;
    let query = page.query();
    let bundle = query.one("bundle")?.map(str::parse).transpose();
    let filter = RolloutFilter {
        bundle: bundle.map_err(|error| invalid(format_args!("bundle: {error}")))?,
        ..RolloutFilter::default()
    };
    let states = states_of(query)?;
    let rows = parts.rollouts.list(&filter, MAX_ROLLOUTS).await?;
    let view = parts.store.view();
    let rows = rows
        .iter()
        .filter(|it| visible(&view, &caller, it).is_some());
    let rollouts = rows.filter_map(|it| current(parts, it));
    let mut found: Vec<_> = rollouts
        .filter(|it| states.is_empty() || states.contains(&it.state))
        .map(|it| {
            let order = format!("{} {:020}", it.bundle, u64::MAX - it.to);
            (ListPosition(order.into(), it.id.to_string().into()), it)
        })
        .collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let (items, link) = page.cut(found);
    Ok(listed(&headers, &view, &List { items }, link)?)
}

/// The rollout now, from memory if it is the newest one of its bundle.
fn current(parts: &DeliveryParts, row: &RolloutRow) -> Option<Rollout> {
    let live = parts.fleet.read_now(|it| it.rollout(&row.id));
    live.or_else(|| fleet::shown_row(row))
}

/// The row of a visible rollout.
async fn found(parts: &DeliveryParts, caller: &Caller, id: &str) -> Answer<RolloutRow> {
    let row = match id.parse::<RolloutId>() {
        Ok(id) => parts.rollouts.get(&id).await?,
        Err(_) => None,
    };
    let view = parts.store.view();
    let row = row.filter(|it| visible(&view, caller, it).is_some());
    Ok(row.ok_or_else(|| no_such_rollout(id))?)
}

async fn show(
    State(runs): State<Arc<Runs>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let parts = &runs.parts;
    let row = found(parts, &caller, &id).await?;
    let rollout = current(parts, &row).ok_or_else(|| no_such_rollout(&id))?;
    Ok(tagged(&headers, StatusCode::OK, None, &rollout)?)
}

async fn apply(
    State(runs): State<Arc<Runs>>,
    Path(id): Path<String>,
    Authenticated(caller): Authenticated,
    verb: RolloutVerb,
) -> Answer<Response> {
    let parts = &runs.parts;
    let row = found(parts, &caller, &id).await?;
    let view = parts.store.view();
    let bundle = visible(&view, &caller, &row).ok_or_else(|| no_such_rollout(&id))?;
    allow_in_tenant(&view, &caller, &bundle.tenant, DELIVER)?;
    parts
        .fleet
        .verb(&row.id, verb)
        .await
        .map_err(Failure::from)?;
    commands::retry(&runs, &caller.name).await?;
    let rollout = current(parts, &row).ok_or_else(|| no_such_rollout(&id))?;
    Ok(tagged(&HeaderMap::new(), StatusCode::OK, None, &rollout)?)
}
