//! Routes of people: start, list, show, pause, resume and cancel upgrades of agents.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::{
    Code, Failure,
    resources::{AgentUpgrade, AgentUpgradeState, CreateAgentUpgrade, List},
};
use fairlead_registry::{RegistryError, allow_in, allow_somewhere, by};
use fairlead_routes::{
    ApiRoutes, ListPosition, Page, Right, RouteSpec, Tag,
    reply::{Answer, Authenticated, JsonBody, Path},
};
use fairlead_seam::Caller;
use fairlead_store::{Draft, View, model::FleetUpgrade};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::json;
use tracing::info;

use super::{UpgradeParts, create, shown};

const ALL: &str = "/v1/agent-upgrades";
const ONE: &str = "/v1/agent-upgrades/{upgradeId}";
const PAUSE: &str = "/v1/agent-upgrades/{upgradeId}/pause";
const RESUME: &str = "/v1/agent-upgrades/{upgradeId}/resume";
const CANCEL: &str = "/v1/agent-upgrades/{upgradeId}/cancel";

pub(super) fn routes() -> ApiRoutes<Arc<UpgradeParts>> {
    const TAG: Tag = Tag::CLUSTER;
    let verb = |path, id, summary| {
        RouteSpec::post(TAG, path, id, summary)
            .path_parameter("upgradeId", id_schema())
            .needs(&[Right::WRITE_CLUSTER])
            .fails(404, "no such upgrade, or none of its clusters is visible")
            .fails(409, "the upgrade is not in the state for this")
            .gives::<AgentUpgrade>(200)
    };
    ApiRoutes::new()
        .route(
            RouteSpec::get(
                TAG,
                ALL,
                "listAgentUpgrades",
                "List upgrades of agents, latest first",
            )
            .query(Page::parameters())
            .gives_list::<AgentUpgrade>(200, "AgentUpgrades"),
            list,
        )
        .route(
            RouteSpec::post(
                TAG,
                ALL,
                "createAgentUpgrade",
                "Upgrade the agents of clusters to a version, in waves",
            )
            .needs(&[Right::WRITE_CLUSTER])
            .takes::<CreateAgentUpgrade>()
            .example(json!({ "version": "0.1.0", "clusters": ["c-of-a"] }))
            .fails(409, "a cluster is in another upgrade")
            .gives::<AgentUpgrade>(201),
            start,
        )
        .route(
            RouteSpec::get(TAG, ONE, "getAgentUpgrade", "Get an upgrade of agents")
                .path_parameter("upgradeId", id_schema())
                .gives::<AgentUpgrade>(200),
            show,
        )
        .route(
            verb(
                PAUSE,
                "pauseAgentUpgrade",
                "Pause an upgrade of agents: no further cluster begins",
            ),
            pause,
        )
        .route(
            verb(
                RESUME,
                "resumeAgentUpgrade",
                "Resume a paused upgrade of agents",
            ),
            resume,
        )
        .route(
            verb(
                CANCEL,
                "cancelAgentUpgrade",
                "Cancel an upgrade of agents: no further cluster begins",
            ),
            cancel,
        )
}

fn id_schema() -> serde_json::Value {
    json!({ "type": "string", "pattern": "^au-[0-9a-f]{16}$" })
}

async fn list(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<(HeaderMap, Json<List<AgentUpgrade>>)> {
    let page = Page::of(&uri)?;
    let found = shown::all(&parts.store.view(), &caller);
    let found = found.into_iter().map(|it| {
        // Latest first: the order counts down to the creation.
        let order = u64::MAX - u64::try_from(it.created.unix_timestamp()).unwrap_or(0);
        let order = format!("{order:020}");
        (ListPosition(order.into(), it.id.clone().into()), it)
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (items, link) = page.cut(found);
    Ok((link, Json(List { items })))
}

async fn show(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<AgentUpgrade>> {
    let view = parts.store.view();
    let upgrade = shown::find(&view, &caller, &id)?;
    Ok(Json(shown::shown(&view, &caller, &upgrade)))
}

async fn start(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    JsonBody(asked): JsonBody<CreateAgentUpgrade>,
) -> Answer<impl IntoResponse> {
    let upgrade = create::prepared(&parts, &caller, &asked)?;
    let stored = upgrade.clone();
    let decide = move |draft: &mut Draft| create::put(draft, &stored);
    parts.store.change(by(&caller), decide).await?;
    info!(
        upgrade = upgrade.id,
        caller = caller.name,
        version = upgrade.version,
        image = upgrade.image,
        clusters = upgrade.clusters.len(),
        "upgrade of agents started"
    );
    let shown = shown::shown(&parts.store.view(), &caller, &upgrade);
    Ok((StatusCode::CREATED, Json(shown)))
}

async fn pause(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<AgentUpgrade>> {
    order(&parts, &caller, id, AgentUpgradeState::Paused).await
}

async fn resume(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<AgentUpgrade>> {
    order(&parts, &caller, id, AgentUpgradeState::Running).await
}

async fn cancel(
    State(parts): State<Arc<UpgradeParts>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer<Json<AgentUpgrade>> {
    order(&parts, &caller, id, AgentUpgradeState::Cancelled).await
}

/// Puts an upgrade into this state.
async fn order(
    parts: &UpgradeParts,
    caller: &Caller,
    id: String,
    to: AgentUpgradeState,
) -> Answer<Json<AgentUpgrade>> {
    let known = shown::find(&parts.store.view(), caller, &id)?;
    allow_on(&parts.store.view(), caller, &known)?;
    let (who, now) = (caller.clone(), parts.now());
    let decide = move |draft: &mut Draft| {
        let mut upgrade = shown::find(draft, &who, &id)?;
        allow_on(draft, &who, &upgrade)?;
        if !may_become(upgrade.state, to) {
            let cause = format_args!("it is {} and cannot become {to}", upgrade.state);
            return Err(RegistryError::from(Failure::because(
                Code::UpgradeState,
                cause,
            )));
        }
        upgrade.state = to;
        if to == AgentUpgradeState::Cancelled {
            upgrade.finished = Some(now);
        }
        draft.put_fleet_upgrade(upgrade.clone());
        Ok(upgrade)
    };
    let upgrade = parts.store.change(by(caller), decide).await?.value;
    info!(upgrade = upgrade.id, caller = caller.name, state = %upgrade.state, "state of an upgrade of agents changed");
    Ok(Json(shown::shown(&parts.store.view(), caller, &upgrade)))
}

/// The same state again is no error: a repeated request changes nothing.
fn may_become(from: AgentUpgradeState, to: AgentUpgradeState) -> bool {
    use AgentUpgradeState::{Cancelled, Paused, Running};
    from == to
        || matches!(
            (from, to),
            (Running, Paused) | (Paused, Running) | (Running | Paused, Cancelled)
        )
}

/// The caller must have the right on each cluster of the upgrade.
fn allow_on(view: &View, caller: &Caller, upgrade: &FleetUpgrade) -> Result<(), RegistryError> {
    allow_somewhere(caller, Right::WRITE_CLUSTER)?;
    let clusters = upgrade.clusters.keys().filter_map(|id| view.cluster(id));
    for cluster in clusters {
        allow_in(view, caller, &cluster.value, Right::WRITE_CLUSTER)?;
    }
    Ok(())
}
