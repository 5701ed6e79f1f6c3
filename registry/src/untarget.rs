//! Changes of clusters and tenants that may take bundles away from clusters.

use std::sync::Arc;

use fairlead_api::{ClusterId, delivery::PlanHash};
use fairlead_routes::{InvalidValue, Query, QueryParameter, invalid};
use fairlead_seam::Caller;
use fairlead_store::{Draft, View};

use crate::{error::RegistryError, registry::Registry, services::UntargetCheck};

const CONFIRM: &str = "confirm";

/// Parameter `confirm` of changes that may take bundles away from clusters.
#[must_use]
pub fn confirm_parameter() -> QueryParameter {
    QueryParameter::pattern(
        CONFIRM,
        "Name of the removals that the change may make: `confirm` of a plan, or of the details of `FL-6105`",
        "^sha256:[0-9a-f]{64}$",
    )
}

/// Reads the parameter `confirm`.
///
/// # Errors
/// `FL-4109`
pub fn confirm_of(query: &Query) -> Result<Option<PlanHash>, InvalidValue> {
    let text = query.one(CONFIRM)?;
    let hash = text.map(str::parse).transpose();
    hash.map_err(|error| invalid(format_args!("{CONFIRM}: {error}")))
}

/// Guards a change against unconfirmed removals of bundles.
#[derive(Clone)]
pub(crate) struct UntargetGuard {
    check: Arc<dyn UntargetCheck>,
    confirm: Option<PlanHash>,
}

impl UntargetGuard {
    pub(crate) fn of(registry: &Registry, query: &Query) -> Result<Self, InvalidValue> {
        Ok(UntargetGuard {
            check: Arc::clone(&registry.services.deliveries),
            confirm: confirm_of(query)?,
        })
    }

    /// Makes a change, then checks the clusters of which it may have changed labels or tenant.
    pub(crate) fn guard<T>(
        &self,
        draft: &mut Draft,
        principal: &Caller,
        clusters: impl FnOnce(&View) -> Vec<ClusterId>,
        change: impl FnOnce(&mut Draft) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        if draft.bundles().len() == 0 {
            return change(draft);
        }
        let before = View::clone(draft);
        let done = change(draft)?;
        let clusters = clusters(draft);
        let confirm = self.confirm.as_ref();
        (self.check).check(&before, draft, &clusters, principal, confirm)?;
        Ok(done)
    }
}

/// Clusters of a tenant and of its descendants.
pub(crate) fn clusters_below(view: &View, tenant: &fairlead_api::TenantId) -> Vec<ClusterId> {
    let clusters = view.clusters().map(|it| &it.value);
    let below = clusters.filter(|it| view.within(&it.tenant, tenant));
    below.map(|it| it.id.clone()).collect()
}
