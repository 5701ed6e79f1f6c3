//! Delivery at the hub: contents, sources, bundles, rollouts, deployments, runs, and groups of clusters.

mod agent_routes;
mod announcements;
mod artifacts;
mod bundles;
mod byte_range;
mod catalogs;
mod charts;
mod clusters;
mod commands;
mod confirm;
mod deployment_status;
mod deployments;
mod fleet;
mod garbage;
mod generations;
mod groups;
mod hub_bundles;
mod members;
mod metrics;
mod module;
mod parts;
mod proxy;
mod purge;
mod rights;
mod rollouts;
mod runs;
mod sources;
mod tools;

pub use announcements::Announcements;
pub use confirm::TargetGuard;
pub use fleet::FleetHandle;
pub use module::DeliveryModule;
pub use parts::DeliveryParts;
pub use proxy::ProgramProxy;
pub use sources::SourceSettings;
pub use tools::{INSTALLER, ToolManifests, catalog_url, desired_tool, is_tool_of_others};
