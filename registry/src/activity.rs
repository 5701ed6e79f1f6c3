//! Activity of clusters: their status, and what their sessions on this hub carry.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use fairlead_api::resources::{Activity, ClusterActivity, SessionsActivity};
use fairlead_routes::{
    ApiRoutes, RouteSpec, Tag,
    reply::{Answer, Authenticated},
};
use fairlead_seam::SessionActivity;
use fairlead_store::{Record, model::Cluster};
use http::Uri;

use crate::{listing::Listing, registry::Registry};

pub(super) fn routes() -> ApiRoutes<Arc<Registry>> {
    ApiRoutes::new().route(
        RouteSpec::get(
            Tag::CLUSTER,
            "/v1/activity",
            "listActivity",
            "List the status of clusters, and the activity of their sessions on this hub",
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
    let clusters = found.into_iter().map(|it| of_cluster(&registry, it));
    let activity = Activity {
        at: registry.now(),
        clusters: clusters.collect(),
    };
    Ok((headers, Json(activity)))
}

fn of_cluster(registry: &Registry, record: &Arc<Record<Cluster>>) -> ClusterActivity {
    let cluster = &record.value;
    let observed = registry.store.observed_of(record);
    let status = &observed.status;
    let presence = registry.presence.get();
    let sessions = presence.and_then(|it| it.activity(&cluster.id));
    ClusterActivity {
        id: cluster.id.clone(),
        tenant: cluster.tenant.clone(),
        display_name: cluster.shown_name().to_owned(),
        state: status.state,
        since: status.since,
        last_seen: status.last_seen,
        sessions: sessions.map(document),
    }
}

fn document(activity: SessionActivity) -> SessionsActivity {
    SessionsActivity {
        agents: activity.agents,
        agent_versions: activity.agent_versions,
        rtt_micros: activity.rtt.and_then(|rtt| rtt.as_micros().try_into().ok()),
        requests_open: activity.requests_open,
        requests_total: activity.requests_total,
        bytes_in: activity.bytes_in,
        bytes_out: activity.bytes_out,
    }
}
