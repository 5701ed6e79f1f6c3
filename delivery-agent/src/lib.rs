//! Delivery in the cluster of an agent: follows the desired state of the hub, keeps a journal, and applies bundles.

pub mod content;
pub mod diff;
pub mod drift;
pub mod engine;
pub mod fence;
pub mod helm;
mod hub;
pub mod journal;
pub mod kube;
mod manifests;
mod process;
mod run_ids;
pub mod secrets;
#[cfg(test)]
mod testing;

pub use hub::{HubConnection, HubUnreachable};
pub use manifests::ManifestExecutor;
pub use process::ProcessIdentity;
pub use run_ids::new_run_id;
