//! Delivery in the cluster of an agent: follows the desired state of the hub, keeps a journal, and applies bundles.

pub mod content;
mod hub;
pub mod kube;
#[cfg(test)]
mod testing;

pub use hub::{HubConnection, HubUnreachable};
