//! Filters and sorting of the list of clusters.

use std::sync::Arc;

use fairlead_api::{Selector, resources::ClusterState};
use fairlead_routes::{InvalidValue, ListPosition, Page, QueryParameter, invalid};
use fairlead_seam::Caller;
use fairlead_store::{
    Observed, Record, View, millis,
    model::{Cluster, Fact},
};
use http::{HeaderMap, Uri};
use serde_json::json;

use crate::{
    effective_fact::{EffectiveFact, label_of},
    listing::{FACT_FILTER, Listing, SortBy, TENANT_FILTER, selector},
    registry::Registry,
    rights::sees_cluster,
    stale::is_stale,
    template::template_of,
};

/// Parsed query.
pub(crate) struct ClusterListing {
    listing: Listing,
    sort_by: SortBy,
    /// Name and required value.
    facts: Vec<(String, Option<String>)>,
    selector: Selector,
    /// True if stale facts count.
    stale: bool,
    status: Option<ClusterState>,
}

/// A cluster and its observed status.
type FoundCluster<'a> = (&'a Arc<Record<Cluster>>, Arc<Observed>);

/// Matching clusters, and the link to the next page.
pub(crate) struct ClusterPage<'a> {
    pub(crate) clusters: Vec<FoundCluster<'a>>,
    pub(crate) link: HeaderMap,
}

/// Limit of repeated `fact` parameters: each cluster is compared with each.
const MAX_FACT_TERMS: usize = 16;
const SORT_KEYS: [SortBy; 3] = [SortBy::Id, SortBy::Tenant, SortBy::DisplayName];

impl ClusterListing {
    /// Query parameters.
    pub(crate) fn parameters() -> Vec<QueryParameter> {
        let facts = json!({
            "type": "array",
            "items": { "type": "string", "pattern": r"^([^\x00:=][^\x00]*)?$" },
        });
        let filters = [
            QueryParameter::text("tenant", TENANT_FILTER),
            SortBy::parameter("id (default), tenant or displayName", &SORT_KEYS),
            QueryParameter::new("fact", FACT_FILTER, facts),
            QueryParameter::text(
                "selector",
                "Label selector in Kubernetes' syntax over annotations and facts",
            ),
            QueryParameter::new(
                "stale",
                "false: `fact` and `selector` ignore stale facts",
                json!({ "type": "boolean", "default": true }),
            ),
            QueryParameter::choice(
                "status",
                "Never, Connected, ApiUnreachable or Lost",
                &["Never", "Connected", "ApiUnreachable", "Lost"],
            ),
            QueryParameter::text("text", "Part of id, display name or tenant"),
        ];
        filters.into_iter().chain(Page::parameters()).collect()
    }

    /// Parses the query.
    ///
    /// # Errors
    /// `FL-4109`
    pub(crate) fn of(uri: &Uri) -> Result<Self, InvalidValue> {
        let listing = Listing::of(uri)?;
        let query = listing.query();
        if query.all("fact").count() > MAX_FACT_TERMS {
            return Err(invalid("fact: at most 16 terms"));
        }
        let facts = query
            .all("fact")
            .map(|fact| match fact.split_once([':', '=']) {
                Some(("", _)) => Err(invalid("fact: expected NAME, NAME=VALUE or NAME:VALUE")),
                Some((name, value)) => Ok((name.to_owned(), Some(value.to_owned()))),
                None => Ok((fact.to_owned(), None)),
            });
        Ok(ClusterListing {
            sort_by: SortBy::of(query, &SORT_KEYS)?,
            facts: facts.collect::<Result<_, _>>()?,
            selector: selector(query)?,
            stale: match query.one("stale")? {
                None | Some("true") => true,
                Some("false") => false,
                Some(_) => return Err(invalid("stale: expected true or false")),
            },
            status: query.one("status")?.map(state).transpose()?,
            listing,
        })
    }

    /// One page of matching clusters.
    pub(crate) fn found<'a>(
        &self,
        registry: &Registry,
        view: &'a View,
        caller: &Caller,
    ) -> ClusterPage<'a> {
        let observed = registry.store.all_observed();
        // Both maps are ordered by id, so one pass suffices.
        let mut seen = observed.iter().peekable();
        let mut status = |record: &Record<Cluster>| {
            let id = &record.value.id;
            while seen.next_if(|(of, _)| *of < id).is_some() {}
            let known = seen.peek().filter(|(of, _)| *of == id);
            let known = known.map(|(_, observed)| Arc::clone(observed));
            known.unwrap_or_else(|| Arc::new(Observed::nothing(record.value.created)))
        };
        let (reporting, now) = (&registry.settings.reporting, millis(registry.now()));
        let scope = self.listing.scope(view, caller);
        let found = view.clusters().filter_map(|record| {
            let cluster = &record.value;
            if !sees_cluster(view, caller, cluster) || !self.listing.matches(&scope, cluster) {
                return None;
            }
            let status = status(record);
            let counts = |fact: &Fact| self.stale || !is_stale(fact, &status, reporting, now);
            if !self.matches(view, cluster, counts) {
                return None;
            }
            let tenant_filter = self
                .status
                .is_none_or(|tenant_filter| status.status.state == tenant_filter);
            tenant_filter.then(|| (self.place(cluster), (record, status)))
        });
        let (clusters, link) = self.listing.sorted(self.sort_by, found.collect());
        ClusterPage { clusters, link }
    }

    fn place<'a>(&self, cluster: &'a Cluster) -> ListPosition<'a> {
        let first = match self.sort_by {
            SortBy::Id => "",
            SortBy::Tenant => cluster.tenant.as_str(),
            SortBy::DisplayName => cluster.shown_name(),
        };
        ListPosition(first.into(), cluster.id.as_str().into())
    }

    fn matches(&self, view: &View, cluster: &Cluster, counts: impl Fn(&Fact) -> bool) -> bool {
        if self.facts.is_empty() && self.selector.is_empty() {
            return true;
        }
        let template = template_of(view, &cluster.tenant);
        let fact = |name: &str| {
            let found = EffectiveFact::named(cluster, template, name, &counts);
            found.map(|(_, fact)| fact.written())
        };
        let has = |(name, value): &(String, Option<String>)| {
            let fact = fact(name);
            fact.is_some_and(|fact| value.as_ref().is_none_or(|value| *value == fact))
        };
        self.facts.iter().all(has)
            && self
                .selector
                .matches(|key| label_of(cluster, template, key, &counts))
    }
}

fn state(text: &str) -> Result<ClusterState, InvalidValue> {
    let known = [
        ClusterState::Never,
        ClusterState::Connected,
        ClusterState::ApiUnreachable,
        ClusterState::Lost,
    ];
    let state = known
        .into_iter()
        .find(|state| state.to_string().eq_ignore_ascii_case(text));
    state.ok_or_else(|| invalid("status: expected Never, Connected, ApiUnreachable or Lost"))
}
