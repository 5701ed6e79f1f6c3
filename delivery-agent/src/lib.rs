//! Delivery in the cluster of an agent: follows the desired state of the hub, keeps a journal, and applies bundles.

pub mod content;
mod delivery;
pub mod drift;
pub mod engine;
pub mod fence;
mod follow;
pub mod helm;
mod hub;
pub mod journal;
pub mod kube;
mod lease;
mod manifests;
mod process;
pub mod purge;
mod repairs;
mod reports;
mod run_ids;
pub mod secrets;
#[cfg(test)]
mod testing;
mod uploads;

pub use delivery::{DeliveryParts, run};
pub use fairlead_runner::{Launch, LaunchedRunner, Runner};
pub use helm::post_render;
pub use hub::{HubConnection, HubUnreachable};
pub use manifests::ManifestExecutor;
pub use process::ProcessIdentity;
pub use run_ids::new_run_id;
