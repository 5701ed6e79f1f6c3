//! Delivery in the cluster of an agent: follows the desired state of the hub, keeps a journal, and applies bundles.

mod hub;

pub use hub::{HubConnection, HubUnreachable};
