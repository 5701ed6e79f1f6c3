//! Delivery at the hub: contents, bundles, and groups of clusters.

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

pub use announcements::Announcements;
pub use confirm::TargetGuard;
pub use module::DeliveryModule;
pub use parts::DeliveryParts;
