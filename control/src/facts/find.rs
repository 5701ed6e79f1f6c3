//! `GET /v1/find`: the clusters of which all is so that is asked for, among those that the caller may see, with the facts that
//! say so. It reads what is in memory, and writes and waits for nothing.

mod term;
mod version;

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use fairlead_api::{
    Code,
    facts::{Found, FoundCluster},
    resources::List,
};

use super::stale::is_stale;
use crate::{
    hub::Hub,
    registry::{Said, template_of, visible},
    reply::{Answer, Refused, Who},
    store::millis,
};
use term::{Hit, Term};

/// Terms of one search.
const MOST: usize = 16;
/// Facts that are shown of one cluster.
const HITS: usize = 20;

pub(super) async fn find(
    State(hub): State<Arc<Hub>>,
    asked: Result<Query<Vec<(String, String)>>, QueryRejection>,
    Who(caller): Who,
) -> Answer<Json<List<FoundCluster>>> {
    let Query(asked) = asked.map_err(|error| Refused::because(Code::BadRequest, error))?;
    let refuse = |detail: &str| Err(Refused::because(Code::Invalid, detail));
    if asked.is_empty() {
        return refuse("search for a host, a version, a service or a fact");
    }
    if asked.len() > MOST {
        return refuse("16 terms at the most");
    }
    let terms: Result<Vec<Term>, _> = asked
        .iter()
        .map(|(kind, text)| Term::read(kind, text))
        .collect();
    let terms = terms?;
    let (view, now) = (hub.store.view(), millis(hub.now()));
    let mut items = Vec::new();
    for cluster in view.clusters() {
        let about = &cluster.value;
        let template = template_of(&view, &about.tenant);
        let mut hits = Vec::new();
        let all = terms.iter().all(|term| {
            let found = term.hits(about, template);
            let is_so = !found.is_empty();
            hits.extend(found);
            is_so
        });
        if !all || visible(&view, &caller, about.id.as_str()).is_err() {
            continue;
        }
        let observed = hub.store.observed_of(cluster);
        let found = |hit: Hit<'_>| Found {
            fact: hit.name.to_owned(),
            key: hit.key,
            value: hit.value,
            stale: match hit.said {
                Said::Fact(fact) => is_stale(fact, &observed, &hub.settings.reporting, now),
                Said::OfTemplate(_) => false,
            },
        };
        items.push(FoundCluster {
            id: about.id.clone(),
            tenant: about.tenant.clone(),
            display_name: about
                .display_name
                .clone()
                .unwrap_or_else(|| about.id.to_string()),
            found: hits.into_iter().take(HITS).map(found).collect(),
        });
    }
    Ok(Json(List { items }))
}
