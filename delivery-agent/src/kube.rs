//! Client of the API server for delivery: objects, lists, watches, and the kinds that the cluster has.

mod client;
mod discovery;
mod error;
mod list;
mod rate;
mod watch;

pub use client::{Deletion, KubeClient, Propagation};
pub use discovery::{ApiResource, Discovery, ResourceTable};
pub use error::KubeError;
pub use list::{ObjectList, Query};
pub use rate::RequestRate;
pub use watch::{ObjectWatch, WatchEvent};

#[cfg(test)]
mod tests;
