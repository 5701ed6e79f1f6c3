//! Filters by tenant.

use fairlead_api::{Code, Failure, TenantId};
use fairlead_client::HubClient;
use serde_json::Value;

/// Checks that the tenant of a filter exists; an unknown tenant would yield an empty list without a reason.
///
/// # Errors
/// `FL-4107` for an unknown tenant.
pub(crate) async fn check_tenant(
    hub: &HubClient,
    tenant: Option<&TenantId>,
) -> Result<(), Failure> {
    let Some(id) = tenant else {
        return Ok(());
    };
    match hub.get_optional::<Value>(&format!("/tenants/{id}")).await? {
        Some(_) => Ok(()),
        None => {
            let cause = format!("--tenant: no tenant with the id {id} is visible to you");
            let next = "List the tenants with `fairlead tenant list`.";
            Err(Failure::with_cause(Code::NotFound, cause).next(next))
        }
    }
}
