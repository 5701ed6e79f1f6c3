//! Needs, limits and rights of the module, and visibility of its requests.

use std::time::Duration;

use fairlead_api::{
    Code, Failure,
    resources::{AccessComment, Role},
};
use fairlead_registry::{RegistryError, checked_reason, holder_of, sees_tenant};
use fairlead_routes::{InvalidValue, Right};
use fairlead_seam::Caller;
use fairlead_store::{Clock, Store, View, model::AccessGrant, whole_millis};
use serde_json::json;
use time::OffsetDateTime;

use super::metrics::EmergencyMetrics;

/// Request a role for a time, and take one in an emergency.
pub(super) const REQUEST: Right = Right::new(
    "requesting a role for a time",
    &[Role::Admin, Role::Operator, Role::Viewer, Role::Tenant],
);
/// Approve, deny, revoke and review.
pub(super) const DECIDE: Right = Right::new("deciding on roles for a time", &[Role::Admin]);
/// Limits of roles for a time.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// Longest time of an approved role, and the default.
    pub max: Duration,
    /// Longest time of a role that was taken in an emergency, and the default.
    pub emergency_max: Duration,
}

/// Default of [`AccessSettings::max`].
pub const ACCESS_MAX: Duration = Duration::from_secs(8 * 3600);
/// Default of [`AccessSettings::emergency_max`].
pub const EMERGENCY_MAX: Duration = Duration::from_secs(3600);

impl Default for AccessSettings {
    fn default() -> Self {
        AccessSettings {
            max: ACCESS_MAX,
            emergency_max: EMERGENCY_MAX,
        }
    }
}

/// Needs of the module.
pub(crate) struct AccessParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) settings: AccessSettings,
    pub(crate) metrics: EmergencyMetrics,
}

impl AccessParts {
    pub(super) fn now(&self) -> OffsetDateTime {
        whole_millis(self.clock.now())
    }
}

/// True for the holder, and for people who may decide on the request.
pub(super) fn sees(view: &View, caller: &Caller, access: &AccessGrant) -> bool {
    access.holder.key() == holder_of(caller).key() || may_decide(view, caller, access)
}

/// True for an admin of the tenant, or of a tenant above it. A role for one cluster sees no tenant.
pub(super) fn may_decide(view: &View, caller: &Caller, access: &AccessGrant) -> bool {
    let mut roles = caller.each_role();
    roles.any(|it| DECIDE.allows(&it) && sees_tenant(view, &it, &access.tenant))
}

/// The request if the caller may know of it.
pub(super) fn find(view: &View, caller: &Caller, id: &str) -> Result<AccessGrant, RegistryError> {
    let found = view.access_request(id).map(|it| &it.value);
    let found = found.filter(|it| sees(view, caller, it));
    found
        .cloned()
        .ok_or_else(|| RegistryError::NoSuchAccess(id.to_owned()))
}

/// A comment as one line of text.
pub(super) fn comment_of(given: AccessComment) -> Result<Option<String>, InvalidValue> {
    let comment = given.comment.filter(|it| !it.trim().is_empty());
    let comment = comment.map(|it| checked_reason(&it).map(str::to_owned));
    comment.transpose()
}

pub(super) fn not_in_force(cause: impl std::fmt::Display) -> Failure {
    Failure::because(Code::NotAllowed, cause)
}

pub(super) fn id_schema() -> serde_json::Value {
    json!({ "type": "string", "pattern": "^ar-[0-9a-f]{16}$" })
}
