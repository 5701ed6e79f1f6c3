//! Activity of clusters: their status, and what their sessions at all hubs carry.

use std::{collections::HashSet, sync::Arc};

use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::{
    ClusterId,
    hello::Instance,
    resources::{Activity, ClusterActivity, HubSessionsActivity, HubVersion, SessionsActivity},
};
use fairlead_routes::{
    ApiRoutes, RouteSpec, Tag,
    reply::{Answer, Authenticated},
};
use fairlead_seam::FleetActivity;
use fairlead_store::{Record, model::Cluster};
use http::Uri;

use crate::{listing::Listing, registry::Registry};

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    ApiRoutes::new().route(
        RouteSpec::get(
            Tag::CLUSTER,
            "/v1/activity",
            "listActivity",
            "List the status of clusters, and the activity of their sessions at all hubs",
        )
        .query(Listing::parameters())
        .gives::<Activity>(200),
        activity,
    )
}

async fn activity(
    State(registry): State<Arc<Registry>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<impl IntoResponse> {
    let listing = Listing::of(&uri)?;
    let view = registry.store.view();
    let (found, headers) = listing.clusters(&view, &caller);
    let ids: Vec<ClusterId> = found.iter().map(|it| it.value.id.clone()).collect();
    let fleet = match registry.presence.get() {
        Some(presence) => presence.activity_of_all_hubs(&ids).await,
        None => FleetActivity::default(),
    };
    let clusters = found
        .into_iter()
        .map(|it| of_cluster(&registry, it, &fleet));
    let hubs = fleet.hubs.iter().filter_map(|(hub, it)| {
        let (hub, version) = (hub.clone()?, it.version.clone());
        Some(HubVersion { hub, version })
    });
    let activity = Activity {
        at: registry.now(),
        clusters: clusters.collect(),
        hubs: hubs.collect(),
        incomplete_hubs: fleet.incomplete.clone(),
    };
    Ok((headers, Json(activity)))
}

fn of_cluster(
    registry: &Registry,
    record: &Arc<Record<Cluster>>,
    fleet: &FleetActivity,
) -> ClusterActivity {
    let cluster = &record.value;
    let observed = registry.store.observed_of(record);
    let status = &observed.status;
    let mut sessions: Option<SessionsActivity> = None;
    let (mut hubs, mut agents) = (Vec::new(), HashSet::<Instance>::new());
    for (hub, at_hub) in &fleet.hubs {
        let Some(activity) = at_hub.clusters.get(&cluster.id) else {
            continue;
        };
        agents.extend(&activity.instances);
        match &mut sessions {
            Some(sum) => sum.add(&activity.sessions),
            None => sessions = Some(activity.sessions.clone()),
        }
        hubs.extend(hub.clone().map(|hub| HubSessionsActivity {
            hub,
            sessions: activity.sessions.clone(),
        }));
    }
    if let Some(sum) = &mut sessions {
        sum.agents = agents.len();
    }
    ClusterActivity {
        id: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        display_name: cluster.shown_name().to_owned(),
        state: status.state,
        since: status.since,
        last_seen: status.last_seen,
        sessions,
        hubs,
    }
}
