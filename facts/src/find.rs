//! `GET /v1/find`: visible clusters that match all terms, with the matching facts. Reads memory
//! only.

mod component;
mod term;
mod version;

use std::sync::Arc;

use axum::{extract::State, response::Response};
use fairlead_api::{
    Code,
    facts::{ClusterMatch, FIND_PATH, FactMatch},
    resources::List,
};
use fairlead_registry::stale::is_stale;
use fairlead_registry::{EffectiveFact, FACT_FILTER, listed, sees_cluster, template_of};
use fairlead_routes::{
    ApiRoutes, ListPosition, Page, QueryParameter, RouteSpec, Tag,
    reply::{Answer, Authenticated, Rejected},
};
use fairlead_store::millis;
use http::{HeaderMap, Uri};
use serde_json::json;

use crate::state::FactsState;
use term::{Hit, Term};

/// Maximum number of terms per search.
const MAX_TERMS: usize = 16;
/// Maximum number of facts shown per cluster.
const MAX_HITS: usize = 20;

pub(super) fn routes() -> ApiRoutes<Arc<FactsState>> {
    let term = |name, meaning| {
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": 512 });
        QueryParameter::new(name, meaning, schema)
    };
    let terms = [
        term("host", "Host that clusters serve; `*` stands for one label"),
        term("version", "Kubernetes versions, such as `>=1.30,<1.31`"),
        term(
            "service",
            "Part of the name of a service, chart or Helm release, and its version, such as `postgres<15`",
        ),
        term(
            "component",
            "Name or chart of a component of Argo CD or Flux, and its version, such as `ingress-nginx<4.11`",
        ),
        term("fact", FACT_FILTER),
    ];
    ApiRoutes::new().route(
        RouteSpec::get(
            Tag::INVENTORY,
            FIND_PATH,
            "find",
            "Find clusters by host, version, service, component or fact; a cluster must match all of them",
        )
        .query(terms)
        .query(Page::parameters())
        .gives_list::<ClusterMatch>(200, "ClusterMatches"),
        find,
    )
}

async fn find(
    State(state): State<Arc<FactsState>>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    headers: HeaderMap,
) -> Answer<Response> {
    let page = Page::of(&uri)?;
    let terms_given: Vec<_> = page.words().collect();
    let refuse = |detail: &str| Err(Rejected::because(Code::Invalid, detail));
    if terms_given.is_empty() {
        return refuse("expected at least one of host, version, service, component, fact");
    }
    if terms_given.len() > MAX_TERMS {
        return refuse("at most 16 terms");
    }
    let terms: Result<Vec<Term>, _> = terms_given
        .iter()
        .map(|(kind, text)| Term::read(kind, text))
        .collect();
    let terms = terms?;
    let (view, now) = (state.store.view(), millis(state.now()));
    let mut all = Vec::new();
    // Hidden clusters are skipped before matching.
    let seen = view
        .clusters()
        .filter(|it| sees_cluster(&view, &caller, &it.value));
    for cluster in seen {
        let about = &cluster.value;
        let template = template_of(&view, &about.tenant);
        let mut hits = Vec::new();
        let is_all = terms.iter().all(|term| {
            let found = term.hits(about, template);
            let is_so = !found.is_empty();
            hits.extend(found);
            is_so
        });
        if is_all {
            all.push((ListPosition::of(about.id.as_str()), (cluster, hits)));
        }
    }
    let (part, link) = page.cut(all);
    let items = part.into_iter().map(|(cluster, hits)| {
        let about = &cluster.value;
        let observed = state.store.observed_of(cluster);
        let found = |hit: Hit<'_>| FactMatch {
            fact: hit.name.to_owned(),
            key: hit.key,
            value: hit.value,
            stale: match hit.fact {
                EffectiveFact::Fact(fact) => is_stale(fact, &observed, &state.reporting, now),
                EffectiveFact::Template(_) => false,
            },
        };
        ClusterMatch {
            id: about.id.clone(),
            tenant: about.tenant.clone(),
            display_name: about.shown_name().to_owned(),
            matches: hits.into_iter().take(MAX_HITS).map(found).collect(),
        }
    });
    let items = items.collect();
    Ok(listed(&headers, &view, &List { items }, link)?)
}
