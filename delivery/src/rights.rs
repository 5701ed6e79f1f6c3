//! Rights of delivery.

use fairlead_api::resources::Role;
use fairlead_routes::Right;

/// Change sources, bundles and groups, and release bundles.
pub(crate) const DELIVER: Right = Right::new("delivery", &[Role::Admin, Role::Tenant]);
