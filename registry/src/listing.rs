//! Common parameters of lists: filters by tenant and text, sorting, paging.

pub(crate) mod clusters;
pub(crate) mod tenants;

use std::sync::Arc;

use fairlead_api::{Selector, TenantId};
use fairlead_routes::{InvalidValue, ListPosition, Page, Query, QueryParameter, invalid};
use fairlead_seam::Caller;
use fairlead_store::{Record, View, model::Cluster};
use http::{HeaderMap, Uri};
use serde_json::json;

use crate::rights::{sees_cluster, sees_tenant, visible_tenant};

/// The parameter `selector`; without it everything matches.
///
/// # Errors
/// `FL-4109`
pub(crate) fn selector(query: &Query) -> Result<Selector, InvalidValue> {
    let text = query.one("selector")?.unwrap_or_default();
    text.parse().map_err(invalid)
}

/// Parsed list parameters.
pub struct Listing {
    page: Page,
    tenant: Option<String>,
    /// In lower case.
    text: Option<String>,
}

/// Meaning of the parameter `tenant` of every list.
pub(crate) const TENANT_FILTER: &str = "Filter: this tenant, its descendants and their resources";

/// Meaning of the parameter `fact` of every list.
pub const FACT_FILTER: &str = "Filter: `name=value`, `name:value`, or `name` for any value; repeatable. In a history, the name of a fact";

impl Listing {
    /// Parameters of a list.
    #[must_use]
    pub fn parameters() -> Vec<QueryParameter> {
        Self::parameters_with_text("Part of id, display name or tenant")
    }

    /// Parameters of a list with another meaning of `text`.
    #[must_use]
    pub fn parameters_with_text(meaning: &'static str) -> Vec<QueryParameter> {
        let filters = [
            QueryParameter::text("tenant", TENANT_FILTER),
            QueryParameter::text("text", meaning),
        ];
        filters.into_iter().chain(Page::parameters()).collect()
    }

    /// Parses the query.
    ///
    /// # Errors
    /// `FL-4109`
    pub fn of(uri: &Uri) -> Result<Self, InvalidValue> {
        let page = Page::of(uri)?;
        let query = page.query();
        Ok(Listing {
            tenant: query.one("tenant")?.map(str::to_owned),
            text: query.one("text")?.map(str::to_lowercase),
            page,
        })
    }

    pub(super) fn query(&self) -> &Query {
        self.page.query()
    }

    /// TenantListing in scope: one with all descendants, or all tenants.
    pub(super) fn scope<'a>(&self, view: &'a View, caller: &Caller) -> Scope<'a> {
        let Some(tenant_filter) = &self.tenant else {
            return Scope(view, Owners::All);
        };
        let known = visible_tenant(view, caller, tenant_filter).ok();
        let known = known.map(|tenant| tenant.value.id.clone());
        // A caller limited to single clusters sees only their tenants.
        let own = || {
            let tenant: TenantId = tenant_filter.parse().ok()?;
            let is_limited = !caller.clusters.is_all();
            let mut clusters = view.clusters().map(|it| &it.value);
            let has_one = is_limited
                && clusters.any(|it| it.tenant == tenant && sees_cluster(view, caller, it));
            has_one.then_some(tenant)
        };
        let owners = known.or_else(own).map_or(Owners::Nobody, Owners::Below);
        Scope(view, owners)
    }

    /// Things of tenants that match and that the caller sees, in their order, and the link to the next page. `texts` are
    /// searched.
    pub fn of_tenants<'a, T, const N: usize>(
        &self,
        (view, caller): (&View, &Caller),
        things: impl Iterator<Item = (&'a str, &'a TenantId, T)>,
        texts: impl Fn(&T) -> [&'a str; N],
    ) -> (Vec<T>, HeaderMap) {
        let scope = self.scope(view, caller);
        let found = things.filter(|(_, tenant, thing)| {
            let is_visible = sees_tenant(view, caller, tenant);
            is_visible && scope.has(Some(tenant)) && self.is_in(&texts(thing))
        });
        let placed = found.map(|(id, _, thing)| (ListPosition::of(id), thing));
        self.cut(placed.collect())
    }

    /// True if one of these texts contains the search text.
    pub(super) fn is_in(&self, texts: &[&str]) -> bool {
        let text = self.text.as_deref();
        text.is_none_or(|text| texts.iter().any(|it| it.to_lowercase().contains(text)))
    }

    /// Visible clusters that match, in the order of their ids, and the link to the next page.
    pub fn clusters<'a>(
        &self,
        view: &'a View,
        caller: &Caller,
    ) -> (Vec<&'a Arc<Record<Cluster>>>, HeaderMap) {
        let scope = self.scope(view, caller);
        let found = view.clusters().filter(|it| {
            let cluster = &it.value;
            sees_cluster(view, caller, cluster) && self.matches(&scope, cluster)
        });
        let placed = found.map(|it| (ListPosition::of(it.value.id.as_str()), it));
        self.cut(placed.collect())
    }

    pub(super) fn matches(&self, scope: &Scope<'_>, cluster: &Cluster) -> bool {
        scope.has(Some(&cluster.tenant))
            && self.is_in(&[
                cluster.id.as_str(),
                cluster.shown_name(),
                cluster.tenant.as_str(),
            ])
    }

    /// The requested page of a sorted list, and the link to the next one.
    pub(super) fn cut<T>(&self, sorted: Vec<(ListPosition<'_>, T)>) -> (Vec<T>, HeaderMap) {
        self.page.cut(sorted)
    }

    /// Re-sorts a list ordered by id, then pages it.
    fn sorted<T>(&self, by: SortBy, mut found: Vec<(ListPosition<'_>, T)>) -> (Vec<T>, HeaderMap) {
        if by != SortBy::Id {
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        self.cut(found)
    }
}

/// TenantListing that a list is filtered by. A hidden tenant behaves like a missing one: even its
/// descendants would reveal it.
pub(super) struct Scope<'a>(&'a View, Owners);

enum Owners {
    All,
    Below(TenantId),
    Nobody,
}

impl Scope<'_> {
    /// `None` is a resource of all tenants.
    pub(super) fn has(&self, tenant: Option<&TenantId>) -> bool {
        match &self.1 {
            Owners::All => true,
            Owners::Below(above) => tenant.is_some_and(|it| self.0.within(it, above)),
            Owners::Nobody => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SortBy {
    Id,
    Tenant,
    DisplayName,
}

impl SortBy {
    /// Parameter of [`SortBy::of`] for a list with these sort keys.
    fn parameter(meaning: &'static str, known: &[SortBy]) -> QueryParameter {
        let known: Vec<_> = known.iter().map(|it| it.as_str()).collect();
        let schema = json!({ "type": "string", "enum": known, "default": SortBy::Id.as_str() });
        QueryParameter::new("sort_by", meaning, schema)
    }

    const fn as_str(self) -> &'static str {
        match self {
            SortBy::Id => "id",
            SortBy::Tenant => "tenant",
            SortBy::DisplayName => "displayName",
        }
    }

    /// Parses the sort key.
    ///
    /// # Errors
    /// `FL-4109` for a key this list does not support.
    fn of(query: &Query, known: &[SortBy]) -> Result<Self, InvalidValue> {
        let Some(listing) = query.one("sort_by")? else {
            return Ok(SortBy::Id);
        };
        let found = known.iter().find(|it| it.as_str() == listing);
        found.copied().ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|it| it.as_str()).collect();
            invalid(format_args!(
                "sort_by: expected one of {}",
                known.join(", ")
            ))
        })
    }
}
