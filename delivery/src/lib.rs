//! Delivery at the hub: contents, sources, bundles, runs, and groups of clusters.

mod announcements;
mod artifacts;
mod bundles;
mod clusters;
mod confirm;
mod garbage;
mod generations;
mod groups;
mod members;
mod module;
mod parts;
mod rights;
mod runs;
mod sources;

pub use announcements::Announcements;
pub use confirm::TargetGuard;
pub use module::DeliveryModule;
pub use parts::DeliveryParts;
pub use sources::SourceSettings;
