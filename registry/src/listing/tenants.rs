//! Filters and sorting of the list of tenants.

use std::sync::Arc;

use fairlead_api::Selector;
use fairlead_routes::{InvalidValue, ListPosition, Page, QueryParameter};
use fairlead_seam::Caller;
use fairlead_store::{Record, View, model::Tenant};
use http::{HeaderMap, Uri};

use crate::{
    listing::{Listing, SortBy, TENANT_FILTER, selector},
    rights::sees_tenant,
};

/// Parsed query.
pub(crate) struct TenantListing {
    listing: Listing,
    sort_by: SortBy,
    selector: Selector,
}

const SORT_KEYS: [SortBy; 2] = [SortBy::Id, SortBy::DisplayName];

impl TenantListing {
    /// Query parameters.
    pub(crate) fn parameters() -> Vec<QueryParameter> {
        let filters = [
            QueryParameter::text("tenant", TENANT_FILTER),
            SortBy::parameter("id (default) or displayName", &SORT_KEYS),
            QueryParameter::text(
                "selector",
                "Label selector in Kubernetes' syntax over annotations",
            ),
            QueryParameter::text("text", "Part of id or name"),
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
        Ok(TenantListing {
            sort_by: SortBy::of(query, &SORT_KEYS)?,
            selector: selector(query)?,
            listing,
        })
    }

    /// Matching tenants, and the link to the next page. A tenant filter includes its descendants.
    pub(crate) fn found<'a>(
        &self,
        view: &'a View,
        caller: &Caller,
    ) -> (Vec<&'a Arc<Record<Tenant>>>, HeaderMap) {
        let scope = self.listing.scope(view, caller);
        let found = view.tenants().filter(|record| {
            let tenant = &record.value;
            let is_seen = sees_tenant(view, caller, &tenant.id);
            is_seen && scope.has(Some(&tenant.id)) && self.matches(tenant)
        });
        let placed = found.map(|record| (self.place(&record.value), record));
        self.listing.sorted(self.sort_by, placed.collect())
    }

    fn matches(&self, tenant: &Tenant) -> bool {
        self.listing
            .is_in(&[tenant.id.as_str(), tenant.shown_name()])
            && self.selector.matches(|key| tenant.annotations.get(key))
    }

    fn place<'a>(&self, tenant: &'a Tenant) -> ListPosition<'a> {
        match self.sort_by {
            SortBy::DisplayName => {
                ListPosition(tenant.shown_name().into(), tenant.id.as_str().into())
            }
            SortBy::Id | SortBy::Tenant => ListPosition::of(tenant.id.as_str()),
        }
    }
}
