//! Delivery at the hub: groups of clusters.

mod groups;
mod members;
mod module;
mod parts;
mod rights;

pub use module::DeliveryModule;
pub use parts::DeliveryParts;
