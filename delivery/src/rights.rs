//! Rights of delivery, and the group of its routes.

use fairlead_api::resources::Role;
use fairlead_routes::{Right, Tag};

/// Change sources, bundles and groups, and release bundles.
pub(crate) const DELIVER: Right = Right::new("delivery", &[Role::Admin, Role::Tenant]);

/// Group of the routes in the description of the API.
pub(crate) const TAG: Tag = Tag::new("delivery", "Delivery of manifests and charts to clusters");

/// Read logs of runs, and differences.
pub(crate) const READ_LOGS: Right = Right::new(
    "reading logs of runs",
    &[Role::Admin, Role::Operator, Role::Tenant],
);
