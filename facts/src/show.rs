//! `GET /v1/clusters/{id}/facts`: facts of a cluster with source, times and staleness.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use fairlead_api::{facts::ClusterFact, resources::List};
use fairlead_registry::stale::{self, Reporting};
use fairlead_registry::{tagged, visible};
use fairlead_routes::{
    ApiRoutes, RouteSpec, Tag,
    reply::{Answer, Authenticated, Path},
};
use fairlead_store::{
    Observed, millis,
    model::{Cluster, Facts},
};
use http::{HeaderMap, StatusCode};
use time::OffsetDateTime;

use crate::state::FactsState;

pub(super) fn routes() -> ApiRoutes<Arc<FactsState>> {
    ApiRoutes::new().route(
        RouteSpec::get(
            Tag::INVENTORY,
            "/v1/clusters/{clusterId}/facts",
            "getFacts",
            "List facts with source, times and staleness",
        )
        .gives_list::<ClusterFact>(200, "ClusterFacts"),
        show,
    )
}

async fn show(
    State(state): State<Arc<FactsState>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let cluster = visible(&state.store.view(), &caller, &id)?;
    let observed = state.store.observed_of(&cluster);
    let reporting = &state.reporting;
    let items = known(&cluster.value, &observed, reporting, millis(state.now()));
    Ok(tagged(&headers, StatusCode::OK, None, &List { items })?)
}

/// Static facts first, each group by name.
fn known(
    cluster: &Cluster,
    observed: &Observed,
    reporting: &Reporting,
    now: i64,
) -> Vec<ClusterFact> {
    let all = |facts: &Facts, dynamic: bool| {
        let facts = facts.iter().map(|(name, fact)| {
            let seen = stale::seen(fact, observed.reported.get(&fact.source).copied());
            ClusterFact {
                name: name.clone(),
                value: fact.value.clone(),
                dynamic,
                source: fact.source,
                received: time(fact.received),
                observed: time(fact.observed),
                last_reported: time(seen),
                stale: stale::is_stale(fact, observed, reporting, now),
            }
        });
        facts.collect::<Vec<_>>()
    };
    let mut items = all(&cluster.facts, false);
    items.extend(all(&cluster.dynamic_facts, true));
    items
}

pub(super) fn time(millis: i64) -> OffsetDateTime {
    let nanos = i128::from(millis) * 1_000_000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
